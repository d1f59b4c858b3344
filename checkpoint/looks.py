"""How a message in memory is known to be as it was when it was stored or read.

`Contents` compares all that a list's messages hold, so that a change made in place is noticed. `Objects` takes the
application's word that there is none: the same object is the same message, and a put hardly grows with the thread.
Single messages are always compared whole: they are few, and LangGraph gives them their ids in place.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, islice, takewhile
from operator import attrgetter, call, is_
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

    def shared(self, messages: Sequence[Any], most: int) -> int:
        """Return how many of a list, `most` at most, are the messages that are kept, as they were, from the start."""
        ...


Look = tuple[tuple[int, ...], tuple[str, ...], tuple[Any, ...], bytes, bytes]
"""Of one message or several: how many fields each has; their names; the values that nobody can change; which these
are, a byte for each field; and the other values as msgpack writes them. Garbage collection passes by such a tuple."""


@dataclass(slots=True, eq=False)
class Contents:
    """All that a message holds is compared, however deep: a block at a time, but for the last messages.

    What stands in a block is known up to the block, where one message of it has changed.
    """

    compared: ClassVar[bool] = True
    _blocks: list[Look | None] = field(default_factory=list[Look | None])
    """None equals nothing."""
    _tail: tuple[int, list[Look | None]] = field(default_factory=lambda: (0, []))
    """The messages in blocks, and what each of those after them looked like. Both change at once."""

    def __len__(self) -> int:
        """Return of how many messages."""
        first, tail = self._tail
        return first + len(tail)

    def add(self, messages: Sequence[BaseMessage], looks: Iterable[Look | None]) -> None:  # noqa: ARG002 - looks tell
        """Keep what they looked like."""
        first, tail = self._tail
        tail.extend(looks)
        while len(tail) >= BLOCK:
            self._blocks[first // BLOCK :] = [_joined(tail[:BLOCK])]
            first, tail = self._tail = first + BLOCK, tail[BLOCK:]

    def look_at(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages as they look now: a block of them, after other blocks, or less."""
        first, tail = self._tail
        if tail or len(messages) != BLOCK:
            self.add(messages, map(look, messages))
        else:
            self._blocks[first // BLOCK :] = [_look(messages)]
            self._tail = first + BLOCK, []

    def start(self, length: int) -> Self:
        """Return a copy of what is kept of the first; a block that is cut equals nothing."""
        first, tail = self._tail
        blocks = min(length, first) // BLOCK
        cut: list[Look | None] = [None] * (length % BLOCK)
        rest = tail[: length - first] if length >= first else cut
        return type(self)(self._blocks[:blocks], (blocks * BLOCK, rest))

    def shared(self, messages: Sequence[Any], most: int) -> int:
        """Compare classes and fields. What a pass over a block touches stays in the processor's cache."""
        first, tail = self._tail
        for number, block in enumerate(self._blocks[: min(first, most) // BLOCK]):
            if not _alike(messages[number * BLOCK : (number + 1) * BLOCK], block):
                return number * BLOCK
        if most <= first:
            return most // BLOCK * BLOCK
        if _alike(messages[first:most], _joined(tail[: most - first])):
            return most
        there = enumerate(tail[: most - first], first)
        return next((place for place, before in there if not _alike(messages[place : place + 1], before)), most)


@dataclass(slots=True, eq=False)
class Objects:
    """The same object is the same message."""

    compared: ClassVar[bool] = False
    refs: list[ref[BaseMessage]] = field(default_factory=list[ref[BaseMessage]])

    def __len__(self) -> int:
        """Return of how many messages."""
        return len(self.refs)

    def add(self, messages: Sequence[BaseMessage], looks: Iterable[Any]) -> None:  # noqa: ARG002 - not compared
        """Keep references that do not keep them alive."""
        self.refs.extend(map(ref, messages))

    def start(self, length: int) -> Self:
        """Return a copy of what is kept of the first."""
        return type(self)(self.refs[:length])

    def shared(self, messages: Sequence[Any], most: int) -> int:
        """Compare objects; None, which the reference to one that has gone returns, is no message."""
        same = all(map(is_, islice(messages, most), map(call, self.refs))) and all(islice(messages, most))
        if same and len(messages) >= most:
            return most
        return sum(1 for _ in takewhile(self._is_at, enumerate(islice(messages, most))))

    def _is_at(self, placed: tuple[int, Any]) -> bool:
        place, one = placed
        held = self.refs[place]()
        return held is not None and held is one


def look(message: BaseMessage) -> Look | None:
    """Return what a message looks like now, to be compared with its fields later; None where that cannot be told."""
    return _look([message])


def unchanged(message: BaseMessage, before: Look | None) -> bool:
    """Say whether the very message of which `look` returned this looks as it did."""
    return _alike([message], before)


def _look(messages: Sequence[BaseMessage]) -> Look | None:
    sizes, names, values = _held(messages)
    where = bytes(map(_CONSTANT.__contains__, map(type, values)))
    rest = _packed(values, where)
    return None if rest is None else (sizes, names, tuple(compress(values, where)), where, rest)


def _joined(looks: Sequence[Look | None]) -> Look | None:
    """Return what messages look like together; None where one of them equals nothing."""
    there = [one for one in looks if one is not None]
    if len(there) < len(looks):
        return None
    sizes, names, values, where, rest = zip(*there, strict=True) if there else ((), (), (), (), ())
    flat = chain.from_iterable
    return tuple(flat(sizes)), tuple(flat(names)), tuple(flat(values)), b"".join(where), b"".join(rest)


def _alike(messages: Sequence[Any], before: Look | None) -> bool:
    # a known class is one of the fields; what a class does not know of is not compared: it is serialised
    if before is None or not set(map(type, messages)) <= KINDS or any(map(_extra, messages)):
        return False
    sizes, names, constant, where, rest = before
    *shape, values = _held(messages)
    if shape != [sizes, names]:
        return False
    # compared as objects: an equal text may be an enum's, and an array has no truth value
    return all(map(is_, compress(values, where), constant)) and _packed(values, where) == rest


def _held(messages: Sequence[BaseMessage]) -> tuple[tuple[int, ...], tuple[str, ...], tuple[Any, ...]]:
    fields = list(map(_fields, messages))
    flat = chain.from_iterable
    return tuple(map(len, fields)), tuple(flat(fields)), tuple(flat(map(_values, fields)))


def _packed(values: tuple[Any, ...], where: bytes) -> bytes | None:
    """Write the values that could be changed: to Python 1, 1.0 and True are equal, in a message they are not."""
    held = list(compress(values, where.translate(_OTHERS)))
    try:
        return ormsgpack.packb(held, None, PLAIN_OPTION)[_head(len(held)) :]
    except (TypeError, ValueError):  # what msgpack does not know by itself could change unseen
        return None


def _head(count: int) -> int:
    """Return the bytes that msgpack writes before so many values of a list."""
    return 1 if count < 2**4 else 3 if count < 2**16 else 5


BLOCK = 128
"""Messages that are compared at once."""
_CONSTANT: frozenset[type] = frozenset({str, bytes, type(None)})
"""Types of values that nobody can change."""
_OTHERS = bytes([1, *bytes(255)])
_values = dict[str, Any].values
