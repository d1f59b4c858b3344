"""Read the mark of a message: whether a person wrote it, whether it is a summary, or pinned."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from ..config.summary_format import read_back

MARK = "compaction"
"""Key of `additional_kwargs` under which this package stores its mark: a mapping that describes the message."""

SUMMARY_KIND = "compaction_summary"


def marks(message: BaseMessage) -> Mapping[str, Any]:
    """Return the message's mark, `additional_kwargs["compaction"]`; an empty mapping if it has none."""
    found = message.additional_kwargs.get(MARK)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def is_summary(message: BaseMessage) -> bool:
    """Whether this message is a summary written by an earlier compaction."""
    return isinstance(message, HumanMessage) and marks(message).get("kind") == SUMMARY_KIND


def is_real_user(message: BaseMessage) -> bool:
    """Whether a person wrote this message: a user message that is no summary and whose mark does not say `meta`."""
    return isinstance(message, HumanMessage) and not marks(message).get("is_meta") and not is_summary(message)


def is_pinned(message: BaseMessage, pins: Collection[str] = ()) -> bool:
    """Whether this message must be kept verbatim, because its mark pins it or its id is in `pins`."""
    return bool(marks(message).get("pinned")) or message.id in pins


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
