"""What was stored last, so that a put of a long list serialises only what is new in it.

A list is known again by its first object, and its messages by what they looked like (looks.py): one that an
application changed in place is stored again like a new one. No list is kept alive that nobody has any more: it is
forgotten, and costs neither memory nor time of the garbage collector.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple, TypeVar
from weakref import ref

from langchain_core.messages import BaseMessage

from .codec import is_still
from .looks import BLOCK, KINDS, Contents, Looks, unchanged
from .runs import Runs, first
from .store import Prepared

_LISTS_A_THREAD = 4  # channels, and the states that are sent to nodes
_HELD_A_THREAD = 64
_FRESH = 8

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
    message: BaseMessage
    look: Any
    seq: int


@dataclass(slots=True)
class _Thread:
    lists: tuple[Known, ...] = ()
    reads: tuple[Read | Known, ...] = ()
    held: OrderedDict[int, Held] = field(default_factory=OrderedDict[int, Held])


class Memo:
    """The newest lists and messages of the newest `size` threads. Safe for use by several threads at once."""

    def __init__(self, size: int, looks: type[Looks] = Contents) -> None:
        self.looks = looks
        self._size = size
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
        return one if one is not None and unchanged(message, one.look) else None

    def remember(self, thread_id: str, new: Known, before: Known | None = None) -> None:
        """Keep a list that is now stored, in the place of the one it grew from."""
        if not self._size:
            return
        with self._lock:
            thread = self._touched(thread_id)
            others = (one for one in _others(thread.lists, new) if one is not before)
            thread.lists = (new, *others)[:_LISTS_A_THREAD]
            thread.reads = tuple(_others(thread.reads, new))

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
        """Keep in mind a list that was read, as long as somebody has its messages."""
        if not self._size:
            return
        new: Read | Known = Read(age, ref(messages[0]), runs, prints)
        if not self.looks.compared:
            new = Known(age, ref(messages[0]), len(messages), self.grown(None, messages, ()), runs)
        with self._lock:
            thread = self._touched(thread_id)
            thread.reads = (new, *_others(thread.reads, new))[:_LISTS_A_THREAD]
            thread.lists = tuple(_others(thread.lists, new))

    def hold(self, thread_id: str, new: Iterable[Held]) -> None:
        """Keep single messages that are now stored."""
        if not self._size:
            return
        with self._lock:
            held = self._touched(thread_id).held
            for one in new:
                held[id(one.message)] = one  # which stays the object's own, as long as the object is held
                held.move_to_end(id(one.message))
            while len(held) > _HELD_A_THREAD:
                held.popitem(last=False)

    def forget(self, thread_ids: Iterable[str]) -> None:
        """Drop what is known of threads."""
        with self._lock:
            for thread_id in thread_ids:
                self._threads.pop(thread_id, None)

    def _touched(self, thread_id: str) -> _Thread:
        """Return the newest thread, which this one is now. Under the lock."""
        thread = self._threads.setdefault(thread_id, _Thread())
        self._threads.move_to_end(thread_id)
        while len(self._threads) > self._size:
            self._threads.popitem(last=False)
        return thread


def _others(lists: Iterable[L], new: Known | Read) -> Iterator[L]:
    """Yield the lists that somebody has, but for those that start with the same object and are no longer."""
    for one in lists:
        if (held := one.first()) is not None and (held is not new.first() or one.length > new.length):
            yield one
