"""Remembers what was stored last, so that a put of a long list serializes only the new messages.

A list is recognized by its first object, and its messages by `change_detection`: a message that changed in place is
stored again like a new one. References to messages are weak. A thread is forgotten once the application has released
all its messages, because then none of them can be recognized.

A thread's turn counts as running while the application keeps a remembered message of it and the thread was read or
written within the last hour (`RUNNING_S`). LangGraph keeps a run's messages until the run ends. The time limit covers
applications that keep the messages of all their conversations.
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

from .change_detection import BLOCK, MESSAGE_CLASSES, ContentTracker, Tracker, estimated_bytes, is_unchanged
from .message_codec import bytes_hash, matches_bytes
from .message_store import PreparedMessage
from .sequence_runs import Runs, first

DEFAULT_THREADS, DEFAULT_BYTES = 1_024, 256 * 2**20
"""Limits of a saver's cache."""

RUNNING_S = 3_600.0
"""Seconds after its last read or write for which a turn may count as running."""

_LISTS_PER_THREAD = 4  # lists of channels, and of states that are sent to nodes
_MESSAGES_PER_THREAD = 64
_RECENTLY_SERIALIZED = 8
_EVICTION_CANDIDATES = 4
"""Least recently used threads that are checked after each change; a change adds one thread at most."""

_THREAD_BYTES, _LIST_BYTES, _READ_MESSAGE_BYTES, _MESSAGE_BYTES = 1_500, 400, 42, 700
"""Bytes of a thread, of a list, of a message in a list that was read, and of a single message, without content."""

L = TypeVar("L", bound="StoredList | ReadList")
GenerationKey = tuple[int, int]
"""(key, generation) of a thread; once it changes, remembered rows may have been deleted."""


class StoredList(NamedTuple):
    """A list of messages that is stored in the database."""

    generation_key: GenerationKey
    first: ref[BaseMessage]
    length: int
    tracker: Tracker
    """Tracks the messages of the list. It may hold more messages, where another list grew from this one."""
    runs: Runs

    def match(self, messages: Sequence[BaseMessage]) -> "tuple[StoredList, int]":
        """Return this list, and how many messages at the start of `messages` are its own and unchanged."""
        return self, self.tracker.count_unchanged(messages, min(self.length, len(messages)))


class ReadList(NamedTuple):
    """A list of messages as it was read. Most readers never write, so its messages are observed only at a put."""

    generation_key: GenerationKey
    first: ref[BaseMessage]
    runs: Runs
    hashes: Sequence[int]
    """`bytes_hash` of the bytes that each message was read from."""

    @property
    def length(self) -> int:
        """Number of messages."""
        return len(self.hashes)

    def match(self, messages: Sequence[BaseMessage]) -> tuple[StoredList, int]:
        """Return the unchanged start of `messages` as a stored list, and its length."""
        tracker = ContentTracker()
        for at in range(0, min(self.length, len(messages)), BLOCK):
            known = takewhile(lambda one: type(one) in MESSAGE_CLASSES, messages[at : min(at + BLOCK, self.length)])
            part = list(known)
            # observed before it is compared, so that a change in between is found by one of the two
            tracker.observe(part)
            same = sum(1 for _ in takewhile(bool, map(matches_bytes, part, self.hashes[at:])))
            if same < BLOCK:
                tracker = tracker.prefix(at + same)
                break
        length = len(tracker)
        return StoredList(self.generation_key, self.first, length, tracker, first(self.runs, length)), length


class SerializedMessage(NamedTuple):
    """A message that was just serialized to be stored, and its observation."""

    message: BaseMessage
    observed: Any
    prepared: PreparedMessage


class StoredMessage(NamedTuple):
    """A single message that is stored in the database, and its observation."""

    generation_key: GenerationKey
    message: ref[BaseMessage]
    observed: Any
    seq: int


@dataclass(slots=True)
class _Thread:
    lists: tuple[StoredList, ...] = ()
    reads: tuple[ReadList | StoredList, ...] = ()
    messages: OrderedDict[int, StoredMessage] = field(default_factory=OrderedDict[int, StoredMessage])
    message_bytes: dict[int, int] = field(default_factory=dict[int, int])
    used_at: float = 0.0
    size: int = 0
    """Bytes at the last use."""

    def in_use(self) -> bool:
        """Whether the application still keeps a message by which anything can be recognized."""
        lists = (one.first() is not None for one in (*self.lists, *self.reads))
        return any(lists) or any(one.message() is not None for one in self.messages.values())

    def count_bytes(self) -> int:
        """Return the bytes that the thread takes; a tracker that lists share counts once."""
        trackers = {id(one.tracker): one.tracker for one in (*self.lists, *self.reads) if isinstance(one, StoredList)}
        read = sum(len(one.hashes) for one in self.reads if isinstance(one, ReadList))
        lists = _LIST_BYTES * (len(self.lists) + len(self.reads)) + sum(one.size for one in trackers.values())
        return _THREAD_BYTES + lists + _READ_MESSAGE_BYTES * read + sum(self.message_bytes.values())


class WriteCache:
    """The newest lists and messages of the threads used last, up to `threads` threads and `max_bytes` bytes.

    Messages of a running turn are never forgotten: where running turns alone need more, they exceed the limits.
    Bytes are an estimate of the remembered texts and values, which a running turn's own messages share. Safe for use
    by several threads of the process.
    """

    def __init__(
        self,
        threads: int = DEFAULT_THREADS,
        tracker: type[Tracker] = ContentTracker,
        *,
        max_bytes: int = DEFAULT_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tracker = tracker
        self.hash_bytes: Callable[[bytes], int] = bytes_hash if tracker.compares_content else len
        """Function of a message's bytes whose results `remember_read` takes."""
        self._max_threads = threads
        self._max_bytes = max_bytes
        self._clock = clock
        self._bytes = 0
        self._lock = threading.Lock()
        self._threads: OrderedDict[str, _Thread] = OrderedDict()
        self._serialized: deque[SerializedMessage] = deque(maxlen=_RECENTLY_SERIALIZED if threads else 0)

    def find_serialized(self, message: BaseMessage) -> SerializedMessage | None:
        """Return the recent serialization of a message that is unchanged since; or None.

        A node's answer is put twice: as its pending write and, before that is committed, in the state.
        """
        for one in tuple(self._serialized):
            if one.message is message:
                return one if is_unchanged(message, one.observed) else None
        return None

    def remember_serialized(self, new: SerializedMessage) -> None:
        """Remember a message that is about to be stored."""
        self._serialized.appendleft(new)

    def find_prefix(self, thread_id: str, messages: Sequence[BaseMessage]) -> tuple[StoredList, int] | None:
        """Return the stored list with the longest unchanged start in common with `messages`, and its length; or None.

        The length is the number of messages in common.
        """
        if not messages:
            return None
        with self._lock:
            thread = self._threads.get(thread_id, _Thread())
            lists, reads = thread.lists, thread.reads
        best: tuple[StoredList, int] | None = None
        for number, one in enumerate((*reads, *lists)):
            if one.first() is messages[0]:
                stored, length = one.match(messages)
                if length and number < len(reads):
                    self.remember_list(thread_id, stored)
                if length > (best[1] if best else 0):
                    best = stored, length
        return best

    def find_message(self, thread_id: str, message: BaseMessage) -> StoredMessage | None:
        """Return a message that was stored by itself or in a short list and is unchanged since; or None."""
        with self._lock:
            one = self._threads[thread_id].messages.get(id(message)) if thread_id in self._threads else None
        return one if one is not None and one.message() is message and is_unchanged(message, one.observed) else None

    def remember_list(self, thread_id: str, new: StoredList, before: StoredList | None = None) -> None:
        """Remember a stored list, in place of the list `before` that it grew from."""
        if not self._max_threads:
            return
        with self._lock:
            thread = self._use(thread_id)
            others = (one for one in _others(thread.lists, new) if one is not before)
            thread.lists = (new, *others)[:_LISTS_PER_THREAD]
            thread.reads = tuple(_others(thread.reads, new))
            self._evict(thread)

    def extend_tracker(
        self, before: tuple[StoredList, int] | None, messages: Sequence[BaseMessage], observed: Iterable[Any]
    ) -> Tracker:
        """Return a tracker of the start of a stored list and of more messages after it."""
        stored, length = before or (None, 0)
        with self._lock:
            tracker = self.tracker() if stored is None else stored.tracker
            # another list may have grown from the same one
            tracker = tracker if len(tracker) == length else tracker.prefix(length)
            tracker.add(messages, observed)
        return tracker

    def remember_read(
        self,
        thread_id: str,
        generation_key: GenerationKey,
        messages: Sequence[BaseMessage],
        runs: Runs,
        hashes: Sequence[int],
    ) -> None:
        """Remember a list that was read, with `hash_bytes` of the bytes that each message was read from."""
        if not self._max_threads:
            return
        new: ReadList | StoredList = ReadList(generation_key, ref(messages[0]), runs, hashes)
        if not self.tracker.compares_content:
            tracker = self.extend_tracker(None, messages, hashes)
            new = StoredList(generation_key, ref(messages[0]), len(messages), tracker, runs)
        with self._lock:
            thread = self._use(thread_id)
            thread.reads = (new, *_others(thread.reads, new))[:_LISTS_PER_THREAD]
            thread.lists = tuple(_others(thread.lists, new))
            self._evict(thread)

    def remember_messages(self, thread_id: str, new: Iterable[StoredMessage]) -> None:
        """Remember single messages that are now stored."""
        if not self._max_threads:
            return
        with self._lock:
            thread = self._use(thread_id)
            messages, sizes = thread.messages, thread.message_bytes
            for key in [key for key, one in messages.items() if one.message() is None]:
                del messages[key], sizes[key]
            for one in new:
                if (message := one.message()) is not None:  # while it exists, no other object has its id
                    messages[id(message)] = one
                    messages.move_to_end(id(message))
                    sizes[id(message)] = _MESSAGE_BYTES + estimated_bytes([message], one.observed)
            while len(messages) > _MESSAGES_PER_THREAD:
                del sizes[messages.popitem(last=False)[0]]
            self._evict(thread)

    def forget(self, thread_ids: Iterable[str]) -> None:
        """Forget everything about threads."""
        with self._lock:
            for thread_id in thread_ids:
                self._drop(thread_id)

    def _use(self, thread_id: str) -> _Thread:
        """Return a thread and make it the one used last. The caller holds the lock."""
        thread = self._threads.setdefault(thread_id, _Thread())
        self._threads.move_to_end(thread_id)
        return thread

    def _evict(self, thread: _Thread) -> None:
        """Count the bytes of a changed thread, and forget least recently used ones. The caller holds the lock."""
        now, before = self._clock(), thread.size
        thread.used_at, thread.size = now, thread.count_bytes()
        self._bytes += thread.size - before
        for _ in range(_EVICTION_CANDIDATES):
            name, oldest = next(iter(self._threads.items()))
            over_limit = len(self._threads) > self._max_threads or self._bytes > self._max_bytes
            if oldest is thread:
                return
            if not oldest.in_use() or (over_limit and now - oldest.used_at > RUNNING_S):
                self._drop(name)
            elif over_limit:
                self._threads.move_to_end(name)  # its turn is running: check the others before it again
            else:
                return

    def _drop(self, thread_id: str) -> None:
        if (thread := self._threads.pop(thread_id, None)) is not None:
            self._bytes -= thread.size


def _others(lists: Iterable[L], new: StoredList | ReadList) -> Iterator[L]:
    """Yield the lists whose messages still exist, except those that start like `new` and are not longer."""
    for one in lists:
        if (start := one.first()) is not None and (start is not new.first() or one.length > new.length):
            yield one
