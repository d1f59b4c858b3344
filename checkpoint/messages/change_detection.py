"""How a message in memory is known to be as it was when it was stored or read.

`Contents` compares all that a list's messages hold, so that a change made in place is noticed. `Objects` takes the
application's word that there is none: the same object is the same message, and a put hardly grows with the thread.
Single messages are always compared whole: they are few, and LangGraph gives them their ids in place.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, takewhile
from operator import attrgetter, call, is_
from sys import getsizeof
from typing import Any, ClassVar, NamedTuple, Protocol, Self
from weakref import ref

import ormsgpack
from langchain_core.messages import BaseMessage, ToolMessage

from .message_codec import MESSAGES, PLAIN_OPTION

KINDS = frozenset(MESSAGES.values())
_fields = attrgetter("__dict__")
_content = attrgetter("content")
_extra = attrgetter("__pydantic_extra__")


class Looks(Protocol):
    """What is kept of a list of messages, which goes when they go. More may be added at its end."""

    compared: ClassVar[bool]
    """Whether messages that were read have to be compared with what they were read from."""

    size: int
    """Bytes that it keeps of the messages, their texts and values included; a copy's share is an estimate."""

    def __len__(self) -> int:
        """Return of how many messages."""
        ...

    def add(self, messages: Sequence[BaseMessage], looks: Iterable[Any]) -> None:
        """Keep more messages, and what `look` returned of each; without `compared` the bytes each was read from."""
        ...

    def start(self, length: int) -> Self:
        """Return a copy of what is kept of the first."""
        ...

    def shared(self, messages: Sequence[Any], most: int) -> int:
        """Return how many of a list, `most` at most, are the messages that are kept, as they were, from the start."""
        ...


Look = tuple[tuple[int, ...], tuple[str, ...], tuple[Any, ...], tuple[Any, ...], bytes]
"""Of one message or several: how many fields each has; their names; their values; and those of them that could be
changed, as they are and as msgpack wrote them."""


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
    size: int = 0

    def __len__(self) -> int:
        """Return of how many messages."""
        first, tail = self._tail
        return first + len(tail)

    def add(self, messages: Sequence[BaseMessage], looks: Iterable[Look | None]) -> None:
        """Keep what they looked like."""
        first, tail = self._tail
        more = list(looks)
        tail.extend(more)
        self.size += sum(weight([one], seen) for one, seen in zip(messages, more, strict=True))
        while len(tail) >= BLOCK:
            self._blocks[first // BLOCK :] = [_joined(tail[:BLOCK])]
            first, tail = self._tail = first + BLOCK, tail[BLOCK:]

    def look_at(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages as they look now: a block of them, after other blocks, or less."""
        first, tail = self._tail
        if tail or len(messages) != BLOCK:
            self.add(messages, map(look, messages))
        else:
            looked = _look(messages)
            self._blocks[first // BLOCK :] = [looked]
            self._tail = first + BLOCK, []
            self.size += weight(messages, looked)

    def start(self, length: int) -> Self:
        """Return a copy of what is kept of the first; a block that is cut equals nothing."""
        first, tail = self._tail
        blocks = min(length, first) // BLOCK
        cut: list[Look | None] = [None] * (length % BLOCK)
        rest = tail[: length - first] if length >= first else cut
        return type(self)(self._blocks[:blocks], (blocks * BLOCK, rest), self.size * length // max(len(self), 1))

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


Reference = Callable[[], BaseMessage | None]
"""What returns a message as long as somebody has it."""


class _Block(NamedTuple):
    """Its first and its last message, and those between them until either has gone."""

    first: Reference
    last: Reference
    between: list[BaseMessage]

    def held(self) -> list[BaseMessage]:
        """Return all of them, or none."""
        first, last = self.first(), self.last()
        return [] if first is None or last is None else [first, *self.between, last]


@dataclass(slots=True, eq=False)
class Objects:
    """The same object is the same message.

    To ask as many weak references takes twice as long as to compare objects that are at hand. So the messages of a
    whole block are kept alive, but only as long as somebody has its first and its last one; where these stand in
    the midst of blocks too, until the memo forgets the list.
    """

    compared: ClassVar[bool] = False
    _blocks: list[_Block] = field(default_factory=list[_Block])
    _tail: tuple[int, list[Reference]] = field(default_factory=lambda: (0, []))
    """The messages in blocks, and references to those after them. Both change at once."""
    size: int = 0
    _loose: int = 0
    """Bytes of the messages after the blocks, which are not kept alive."""

    def __len__(self) -> int:
        """Return of how many messages."""
        first, tail = self._tail
        return first + len(tail)

    def add(self, messages: Sequence[BaseMessage], looks: Iterable[Any]) -> None:
        """Keep references, and the messages of a block once it is whole."""
        first, tail = self._tail
        read = [one for one in looks if type(one) is int]
        self._loose += _READ * sum(read) if read else sum(weight([one], look(one), packed=2) for one in messages)
        self.size += _REFERENCE * len(messages)
        if len(tail) + len(messages) < BLOCK:
            tail.extend(map(ref, messages))
            return
        held = [*map(call, tail), *messages]
        whole = len(held) // BLOCK * BLOCK
        self._blocks[first // BLOCK :] = [_block(held[at : at + BLOCK]) for at in range(0, whole, BLOCK)]
        added = self._loose * whole // len(held)
        self._loose, self.size = self._loose - added, self.size + added + _OBJECT * whole
        self._tail = first + whole, [*map(ref, messages[len(messages) + whole - len(held) :])]

    def start(self, length: int) -> Self:
        """Return a copy of what is kept of the first."""
        first, tail = self._tail
        size = self.size * length // max(len(self), 1)
        if length >= first:
            return type(self)(self._blocks[: first // BLOCK], (first, tail[: length - first]), size, self._loose)
        blocks, rest = divmod(length, BLOCK)
        cut: list[Reference] = [*map(ref, self._blocks[blocks].held()[:rest])] or [_gone] * rest
        return type(self)(self._blocks[:blocks], (blocks * BLOCK, cut), size)

    def shared(self, messages: Sequence[Any], most: int) -> int:
        """Compare objects, a block at a time."""
        first, tail = self._tail
        known = 0
        for block in self._blocks[: first // BLOCK]:
            part, held = messages[known : min(known + BLOCK, most)], block.held()
            if not (len(part) == len(held) == BLOCK and all(map(is_, part, held))):
                return known + sum(1 for _ in takewhile(bool, map(is_, part, held)))
            known += BLOCK
        there = zip(messages[known:most], tail, strict=False)
        return known + sum(1 for _ in takewhile(bool, (one is held() and one is not None for one, held in there)))


def look(message: BaseMessage) -> Look | None:
    """Return what a message looks like now, to be compared with its fields later; None where that cannot be told."""
    return _look([message])


def unchanged(message: BaseMessage, before: Look | None) -> bool:
    """Say whether the very message of which `look` returned this looks as it did."""
    return _alike([message], before)


def weight(messages: Sequence[BaseMessage], kept: Look | None, packed: int = 3) -> int:
    """Estimate the bytes that a look keeps of messages: values, what these hold, and what refers to them.

    A byte of what msgpack wrote counts `packed` times: two of the objects that it was written from, and itself.
    """
    if kept is None:
        return 0
    _, _, values, _, written = kept
    # to measure every value takes longer than to look at a message; those of any size stand in these fields
    large = [*map(_content, messages), *(one.artifact for one in messages if isinstance(one, ToolMessage))]
    return sum(map(getsizeof, large)) + _A_VALUE * len(values) + packed * len(written)


def _block(messages: Sequence[BaseMessage | None]) -> _Block:
    """Keep a block; one of which a message has gone equals nothing."""
    there = [one for one in messages if one is not None]
    if len(there) < len(messages):
        return _Block(_gone, _gone, [])
    between = there[1:-1]
    let_go = partial(_let_go, between)
    return _Block(ref(there[0], let_go), ref(there[-1], let_go), between)


def _let_go(between: list[BaseMessage], _one: ref[BaseMessage]) -> None:
    between.clear()


def _gone() -> None:
    """Stand for a reference to a message that nobody has any more."""


def _look(messages: Sequence[BaseMessage]) -> Look | None:
    fields = list(map(_fields, messages))
    values = tuple(_flat(map(_values, fields)))
    inside = tuple(one for one in values if type(one) not in _CONSTANT)
    packed = _packed(inside)
    return None if packed is None else (tuple(map(len, fields)), tuple(_flat(fields)), values, inside, packed)


def _joined(looks: Sequence[Look | None]) -> Look | None:
    """Return what messages look like together; None where one of them equals nothing."""
    there = [one for one in looks if one is not None]
    if len(there) < len(looks):
        return None
    sizes, names, values, inside, packed = zip(*there, strict=True) if there else ((), (), (), (), ())
    return tuple(_flat(sizes)), tuple(_flat(names)), tuple(_flat(values)), tuple(_flat(inside)), b"".join(packed)


def _alike(messages: Sequence[Any], before: Look | None) -> bool:
    # a known class is one of the fields; what a class does not know of is not compared: it is serialized
    if before is None or not set(map(type, messages)) <= KINDS or any(map(_extra, messages)):
        return False
    sizes, names, values, inside, packed = before
    fields = list(map(_fields, messages))
    if tuple(map(len, fields)) != sizes or tuple(_flat(fields)) != names:
        return False
    # compared as objects: an equal text may be an enum's, and an array has no truth value
    return all(map(is_, _flat(map(_values, fields)), values)) and _packed(inside) == packed


def _packed(values: tuple[Any, ...]) -> bytes | None:
    """Write values whole: to Python 1, 1.0 and True are equal, in a message they are not."""
    try:
        return ormsgpack.packb(values, None, PLAIN_OPTION)[_head(len(values)) :]
    except (TypeError, ValueError):  # what msgpack does not know by itself could change unseen
        return None


def _head(count: int) -> int:
    """Return the bytes that msgpack writes before so many values of a list."""
    return 1 if count < 2**4 else 3 if count < 2**16 else 5


_A_VALUE = 80
"""Bytes of a usual value of a message and of what refers to it: its place, its name and its part of a dict."""
_OBJECT, _REFERENCE, _READ = 900, 130, 2
"""Bytes of a message beside its values, of a weak reference to it, and of its values for each byte of its row."""
BLOCK = 128
"""Messages that are compared at once."""
_CONSTANT: frozenset[type] = frozenset({str, bytes, int, float, bool, type(None)})
"""Types of values that nobody can change."""
_flat = chain.from_iterable
_values = dict[str, Any].values
