"""What a message says of itself: real input or meta, a summary, pinned, texts that it pins."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from ..config.summary_format import read_back
from ..text.quoting import between_tags, without_quotations
from .tokens import TokenCounter, texts_of

MARK = "compaction"
"""The key of `additional_kwargs` under which a message says what it is."""

SUMMARY_KIND = "compaction_summary"

_INLINE_CODE = re.compile(r"`[^`\n]*`")


def marks(message: BaseMessage) -> Mapping[str, Any]:
    """What the message says of itself under `additional_kwargs["compaction"]`; empty when it says nothing."""
    found = message.additional_kwargs.get(MARK)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def is_summary(message: BaseMessage) -> bool:
    """Whether this message is a summary that a compaction of ours wrote."""
    return isinstance(message, HumanMessage) and marks(message).get("kind") == SUMMARY_KIND


def is_real_user(message: BaseMessage) -> bool:
    """Whether a person said this: a user message that is neither meta nor a summary."""
    return isinstance(message, HumanMessage) and not marks(message).get("is_meta") and not is_summary(message)


def is_pinned(message: BaseMessage, pins: Collection[str] = ()) -> bool:
    """Whether this message stays verbatim: by its own mark, or because its id is among the pins."""
    return bool(marks(message).get("pinned")) or message.id in pins


def pinned_texts(messages: Sequence[AnyMessage], most: int, counter: TokenCounter) -> tuple[str, ...]:
    """Texts that a person pinned with `<Pin>`, oldest first, each once, as long as they hold at most `most` tokens.

    Only what a real user said counts, outside code and quotations; and what an earlier summary carries on.
    """
    kept: list[str] = []
    for text in dict.fromkeys(text for message in messages for text in pins_in(message)):
        size = counter.text(text)
        if size <= most:
            kept.append(text)
            most -= size
    return tuple(kept)


def pins_in(message: AnyMessage) -> list[str]:
    """The texts that this message pins, or carries on."""
    if is_summary(message):
        return [str(text) for text in marks(message).get("pins", ())]
    if not is_real_user(message):
        return []
    own = "\n".join(_INLINE_CODE.sub(" ", without_quotations(text)) for text in texts_of(message))
    released = marks(message).get("unpinned", ())
    return [
        text
        for found in between_tags(own, "pin", ignore_case=True)
        if (text := found.strip()) and text not in released
    ]


def without_pin(message: AnyMessage, text: str) -> AnyMessage:
    """The message without this pinned text among those that it pins or carries on; its words stay as they are."""
    known = marks(message)
    left = [pin for pin in pins_in(message) if pin != text]
    mark = {"pins": left} if is_summary(message) else {"unpinned": [*known.get("unpinned", ()), text]}
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, MARK: {**known, **mark}}})


def first_inputs(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """What a person said before the first answer; nothing that was refused."""
    spoken = takewhile(lambda message: not isinstance(message, AIMessage), messages)
    return [message for message in spoken if is_real_user(message) and not marks(message).get("refused")]


@dataclass(frozen=True, kw_only=True)
class EarlierSummary:
    """What the earlier summary among the messages that leave hands on."""

    body: str = ""
    record: Mapping[str, Any] | None = None
    """Of a digest: what the whole of it rests on."""
    facts: Mapping[str, Any] | None = None
    """The record of the facts beside a summary in prose."""


def earlier_summary(leaving: Sequence[AnyMessage]) -> EarlierSummary:
    """What the earlier summaries among the messages that leave hand on.

    Of several, as in lists that were joined, all texts; a record speaks for one summary only.
    """
    earlier = [message for message in leaving if is_summary(message)]
    alone = marks(earlier[0]) if len(earlier) == 1 else {}
    records = {name: found for name in ("record", "facts") if isinstance(found := alone.get(name), Mapping)}
    return EarlierSummary(body="\n\n".join(map(_body, earlier)), **records)


def _body(message: AnyMessage) -> str:
    """The text of a summary message, without its frame and what stands beside it; inverse of `summary_message`."""
    mark = marks(message)
    return read_back(message.text[mark.get("front", 0) :], mark)
