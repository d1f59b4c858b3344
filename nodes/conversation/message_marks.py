"""Read the mark of a message: whether a person wrote it, whether it is a summary, or pinned."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeVar, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from ..config.summary_format import read_back

M = TypeVar("M", bound=BaseMessage)

MARK = "compaction"
"""Key of `additional_kwargs` under which this package stores its mark: a mapping that describes the message."""
NAMED_CHARACTERS = 16
"""Number of leading characters of a fingerprint that the channel `compaction` holds, to keep checkpoints small."""

SUMMARY_KIND = "compaction_summary"


def marks(message: BaseMessage) -> Mapping[str, Any]:
    """Return the message's mark, `additional_kwargs["compaction"]`; an empty mapping if it has none."""
    found = message.additional_kwargs.get(MARK)
    if found is None:  # most messages; `isinstance` with an abstract class takes longer than all the rest
        return {}
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def with_mark(message: M, mark: Mapping[str, Any]) -> M:
    """Return a copy of the message with this mark in place of its own; without a mark if it is empty."""
    kwargs = {**message.additional_kwargs, MARK: mark}
    if not mark:
        del kwargs[MARK]
    return message.model_copy(update={"additional_kwargs": kwargs})


_OF_APPLICATIONS = frozenset({"is_meta", "pinned", "unpinned", "ephemeral", "kind"})
_OURS = frozenset(
    {"handle", "compaction", "clipped", "refused", "command", "record", "facts", "front", "pins", "summary"}
)
_OF_LANGCHAIN = frozenset({"lc_source", "lc_data"})
"""Keys of `additional_kwargs` by which LangChain says that code wrote a message, such as a notification."""


def is_marked_by_us(message: BaseMessage) -> bool:
    """Whether a message has a mark that only a compaction writes: of a summary, a clipped or a refused message."""
    mark = marks(message)
    return not _OURS.isdisjoint(mark) or mark.get("kind") == SUMMARY_KIND


def with_our_marks(messages: Iterable[M]) -> list[M]:
    """Return the messages that have marks which only a compaction writes."""
    return [one for one in messages if MARK in one.additional_kwargs and is_marked_by_us(one)]


def without_our_marks(message: M) -> M:
    """Return the message without the marks that only a compaction writes; those of applications stay."""
    mark = {key: value for key, value in marks(message).items() if key in _OF_APPLICATIONS}
    if mark.get("kind") == SUMMARY_KIND:
        del mark["kind"]
    return with_mark(message, mark)


def is_summary(message: BaseMessage) -> bool:
    """Whether this message is a summary written by an earlier compaction."""
    return marks(message).get("kind") == SUMMARY_KIND and isinstance(message, HumanMessage)


def is_real_user(message: BaseMessage) -> bool:
    """Whether a person wrote this message: a user message that is no summary and that no code marks as its own."""
    return isinstance(message, HumanMessage) and not _is_meta(message) and not is_summary(message)


def _is_meta(message: BaseMessage) -> bool:
    return bool(marks(message).get("is_meta")) or not _OF_LANGCHAIN.isdisjoint(message.additional_kwargs)


def is_pinned(message: BaseMessage, pins: Collection[str] = ()) -> bool:
    """Whether this message must be kept verbatim, because its mark pins it or its id is in `pins`."""
    return bool(marks(message).get("pinned")) or message.id in pins


def is_clipped(message: BaseMessage) -> bool:
    """Whether the model sees a shortened form of the message."""
    return bool(marks(message).get("clipped"))


NOT_SENT_ID = "not-sent-"
"""Prefix of the id of an answer that this package writes because it did not send the messages to the model."""


def answers_for_model(message: BaseMessage) -> bool:
    """Whether this package wrote the message in place of the model's answer, because it refused the input."""
    return str(message.id).startswith(NOT_SENT_ID)


def refusal(messages: Sequence[AnyMessage]) -> str:
    """Return the text of the newest line that stands in the place of a refused message; empty if there is none."""
    return next((message.text for message in reversed(messages) if marks(message).get("refused")), "")


def first_inputs(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return a person's messages before the first assistant message, except those refused as too large."""
    spoken = takewhile(lambda message: not isinstance(message, AIMessage), messages)
    return [message for message in spoken if is_real_user(message) and not marks(message).get("refused")]


@dataclass(frozen=True, kw_only=True)
class EarlierSummary:
    """Content of the earlier summaries that the next summary takes over."""

    body: str = ""
    """The texts of the earlier summaries, joined by blank lines."""
    record: Mapping[str, Any] | None = None
    """The entries of a digest (a summary extracted without a model) as JSON, from which the next digest continues;
    `None` if a model wrote the summary."""
    facts: Mapping[str, Any] | None = None
    """The facts that stood next to a summary written by a model, as JSON in the format of `record`; `None` if there
    were none."""


def earlier_summary(leaving: Sequence[AnyMessage]) -> EarlierSummary:
    """Return the content of the earlier summaries among the messages to be removed.

    If there are several earlier summaries, for example because an application joined two message lists, their texts
    are joined and `record` and `facts` are `None`: a record describes only one summary.
    """
    earlier = [message for message in leaving if is_summary(message)]
    alone = marks(earlier[0]) if len(earlier) == 1 else {}
    records = {name: found for name in ("record", "facts") if isinstance(found := alone.get(name), Mapping)}
    return EarlierSummary(body="\n\n".join(map(_body, earlier)), **records)


def _body(message: AnyMessage) -> str:
    """Return the text of the summarizer, without the lines, pins and facts that `summary_message` put around it."""
    mark = marks(message)
    return read_back(message.text[mark.get("front", 0) :], mark)
