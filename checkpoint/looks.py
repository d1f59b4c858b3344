"""How a message in memory is known to be as it was when it was stored or read.

`Contents` compares all that it holds, so that a change made in place is noticed. `Objects` takes the application's
word that nothing is changed in place: the same object is the same message, and a put takes as long at any length.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter, is_
from typing import Any, Protocol
from weakref import ref

import ormsgpack
from langchain_core.messages import BaseMessage

from .codec import MESSAGES, PLAIN_OPTION

KINDS = frozenset(MESSAGES.values())
_fields = attrgetter("__dict__")
_extra = attrgetter("__pydantic_extra__")


class Looks(Protocol):
    """What is kept of messages without keeping them alive, and what it says of them later."""

    compared: bool
    """Whether messages that were read have to be compared with their bytes before they are taken for stored."""

    def which(self, messages: Sequence[BaseMessage]) -> list[Any]:
        """Return what tells these objects from others, one for each."""
        ...

    def look(self, message: BaseMessage) -> Any:
        """Return what a message looks like now."""
        ...

    def same(self, messages: Sequence[BaseMessage], which: list[Any], looks: list[Any]) -> bool:
        """Say whether these are the objects of which these were returned, and look as they did."""
        ...

    def unchanged(self, message: BaseMessage, look: Any) -> bool:
        """Say whether the very message of which this was returned looks as it did."""
        ...


class Contents:
    """All that a message holds is compared, however deep."""

    compared = True

    def which(self, messages: Sequence[BaseMessage]) -> list[Any]:
        """Return where they stand in memory: one in the place of one that has gone must look like it, too."""
        return list(map(id, messages))

    def look(self, message: BaseMessage) -> Any:
        """Return what its fields look like."""
        return _entries(message.__dict__)

    def same(self, messages: Sequence[BaseMessage], which: list[Any], looks: list[Any]) -> bool:
        """Compare places, classes and fields; what a class does not know of is not compared: it is serialised."""
        if self.which(messages) != which or not set(map(type, messages)) <= KINDS or any(map(_extra, messages)):
            return False
        try:
            return list(map(_fields, messages)) == looks
        except ValueError:  # an array has no truth value; it was not there before
            return False

    def unchanged(self, message: BaseMessage, look: Any) -> bool:
        """Compare its class and fields."""
        return self.same([message], self.which([message]), [look])


class Objects:
    """The same object is the same message. What is put before it has an id gets one in place, from LangGraph."""

    compared = False

    def which(self, messages: Sequence[BaseMessage]) -> list[Any]:
        """Return weak references: of one object there is one, which no other object gets after it."""
        return list(map(ref, messages))

    def look(self, message: BaseMessage) -> Any:
        """Return its id."""
        return message.id

    def same(self, messages: Sequence[BaseMessage], which: list[Any], looks: list[Any]) -> bool:
        """Compare the references as objects: they are equal where the messages are. Those in a list have an id."""
        return len(messages) == len(which) == len(looks) and all(map(is_, self.which(messages), which))

    def unchanged(self, message: BaseMessage, look: Any) -> bool:
        """Compare its id."""
        return bool(message.id == look)


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
