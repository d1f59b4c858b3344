"""Detects whether a message in memory changed in place since it was stored or read.

`ContentTracker` compares everything that the messages of a list hold, so it finds every change. `IdentityTracker`
relies on the application's promise to change no message in place: it regards every message object that it already
knows as unchanged, so the cost of a put hardly grows with the length of the conversation. Single messages are always
compared by content, because single messages are few and LangGraph sets their ids in place.
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

MESSAGE_CLASSES = frozenset(MESSAGES.values())
_fields = attrgetter("__dict__")
_content = attrgetter("content")
_extra = attrgetter("__pydantic_extra__")


class Tracker(Protocol):
    """Remembers a list of messages, without keeping them alive longer than the application does."""

    compares_content: ClassVar[bool]
    """Whether a message that was read counts as unchanged only if it still serializes to the bytes of its row."""

    size: int
    """Estimated memory of the tracker in bytes, including the texts and values of the messages."""

    def __len__(self) -> int:
        """Return the number of messages."""
        ...

    def add(self, messages: Sequence[BaseMessage], observed: Iterable[Any]) -> None:
        """Append messages with their observations (the results of `observe`).

        An `IdentityTracker` also accepts, in place of observations, the length in bytes of each message's row.
        """
        ...

    def prefix(self, length: int) -> Self:
        """Return a tracker of the first `length` messages."""
        ...

    def count_unchanged(self, messages: Sequence[Any], limit: int) -> int:
        """Return how many messages at the start of a list (at most `limit`) are the tracked messages, unchanged."""
        ...


Observation = tuple[tuple[int, ...], tuple[str, ...], tuple[Any, ...], tuple[Any, ...], bytes]
"""The fields of one or several messages at one moment.

The parts are: the number of fields of each message, the names of all fields, the values of all fields, the mutable
values among them, and these mutable values in msgpack.
"""


@dataclass(slots=True, eq=False)
class ContentTracker:
    """Compares all fields of messages, nested values included.

    The first messages are compared in blocks of 128, which is faster; the messages after the last full block are
    compared one by one. If a message of a block has changed, only the messages before that block count as unchanged.
    """

    compares_content: ClassVar[bool] = True
    _blocks: list[Observation | None] = field(default_factory=list[Observation | None])
    """One observation per block; None stands for a block that never counts as unchanged."""
    _tail: tuple[int, list[Observation | None]] = field(default_factory=lambda: (0, []))
    """The number of messages in blocks, and one observation for each message after the blocks.

    Both are in one tuple, so that another OS thread never sees only one of them changed.
    """
    size: int = 0

    def __len__(self) -> int:
        """Return the number of messages."""
        first, tail = self._tail
        return first + len(tail)

    def add(self, messages: Sequence[BaseMessage], observed: Iterable[Observation | None]) -> None:
        """Append messages with their observations."""
        first, tail = self._tail
        more = list(observed)
        tail.extend(more)
        self.size += sum(estimated_bytes([one], seen) for one, seen in zip(messages, more, strict=True))
        while len(tail) >= BLOCK:
            self._blocks[first // BLOCK :] = [_joined(tail[:BLOCK])]
            first, tail = self._tail = first + BLOCK, tail[BLOCK:]

    def observe(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages, and keep their current fields for later comparisons.

        128 messages become a block with one common observation if the tracker holds only full blocks so far.
        """
        first, tail = self._tail
        if tail or len(messages) != BLOCK:
            self.add(messages, map(observe, messages))
        else:
            observation = _observe(messages)
            self._blocks[first // BLOCK :] = [observation]
            self._tail = first + BLOCK, []
            self.size += estimated_bytes(messages, observation)

    def prefix(self, length: int) -> Self:
        """Return a tracker of the first `length` messages.

        If `length` is within a block, the messages of this block count as changed, because their common observation
        cannot be divided.
        """
        first, tail = self._tail
        blocks = min(length, first) // BLOCK
        cut: list[Observation | None] = [None] * (length % BLOCK)
        rest = tail[: length - first] if length >= first else cut
        return type(self)(self._blocks[:blocks], (blocks * BLOCK, rest), self.size * length // max(len(self), 1))

    def count_unchanged(self, messages: Sequence[Any], limit: int) -> int:
        """Compare classes and fields block by block, so that a block stays in the processor's cache."""
        first, tail = self._tail
        for number, block in enumerate(self._blocks[: min(first, limit) // BLOCK]):
            if not _are_unchanged(messages[number * BLOCK : (number + 1) * BLOCK], block):
                return number * BLOCK
        if limit <= first:
            return limit // BLOCK * BLOCK
        if _are_unchanged(messages[first:limit], _joined(tail[: limit - first])):
            return limit
        single = enumerate(tail[: limit - first], first)
        return next((at for at, seen in single if not _are_unchanged(messages[at : at + 1], seen)), limit)


Reference = Callable[[], BaseMessage | None]
"""A weak reference: it returns the message, or None once the application has dropped the message."""


class _Block(NamedTuple):
    """Weak references to the first and the last message, and the messages between them."""

    first: Reference
    last: Reference
    between: list[BaseMessage]
    """The messages between the first and the last; emptied once the application drops the first or the last."""

    def messages(self) -> list[BaseMessage]:
        """Return all messages of the block, or an empty list once its first or last message is gone."""
        first, last = self.first(), self.last()
        return [] if first is None or last is None else [first, *self.between, last]


@dataclass(slots=True, eq=False)
class IdentityTracker:
    """Regards every message object that it already knows as unchanged.

    Dereferencing one weak reference per message takes twice as long as comparing objects. So the tracker keeps the
    messages of a whole block alive, but only while the application keeps the block's first and last message.
    """

    compares_content: ClassVar[bool] = False
    _blocks: list[_Block] = field(default_factory=list[_Block])
    _tail: tuple[int, list[Reference]] = field(default_factory=lambda: (0, []))
    """The number of messages in blocks, and a weak reference to each message after the blocks.

    Both are in one tuple, so that another OS thread never sees only one of them changed.
    """
    size: int = 0
    _tail_bytes: int = 0
    """Estimated bytes of the messages after the blocks; the tracker does not keep these messages alive."""

    def __len__(self) -> int:
        """Return the number of messages."""
        first, tail = self._tail
        return first + len(tail)

    def add(self, messages: Sequence[BaseMessage], observed: Iterable[Any]) -> None:
        """Append weak references to messages, and keep alive the messages of each block that becomes complete."""
        first, tail = self._tail
        lengths = [one for one in observed if type(one) is int]
        self._tail_bytes += (
            _BYTES_PER_ROW_BYTE * sum(lengths)
            if lengths
            else sum(estimated_bytes([one], observe(one), per_packed=2) for one in messages)
        )
        self.size += _REFERENCE_BYTES * len(messages)
        if len(tail) + len(messages) < BLOCK:
            tail.extend(map(ref, messages))
            return
        held = [*map(call, tail), *messages]
        whole = len(held) // BLOCK * BLOCK
        self._blocks[first // BLOCK :] = [_block(held[at : at + BLOCK]) for at in range(0, whole, BLOCK)]
        added = self._tail_bytes * whole // len(held)
        self._tail_bytes, self.size = self._tail_bytes - added, self.size + added + _MESSAGE_BYTES * whole
        self._tail = first + whole, [*map(ref, messages[len(messages) + whole - len(held) :])]

    def prefix(self, length: int) -> Self:
        """Return a tracker of the first `length` messages."""
        first, tail = self._tail
        size = self.size * length // max(len(self), 1)
        if length >= first:
            return type(self)(self._blocks[: first // BLOCK], (first, tail[: length - first]), size, self._tail_bytes)
        blocks, rest = divmod(length, BLOCK)
        cut: list[Reference] = [*map(ref, self._blocks[blocks].messages()[:rest])] or [_released] * rest
        return type(self)(self._blocks[:blocks], (blocks * BLOCK, cut), size)

    def count_unchanged(self, messages: Sequence[Any], limit: int) -> int:
        """Compare objects by identity, a block at a time."""
        first, tail = self._tail
        known = 0
        for block in self._blocks[: first // BLOCK]:
            part, held = messages[known : min(known + BLOCK, limit)], block.messages()
            if not (len(part) == len(held) == BLOCK and all(map(is_, part, held))):
                return known + sum(1 for _ in takewhile(bool, map(is_, part, held)))
            known += BLOCK
        pairs = zip(messages[known:limit], tail, strict=False)
        same = (one is reference() and one is not None for one, reference in pairs)
        return known + sum(1 for _ in takewhile(bool, same))


def observe(message: BaseMessage) -> Observation | None:
    """Return the current fields of a message, to be compared later; None if a change could not be detected."""
    fields = message.__dict__
    values = tuple(fields.values())
    mutable = tuple([one for one in values if type(one) not in _IMMUTABLE])
    packed = _packed(mutable)
    return None if packed is None else ((len(fields),), tuple(fields), values, mutable, packed)


def is_unchanged(message: BaseMessage, before: Observation | None) -> bool:
    """Return whether a message has the same fields as when `observe` returned `before`."""
    return _are_unchanged([message], before)


def estimated_bytes(messages: Sequence[BaseMessage], seen: Observation | None, per_packed: int = 3) -> int:
    """Estimate the bytes of memory that an observation of messages keeps in use.

    Mutable values are not measured one by one. Instead, each byte of their msgpack form counts `per_packed` times:
    twice for the values in memory, and once more if the msgpack form itself is kept.
    """
    if seen is None:
        return 0
    _, _, values, _, packed = seen
    # measuring every value takes longer than the observation; only the content and an artifact are large
    large = [*map(_content, messages), *(one.artifact for one in messages if isinstance(one, ToolMessage))]
    return sum(map(getsizeof, large)) + _VALUE_BYTES * len(values) + per_packed * len(packed)


def _block(messages: Sequence[BaseMessage | None]) -> _Block:
    """Return a block of messages.

    If one of them is None, because the application has dropped the message, return a block that matches no messages.
    """
    there = [one for one in messages if one is not None]
    if len(there) < len(messages):
        return _Block(_released, _released, [])
    between = there[1:-1]
    release = partial(_release, between)
    return _Block(ref(there[0], release), ref(there[-1], release), between)


def _release(between: list[BaseMessage], _one: ref[BaseMessage]) -> None:
    between.clear()


def _released() -> None:
    """Return None. This function stands in place of a weak reference to a message that no longer exists."""


def _observe(messages: Sequence[BaseMessage]) -> Observation | None:
    """Return the current fields of many messages, as `observe` does, in less time per message."""
    fields = list(map(_fields, messages))
    values = tuple(_flat(map(_values, fields)))
    mutable = tuple([one for one in values if type(one) not in _IMMUTABLE])
    packed = _packed(mutable)
    return None if packed is None else (tuple(map(len, fields)), tuple(_flat(fields)), values, mutable, packed)


def _joined(observations: Sequence[Observation | None]) -> Observation | None:
    """Join several observations into one; return None if one of the observations is None."""
    there = [one for one in observations if one is not None]
    if len(there) < len(observations):
        return None
    sizes, names, values, mutable, packed = zip(*there, strict=True) if there else ((), (), (), (), ())
    return tuple(_flat(sizes)), tuple(_flat(names)), tuple(_flat(values)), tuple(_flat(mutable)), b"".join(packed)


def _are_unchanged(messages: Sequence[Any], before: Observation | None) -> bool:
    # a message of an unknown class, or with fields that its class does not declare, counts as changed
    if before is None or not set(map(type, messages)) <= MESSAGE_CLASSES or any(map(_extra, messages)):
        return False
    sizes, names, values, mutable, packed = before
    fields = list(map(_fields, messages))
    if tuple(map(len, fields)) != sizes or tuple(_flat(fields)) != names:
        return False
    # values are compared by identity: an enum can equal a text, and comparing arrays gives no truth value
    return all(map(is_, _flat(map(_values, fields)), values)) and _packed(mutable) == packed


def _packed(values: tuple[Any, ...]) -> bytes | None:
    """Return values in msgpack, whose bytes differ for 1, 1.0 and True; None if msgpack cannot write a value."""
    try:
        return ormsgpack.packb(values, None, PLAIN_OPTION)[_header_bytes(len(values)) :]
    except (TypeError, ValueError):
        return None


def _header_bytes(count: int) -> int:
    """Return the number of bytes that msgpack writes before the values of a list of this length."""
    return 1 if count < 2**4 else 3 if count < 2**16 else 5


BLOCK = 128
"""Number of messages that are compared at once."""
_VALUE_BYTES = 80
"""Estimated bytes of one field of a message: its value, the reference to the value, and the field's name."""
_MESSAGE_BYTES, _REFERENCE_BYTES = 900, 130
"""Estimated bytes of a message without its values, and of a weak reference to a message."""
_BYTES_PER_ROW_BYTE = 2
"""Estimated bytes in memory for each byte of a message's row."""
_IMMUTABLE: frozenset[type] = frozenset({str, bytes, int, float, bool, type(None)})
_flat = chain.from_iterable
_values = dict[str, Any].values
