"""Finds which identifiers, with the words near them, a compacted context keeps."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from langgraph_compaction.checkpoint.patterns import Pattern, escape
from langgraph_compaction.nodes.conversation.tokens import texts_of

NEAR = 80
"""Number of characters on either side of an identifier that count as near the identifier."""

_SHORTEST, _ENOUGH = 3, 2
"""Length in characters of the shortest identifier; number of words that must still stand near it in a context.

With fewer of the words that stood near it before, an identifier is in the context but has lost its meaning.
"""

_TOKEN = Pattern(r"[A-Za-z0-9]++(?:[_\-./@:#+]++[A-Za-z0-9]++)*+")
_WORD = Pattern(r"[A-Za-z]{3,}")


@dataclass(frozen=True)
class Cut:
    """A recorded run, cut in two."""

    name: str
    old: Sequence[AnyMessage]
    """Messages before the cut, without the system prompt."""
    needed: Sequence[frozenset[str]]
    """For each call after the cut, the identifiers that it needs from before the cut.

    These identifiers are in the call's arguments and in a message before the cut, but neither in the system prompt
    nor in a user or tool message between the cut and the call. Calls that need none are left out.
    """
    later: Sequence[AnyMessage] = ()
    """Messages after the cut."""

    @cached_property
    def text(self) -> str:
        """The text of the messages before the cut."""
        return text_of(self.old)

    @property
    def inputs(self) -> Sequence[Sequence[AnyMessage]]:
        """What a policy is given: the messages before the cut."""
        return [self.old]

    @property
    def identifiers(self) -> frozenset[str]:
        """Every identifier that a later call needs."""
        return frozenset[str]().union(*self.needed)


def cut(name: str, messages: Sequence[AnyMessage], share: float) -> Cut:
    """Cut a run after about this share of its messages, but never between a call and its result."""
    at = int(len(messages) * share)
    while at < len(messages) and isinstance(messages[at], ToolMessage):
        at += 1
    old = [_named(place, message) for place, message in enumerate(messages[:at]) if message.type != "system"]
    prompt = text_of(message for message in messages if isinstance(message, SystemMessage))
    needed = list(_needed(messages[at:], text_of(old), prompt))
    return Cut(name, old, needed, messages[at:])


def _named(place: int, message: AnyMessage) -> AnyMessage:
    """Return a message with its own id, or else with an id made from its place, so that its handle is stable."""
    return message if message.id else message.model_copy(update={"id": f"message-{place}"})


def text_of(messages: Iterable[BaseMessage]) -> str:
    """Return the text of messages: their content, and each tool call as `name(arguments)`."""
    return "\n".join(text for message in messages for text in texts_of(message))


def identifiers(text: str) -> set[str]:
    """Return the identifiers of a text.

    An identifier has at least three characters, and contains a digit or a joiner (such as `_`, `.`, `/` or `-`) or
    consists of capital letters only.
    """
    long = (token for token in _TOKEN.findall(text) if len(token) >= _SHORTEST)
    return {token for token in long if token.isupper() or not token.isalpha()}


def asked(call: ToolCall) -> set[str]:
    """Return the identifiers in the arguments of a call."""
    return {token for text in _leaves(call["args"]) for token in identifiers(text)}


def _leaves(value: Any) -> Iterator[str]:
    """Yield the text of every value inside an argument."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield str(value)


def _needed(later: Sequence[AnyMessage], before: str, prompt: str) -> Iterator[frozenset[str]]:
    supplied = prompt
    for message in later:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                needed = frozenset(
                    token for token in asked(call) if holds(before, token) and not holds(supplied, token)
                )
                if needed:
                    yield needed
        else:
            supplied += "\n" + text_of([message])


@lru_cache(maxsize=8_192)
def _bounded(token: str) -> Pattern:
    return Pattern(rf"(?<!\w){escape(token)}(?!\w)")


def holds(text: str, token: str) -> bool:
    """Whether a text contains an identifier, on word boundaries."""
    return token in text and _bounded(token).search(text) is not None


def bound(context: str, before: str, token: str) -> bool:
    """Whether the context shows an identifier near at least two of the words near it in the text `before`."""
    original = set[str]().union(*_near(before, token))
    return any(len(words & original) >= _ENOUGH for words in _near(context, token))


def _near(text: str, token: str) -> Iterator[set[str]]:
    """Yield, for each occurrence of an identifier, the words of three letters or more on both of its sides."""
    for found in _bounded(token).finditer(text):
        sides = f"{text[max(0, found.start() - NEAR) : found.start()]} | {text[found.end() : found.end() + NEAR]}"
        yield {word.lower() for word in _WORD.findall(sides)}
