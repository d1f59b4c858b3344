"""Finds which identifiers, with the words near them, and which rules of a conversation a compacted context keeps."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from langgraph_compaction.checkpoint.patterns import Anchored, Pattern, escape
from langgraph_compaction.nodes.conversation.tokens import texts_of

NEAR = 80
"""Number of characters on either side of an identifier that count as near the identifier."""

WINDOW = 60
"""Number of consecutive words of a context among which the words of a constraint must be found."""

_SHORTEST, _ENOUGH = 3, 2
"""Length in characters of the shortest identifier; number of words that must still stand near it in a context.

With fewer of the words that stood near it before, an identifier is in the context but has lost its meaning.
"""

_TOKEN = Pattern(r"[A-Za-z0-9]++(?:[_\-./@:#+]++[A-Za-z0-9]++)*+")
_WORD = Pattern(r"[A-Za-z]{3,}")
_TERM = Pattern(r"[a-z0-9']+|[一-鿿]+")
_ENDINGS = ("ing", "ed", "es", "s", "ly")
FILLER = Anchored(
    r"a|an|and|are|as|at|be|by|do|does|for|from|have|i|in|is|it|its|me|must|my|never|no|not|of|on|only|or|please"
    r"|that|the|their|them|this|to|under|want|with|you|your"
)
"""Matches words without content of their own, such as articles and pronouns."""


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
    return set(listed(text))


def listed(text: str) -> list[str]:
    """Return the identifiers of a text in their order, with repetitions."""
    long = (token for token in _TOKEN.findall(text) if len(token) >= _SHORTEST)
    return [token for token in long if token.isupper() or not token.isalpha()]


def asked(call: ToolCall) -> set[str]:
    """Return the identifiers in the arguments of a call."""
    return {token for _, leaf in leaves(call["args"]) for token in identifiers(leaf)}


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


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the key and the text of every value inside an argument."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, key)
    else:
        yield key, str(value)


@lru_cache(maxsize=8_192)
def _bounded(token: str) -> Pattern:
    return Pattern(rf"(?<!\w){escape(token)}(?!\w)")


def holds(text: str, token: str) -> bool:
    """Whether a text contains an identifier, on word boundaries."""
    return token in text and _bounded(token).search(text) is not None


def bound(context: str, before: str, token: str) -> bool:
    """Whether the context shows an identifier near at least two of the words near it in the text `before`."""
    original = set[str]().union(*map(words_of, around(before, token)))
    return any(related(near, original) for near in around(context, token))


def related(text: str, words: Collection[str]) -> bool:
    """Whether a text has at least two of these words."""
    return len(words_of(text).intersection(words)) >= _ENOUGH


def words_of(text: str) -> set[str]:
    """Return the words in a text that have three letters or more."""
    return {word.lower() for word in _WORD.findall(text)}


def around(text: str, token: str, distance: int = NEAR) -> Iterator[str]:
    """Yield, for each occurrence of an identifier, the text on both of its sides, joined by a bar."""
    for before, after in beside(text, token, distance):
        yield f"{before} | {after}"


def beside(text: str, token: str, distance: int = NEAR) -> Iterator[tuple[str, str]]:
    """Yield the `distance` characters before and after each occurrence of an identifier."""
    for found in _bounded(token).finditer(text):
        yield text[max(0, found.start() - distance) : found.start()], text[found.end() : found.end() + distance]


def terms(text: str) -> list[str]:
    """Return the stemmed words of a text; for Chinese, every pair of neighboring characters."""
    found: list[str] = []
    for term in _TERM.findall(text.lower()):
        if term[0] >= "一":
            found += [term[i : i + 2] for i in range(max(1, len(term) - 1))]
        elif not FILLER.fullmatch(term):
            ending = next(filter(term.endswith, _ENDINGS), "")
            found.append(term.removesuffix(ending))
    return found


def survives(context: str, constraint: str) -> bool:
    """Whether some 60 consecutive words of the context hold at least half of a constraint's content words."""
    wanted, said = set(terms(constraint)), terms(context)
    best = max(len(wanted & set(said[i : i + WINDOW])) for i in range(max(1, len(said) - WINDOW + 1)))
    return 2 * best >= len(wanted)


def planted(old: Sequence[AnyMessage], constraint: str, place: float, before: bool) -> list[AnyMessage]:
    """Return the messages with a constraint planted into the user message at a place; place 0.0 is the first."""
    users = [index for index, message in enumerate(old) if isinstance(message, HumanMessage)]
    if not users:
        return list(old)
    at = users[round(place * (len(users) - 1))]
    words = (constraint, old[at].text) if before else (old[at].text, constraint)
    return [m if i != at else HumanMessage(" ".join(words), id=m.id) for i, m in enumerate(old)]
