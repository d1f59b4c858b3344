"""What the next request must hold word for word: pinned texts, and facts chosen before anyone summarizes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from ..conversation.tokens import TokenCounter, texts_of
from ..conversation.transcript import MARK, is_real_user, is_summary, marks
from ..text.quoting import between_tags, without_quotations
from .codec import unpack
from .digest import digest
from .model import Section

_FACTS: tuple[Section, ...] = ("Rules", "Facts")
_INLINE_CODE = re.compile(r"`[^`\n]*`")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts for a summary that someone else writes."""

    text: str = ""
    """The lines that show them; empty where there are none."""
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the next facts absorb of them."""
    needed: tuple[tuple[str, ...], ...] = ()
    """For each fact its value and the words that give it meaning, as they must stand in the request."""


NO_FACTS = Facts()


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


def facts_of(
    old: Sequence[AnyMessage], earlier: Mapping[str, Any] | None, *, budget: int, counter: TokenCounter
) -> Facts:
    """Rules and facts of what leaves, and of an earlier summary, that are worth most in `budget` tokens of text."""
    made = digest(old, budget=budget, counter=counter, previous=earlier, sections=_FACTS)
    shown = [entry for entry in unpack(made.record)[1] if entry.value in made.text]
    needed = tuple(tuple(w for w in (e.value, e.key, e.path) if w and w in made.text) for e in shown)
    return Facts(text=made.text, record=made.record, needed=needed)
