"""How a message in memory is known to be as it was when it was stored or read.

`Contents` compares all that a list's messages hold, so that a change made in place is noticed. `Objects` takes the
application's word that there is none: the same object is the same message, and a put hardly grows with the thread.
Single messages are always compared whole: they are few, and LangGraph gives them their ids in place.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter, is_
from typing import Any, ClassVar, Protocol, Self
from weakref import ref

import ormsgpack
from langchain_core.messages import BaseMessage

from .codec import MESSAGES, PLAIN_OPTION

KINDS = frozenset(MESSAGES.values())
_fields = attrgetter("__dict__")
_extra = attrgetter("__pydantic_extra__")


class Looks(Protocol):
    """What is kept of a list of messages, without keeping them alive. More may be added at its end."""

    compared: ClassVar[bool]
    """Whether messages that were read have to be compared with what they were read from."""

    def __len__(self) -> int:
        """Return of how many messages."""
        ...

    def add(self, messages: Sequence[BaseMessage], looks: Iterable[Any]) -> None:
        """Keep more messages, and what `look` returned of each; without `compared` that is not needed."""
        ...

    def start(self, length: int) -> Self:
        """Return a copy of what is kept of the first."""
        ...

    def same(self, messages: Sequence[Any], start: int, end: int) -> bool:
        """Say whether these of a list are the messages at the same places here, as they were."""
        ...


@dataclass(slots=True, eq=False)
class Contents:
    """All that a message holds is compared, however deep."""

    compared: ClassVar[bool] = True
    places: "array[int]" = field(default_factory=lambda: array("Q"))
    """In memory: a message in the place of one that has gone must look like it, too."""
    looks: list[Any] = field(default_factory=list[Any])

    def __len__(self) -> int:
        """Return of how many messages."""
        return len(self.looks)

    def add(self, messages: Sequence[BaseMessage], looks: Iterable[Any]) -> None:
        """Keep what they looked like, and where they stand: in this order, or an interrupt would shift the places."""
        self.looks.extend(looks)
        self.places.extend(map(id, messages))

    def start(self, length: int) -> Self:
        """Return a copy of what is kept of the first."""
        return type(self)(self.places[:length], self.looks[:length])

    def same(self, messages: Sequence[Any], start: int, end: int) -> bool:
        """Compare places, classes and fields."""
        part = messages[start:end]
        return array("Q", map(id, part)) == self.places[start:end] and _alike(part, self.looks[start:end])


@dataclass(slots=True, eq=False)
class Objects:
    """The same object is the same message."""

    compared: ClassVar[bool] = False
    refs: list[ref[BaseMessage]] = field(default_factory=list[ref[BaseMessage]])
    """As long as one is held, `ref` returns the same one for the same object, and another for any other."""

    def __len__(self) -> int:
        """Return of how many messages."""
        return len(self.refs)

    def add(self, messages: Sequence[BaseMessage], looks: Iterable[Any]) -> None:  # noqa: ARG002 - not compared
        """Keep references that do not keep them alive."""
        self.refs.extend(map(ref, messages))

    def start(self, length: int) -> Self:
        """Return a copy of what is kept of the first."""
        return type(self)(self.refs[:length])

    def same(self, messages: Sequence[Any], start: int, end: int) -> bool:
        """Compare the references as objects: as values they are equal where the messages are."""
        try:
            return all(map(is_, map(ref, islice(messages, start, end)), islice(self.refs, start, end)))
        except TypeError:  # a text, a dict or None cannot be referred to, and is no message
            return False


def look(message: BaseMessage) -> Any:
    """Return what a message looks like now, to be compared with its fields later."""
    return _entries(message.__dict__)


def unchanged(message: BaseMessage, before: Any) -> bool:
    """Say whether the very message of which `look` returned this looks as it did."""
    return _alike([message], [before])


def _alike(messages: Sequence[BaseMessage], looks: list[Any]) -> bool:
    # a known class is one of the fields; what a class does not know of is not compared: it is serialised
    if not set(map(type, messages)) <= KINDS or any(map(_extra, messages)):
        return False
    try:
        return list(map(_fields, messages)) == looks
    except ValueError:  # an array has no truth value; it was not there before
        return False


class _Packed(bytes):
    """Equals what msgpack writes as these bytes: to Python 1, 1.0 and True are equal, in a message they are not."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        try:
            return bytes.__eq__(self, ormsgpack.packb(other, None, PLAIN_OPTION))
        except TypeError:  # it cannot be written by itself; it was not there before
            return False

    __hash__ = None  # type: ignore[assignment] # it is compared, and never a key


def _copied(value: Any) -> Any:
    """Copy plain containers; a value that could change unseen becomes one that equals nothing."""
    kind = type(value)
    if kind is dict or kind is list or kind is tuple:
        if not value:
            return _EMPTY[kind]
        parts = set(map(type, value.values() if kind is dict else value))
        if parts <= _CONSTANT:
            return value.copy() if kind is dict else kind(value)
        if parts <= _COUNTS and parts & _NUMBERS:
            return _packed(value)  # one comparison instead of many
        return _entries(value) if kind is dict else kind(map(_copied, value))
    if kind in _CONSTANT:
        return value
    return _packed(value) if kind in _NUMBERS else object()


def _entries(held: Mapping[Any, Any]) -> dict[Any, Any]:
    seen = dict(held)
    for key, one in held.items():
        if (kind := type(one)) not in _CONSTANT:
            seen[key] = _EMPTY[kind] if kind in _EMPTY and not one else _copied(one)
    return seen


def _packed(value: Any) -> Any:
    try:
        return _Packed(ormsgpack.packb(value, None, PLAIN_OPTION))
    except TypeError:  # a number of more than 64 bits, or what msgpack does not know by itself
        return object()


_CONSTANT: frozenset[type] = frozenset({str, bytes, type(None)})
"""Types of values that nobody can change."""
_NUMBERS: frozenset[type] = frozenset({int, float, bool})
_COUNTS: frozenset[type] = _NUMBERS | {dict}
_EMPTY: dict[type, Any] = {dict: {}, list: [], tuple: ()}
