"""What was stored last, so that a put of a long list serializes only what is new in it.

A list is known again by its first object, and its messages by what they looked like (looks.py): one that an
application changed in place is stored again like a new one. Messages are referred to weakly: a thread whose messages
nobody has any more is forgotten, as nothing of it could be known again.

A turn of a thread counts as running while somebody has a message of it that is remembered, and the thread was read or
written within `RUNNING_S`. LangGraph holds a run's messages until the run ends; the time keeps an application that
keeps the messages of all its conversations within the limits.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple, TypeVar
from weakref import ref

from langchain_core.messages import BaseMessage

from .change_detection import BLOCK, KINDS, Contents, Looks, unchanged, weight
from .message_codec import bytes_hash, is_still
from .message_store import Prepared
from .sequence_runs import Runs, first

_LISTS_A_THREAD = 4  # channels, and the states that are sent to nodes
_HELD_A_THREAD = 64
_FRESH = 8
_LOOKED_AT = 4
"""Threads, the least recently used, that are looked at after each change. A change adds one at most."""

THREADS, BYTES = 1_024, 256 * 2**20
"""What a saver remembers by default."""

RUNNING_S = 3_600.0
"""Seconds after its last read or write for which a turn may count as running."""

_THREAD_BYTES, _LIST_BYTES, _READ_BYTES, _HELD_BYTES = 1_500, 400, 42, 700
"""What a thread, a list, a message of a list that was read, and a single message take besides their contents."""

L = TypeVar("L", bound="Known | Read")
Age = tuple[int, int]
"""(key, generation) of a thread: with another one, rows that were known may be gone."""


class Known(NamedTuple):
    """A list of messages as it stands in the database."""

    age: Age
    first: ref[BaseMessage]
    length: int
    looks: Looks
    """What is kept of the messages and, where another list grew from this one, of more."""
    runs: Runs

    def known(self, messages: Sequence[BaseMessage]) -> "tuple[Known, int]":
        """Return it, and how many messages at the start of a list are those of it, as they were."""
        return self, self.looks.shared(messages, min(self.length, len(messages)))


class Read(NamedTuple):
    """A list of messages as it was read. Most readers never write: what the messages look like is not asked yet."""

    age: Age
    first: ref[BaseMessage]
    runs: Runs
    prints: Sequence[int]
    """Fingerprints of what each was read from."""

    @property
    def length(self) -> int:
        """How many messages it holds."""
        return len(self.prints)

    def known(self, messages: Sequence[BaseMessage]) -> tuple[Known, int]:
        """Return what of a list is as it was read."""
        looks = Contents()
        for place in range(0, min(self.length, len(messages)), BLOCK):
            part = list(takewhile(lambda one: type(one) in KINDS, messages[place : min(place + BLOCK, self.length)]))
            # looked at before it is compared: a change in between is then seen by the one or by the other
            looks.look_at(part)
            still = sum(1 for _ in takewhile(bool, map(is_still, part, self.prints[place:])))
            if still < BLOCK:
                looks = looks.start(place + still)
                break
        return Known(self.age, self.first, len(looks), looks, first(self.runs, len(looks))), len(looks)


class Fresh(NamedTuple):
    """A message that was just prepared to be stored, and what it looked like."""

    message: BaseMessage
    look: Any
    prepared: Prepared


class Held(NamedTuple):
    """A single message as it stands in the database, and what it looked like."""

    age: Age
    message: ref[BaseMessage]
    look: Any
    seq: int


@dataclass(slots=True)
class _Thread:
    lists: tuple[Known, ...] = ()
    reads: tuple[Read | Known, ...] = ()
    held: OrderedDict[int, Held] = field(default_factory=OrderedDict[int, Held])
    held_bytes: dict[int, int] = field(default_factory=dict[int, int])
    used_at: float = 0.0
    size: int = 0
    """Bytes, as they were counted when it was used last."""

    def in_use(self) -> bool:
        """Whether somebody has a message by which anything of it can be known again."""
        lists = (one.first() is not None for one in (*self.lists, *self.reads))
        return any(lists) or any(one.message() is not None for one in self.held.values())

    def count(self) -> int:
        """Return the bytes it takes; what lists share counts once."""
        looks = {id(one.looks): one.looks for one in (*self.lists, *self.reads) if isinstance(one, Known)}
        read = sum(len(one.prints) for one in self.reads if isinstance(one, Read))
        lists = _LIST_BYTES * (len(self.lists) + len(self.reads)) + sum(one.size for one in looks.values())
        return _THREAD_BYTES + lists + _READ_BYTES * read + sum(self.held_bytes.values())


class Memo:
    """The newest lists and messages of the threads used last: up to `size` threads, and up to `most` bytes.

    What a running turn knows is never forgotten: where these alone are more, the limits give way. A running turn that
    is passed over counts as used then. The bytes are an estimate of the texts and values that are remembered, which a
    running turn's own messages share. Safe for use by several threads at once.
    """

    def __init__(
        self,
        size: int = THREADS,
        looks: type[Looks] = Contents,
        *,
        most: int = BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.looks = looks
        self.hash_bytes: Callable[[bytes], int] = bytes_hash if looks.compared else len
        """What `read` is to be told of the bytes of each message."""
        self._size = size
        self._most = most
        self._clock = clock
        self._bytes = 0
        self._lock = threading.Lock()
        self._threads: OrderedDict[str, _Thread] = OrderedDict()
        self._fresh: deque[Fresh] = deque(maxlen=_FRESH if size else 0)

    def prepared(self, message: BaseMessage) -> Fresh | None:
        """Return what the message was prepared to be stored as, while it is unchanged; or None.

        A node's answer is put as its write and, before that is committed, within the state.
        """
        for one in tuple(self._fresh):
            if one.message is message:
                return one if unchanged(message, one.look) else None
        return None

    def prepare(self, new: Fresh) -> None:
        """Keep in mind a message that is about to be stored."""
        self._fresh.appendleft(new)

    def prefix(self, thread_id: str, messages: Sequence[BaseMessage]) -> tuple[Known, int] | None:
        """Return a known list and how many messages at its start the given one shares, unchanged; or None."""
        if not messages:
            return None
        with self._lock:
            thread = self._threads.get(thread_id, _Thread())
            lists, reads = thread.lists, thread.reads
        best: tuple[Known, int] | None = None
        for number, one in enumerate((*reads, *lists)):
            if one.first() is messages[0]:
                known, length = one.known(messages)
                if length and number < len(reads):
                    self.remember(thread_id, known)
                if length > (best[1] if best else 0):
                    best = known, length
        return best

    def held(self, thread_id: str, message: BaseMessage) -> Held | None:
        """Return a message that was stored not long ago by itself or in a short list, and is unchanged; or None."""
        with self._lock:
            one = self._threads[thread_id].held.get(id(message)) if thread_id in self._threads else None
        return one if one is not None and one.message() is message and unchanged(message, one.look) else None

    def remember(self, thread_id: str, new: Known, before: Known | None = None) -> None:
        """Keep a list that is now stored, in the place of the one it grew from."""
        if not self._size:
            return
        with self._lock:
            thread = self._touched(thread_id)
            others = (one for one in _others(thread.lists, new) if one is not before)
            thread.lists = (new, *others)[:_LISTS_A_THREAD]
            thread.reads = tuple(_others(thread.reads, new))
            self._settle(thread)

    def grown(self, before: tuple[Known, int] | None, messages: Sequence[BaseMessage], looks: Iterable[Any]) -> Looks:
        """Return what is kept of so many of a known list and of these messages after them."""
        known, length = before or (None, 0)
        with self._lock:
            kept = self.looks() if known is None else known.looks
            kept = kept if len(kept) == length else kept.start(length)  # another list may have grown from it, too
            kept.add(messages, looks)
        return kept

    def read(
        self, thread_id: str, age: Age, messages: Sequence[BaseMessage], runs: Runs, prints: Sequence[int]
    ) -> None:
        """Keep in mind a list that was read, as long as somebody has its messages.

        `prints` holds what `hash_bytes` returns of the bytes that each was read from.
        """
        if not self._size:
            return
        new: Read | Known = Read(age, ref(messages[0]), runs, prints)
        if not self.looks.compared:
            new = Known(age, ref(messages[0]), len(messages), self.grown(None, messages, prints), runs)
        with self._lock:
            thread = self._touched(thread_id)
            thread.reads = (new, *_others(thread.reads, new))[:_LISTS_A_THREAD]
            thread.lists = tuple(_others(thread.lists, new))
            self._settle(thread)

    def hold(self, thread_id: str, new: Iterable[Held]) -> None:
        """Keep single messages that are now stored."""
        if not self._size:
            return
        with self._lock:
            thread = self._touched(thread_id)
            held, sizes = thread.held, thread.held_bytes
            for place in [place for place, one in held.items() if one.message() is None]:
                del held[place], sizes[place]
            for one in new:
                if (message := one.message()) is not None:  # and its place is its own as long as somebody has it
                    held[id(message)] = one
                    held.move_to_end(id(message))
                    sizes[id(message)] = _HELD_BYTES + weight([message], one.look)
            while len(held) > _HELD_A_THREAD:
                del sizes[held.popitem(last=False)[0]]
            self._settle(thread)

    def forget(self, thread_ids: Iterable[str]) -> None:
        """Drop what is known of threads."""
        with self._lock:
            for thread_id in thread_ids:
                self._drop(thread_id)

    def _touched(self, thread_id: str) -> _Thread:
        """Return a thread, which is the last one used now. Under the lock."""
        thread = self._threads.setdefault(thread_id, _Thread())
        self._threads.move_to_end(thread_id)
        return thread

    def _settle(self, thread: _Thread) -> None:
        """Count a thread that was changed, and forget others, the least recently used first. Under the lock."""
        now, before = self._clock(), thread.size
        thread.used_at, thread.size = now, thread.count()
        self._bytes += thread.size - before
        for _ in range(_LOOKED_AT):
            name, oldest = next(iter(self._threads.items()))
            over = len(self._threads) > self._size or self._bytes > self._most
            if oldest is thread:
                return
            if not oldest.in_use() or (over and now - oldest.used_at > RUNNING_S):
                self._drop(name)
            elif over:
                self._threads.move_to_end(name)  # its turn is running: the others are looked at before it is again
            else:
                return

    def _drop(self, thread_id: str) -> None:
        if (thread := self._threads.pop(thread_id, None)) is not None:
            self._bytes -= thread.size


def _others(lists: Iterable[L], new: Known | Read) -> Iterator[L]:
    """Yield the lists that somebody has, but for those that start with the same object and are no longer."""
    for one in lists:
        if (held := one.first()) is not None and (held is not new.first() or one.length > new.length):
            yield one
