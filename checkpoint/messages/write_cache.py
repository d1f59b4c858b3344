"""Remembers the messages stored or read last, so that a put of a long list serializes only the new messages.

A list is recognized by its first message object; `change_detection` tells which of its messages are unchanged. A
message that changed in place is stored again like a new message. The cache holds weak references to messages. It
forgets a conversation thread once the application has dropped all messages by which the cache could recognize its
lists.

The turn of a conversation thread counts as running while the application keeps a cached message of the thread and
the thread was read or written within the last hour (`RUNNING_S`). LangGraph keeps a run's messages until the run
ends. The time limit is for applications that keep the messages of all their conversations.
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
"""Default limits of a saver's cache: number of conversation threads, and bytes."""

RUNNING_S = 3_600.0
"""Seconds after the last read or write of a conversation thread for which its turn can count as running."""

_LISTS_PER_THREAD = 4  # a thread has several lists: one for each channel, and one for each `Send` with a state
_MESSAGES_PER_THREAD = 64
_RECENTLY_SERIALIZED = 8
_EVICTION_CANDIDATES = 4
"""Number of threads that `_evict` checks after each change, the least recently used threads first.

A change adds at most one thread, so a few checks each time keep the cache within its limits.
"""

_THREAD_BYTES, _LIST_BYTES, _READ_MESSAGE_BYTES, _MESSAGE_BYTES = 1_500, 400, 42, 700
"""Estimated bytes that the cache adds for a thread, a list, a message of a `ReadList`, and a `StoredMessage`.

The content of the messages is not included.
"""

L = TypeVar("L", bound="StoredList | ReadList")
GenerationKey = tuple[int, int]
"""`Thread.generation_key`: once it changes, cached messages may have been deleted."""


class StoredList(NamedTuple):
    """A list of messages that is stored in the database."""

    generation_key: GenerationKey
    first: ref[BaseMessage]
    length: int
    tracker: Tracker
    """Tracker of the list's messages; it holds further messages if a longer list grew from this list."""
    runs: Runs

    def match(self, messages: Sequence[BaseMessage]) -> "tuple[StoredList, int]":
        """Return this list, and how many messages at the start of `messages` belong to the list and are unchanged."""
        return self, self.tracker.count_unchanged(messages, min(self.length, len(messages)))


class ReadList(NamedTuple):
    """A list of messages that was read; the messages are observed only at a put, because most readers never write."""

    generation_key: GenerationKey
    first: ref[BaseMessage]
    runs: Runs
    hashes: Sequence[int]
    """The `bytes_hash` of the bytes from which each message was read."""

    @property
    def length(self) -> int:
        """Number of messages in the list."""
        return len(self.hashes)

    def match(self, messages: Sequence[BaseMessage]) -> tuple[StoredList, int]:
        """Return the messages at the start of `messages` that are unchanged, as a stored list, and their number."""
        tracker = ContentTracker()
        for at in range(0, min(self.length, len(messages)), BLOCK):
            known = takewhile(lambda one: type(one) in MESSAGE_CLASSES, messages[at : min(at + BLOCK, self.length)])
            part = list(known)
            # observing before comparing makes sure that a change in between is found, now or at the next put
            tracker.observe(part)
            same = sum(1 for _ in takewhile(bool, map(matches_bytes, part, self.hashes[at:])))
            if same < BLOCK:
                tracker = tracker.prefix(at + same)
                break
        length = len(tracker)
        return StoredList(self.generation_key, self.first, length, tracker, first(self.runs, length)), length


class SerializedMessage(NamedTuple):
    """A message that was just serialized to be stored, with the observation of its fields."""

    message: BaseMessage
    observed: Any
    prepared: PreparedMessage


class StoredMessage(NamedTuple):
    """A single message that is stored in the database, with the observation of its fields."""

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
    """Estimated bytes of the thread in the cache, as counted after the last change."""

    def in_use(self) -> bool:
        """Return whether the application still keeps a message by which the cache recognizes a list or a message."""
        lists = (one.first() is not None for one in (*self.lists, *self.reads))
        return any(lists) or any(one.message() is not None for one in self.messages.values())

    def count_bytes(self) -> int:
        """Estimate the bytes that the thread takes in the cache; a tracker that several lists share counts once."""
        trackers = {id(one.tracker): one.tracker for one in (*self.lists, *self.reads) if isinstance(one, StoredList)}
        read = sum(len(one.hashes) for one in self.reads if isinstance(one, ReadList))
        lists = _LIST_BYTES * (len(self.lists) + len(self.reads)) + sum(one.size for one in trackers.values())
        return _THREAD_BYTES + lists + _READ_MESSAGE_BYTES * read + sum(self.message_bytes.values())


class WriteCache:
    """The newest lists and messages of the conversation threads used last, within two limits.

    The limits are `threads` conversation threads and `max_bytes` bytes. Messages of a running turn are never
    forgotten, so the cache exceeds its limits if running turns alone need more. The bytes are an estimate of the
    cached texts and values; while a turn runs, its own messages refer to the same objects as the cache, so the cache
    adds less memory than estimated. Several OS threads can use the cache at the same time.
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
        """The function that computes, from each message's bytes, the hashes passed to `remember_read`."""
        self._max_threads = threads
        self._max_bytes = max_bytes
        self._clock = clock
        self._bytes = 0
        self._lock = threading.Lock()
        self._threads: OrderedDict[str, _Thread] = OrderedDict()
        self._serialized: deque[SerializedMessage] = deque(maxlen=_RECENTLY_SERIALIZED if threads else 0)

    def find_serialized(self, message: BaseMessage) -> SerializedMessage | None:
        """Return the recent serialization of a message if the message is unchanged since then; otherwise None.

        A node's answer is put twice: as the node's pending write and, before this write is committed, in the state.
        """
        for one in tuple(self._serialized):
            if one.message is message:
                return one if is_unchanged(message, one.observed) else None
        return None

    def remember_serialized(self, new: SerializedMessage) -> None:
        """Remember a message that is about to be stored."""
        self._serialized.appendleft(new)

    def find_prefix(self, thread_id: str, messages: Sequence[BaseMessage]) -> tuple[StoredList, int] | None:
        """Return the stored list that shares the longest unchanged beginning with `messages`, or None.

        The second value is the length of this beginning, in messages.
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
        """Return the cache entry of a message stored singly or in a short list; None if the message changed since."""
        with self._lock:
            one = self._threads[thread_id].messages.get(id(message)) if thread_id in self._threads else None
        return one if one is not None and one.message() is message and is_unchanged(message, one.observed) else None

    def remember_list(self, thread_id: str, new: StoredList, before: StoredList | None = None) -> None:
        """Remember the stored list `new`, and forget the list `before` from which it grew."""
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
        """Return a tracker of the messages at the start of a stored list, followed by further messages."""
        stored, length = before or (None, 0)
        with self._lock:
            tracker = self.tracker() if stored is None else stored.tracker
            # a longer tracker holds messages of another list that grew from the same list: continue a shorter copy
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
        """Remember a list that was read; `hashes` holds the result of `hash_bytes` for each message's bytes."""
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
                if (message := one.message()) is not None:  # while the message exists, no other object has its id()
                    messages[id(message)] = one
                    messages.move_to_end(id(message))
                    sizes[id(message)] = _MESSAGE_BYTES + estimated_bytes([message], one.observed)
            while len(messages) > _MESSAGES_PER_THREAD:
                del sizes[messages.popitem(last=False)[0]]
            self._evict(thread)

    def forget(self, thread_ids: Iterable[str]) -> None:
        """Forget all lists and messages of these conversation threads."""
        with self._lock:
            for thread_id in thread_ids:
                self._drop(thread_id)

    def _use(self, thread_id: str) -> _Thread:
        """Return a thread's entry and mark it as the one used last. The caller holds the lock."""
        thread = self._threads.setdefault(thread_id, _Thread())
        self._threads.move_to_end(thread_id)
        return thread

    def _evict(self, thread: _Thread) -> None:
        """Count the bytes of a changed thread, and forget least recently used threads. The caller holds the lock."""
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
                self._threads.move_to_end(name)  # its turn is running: keep it, and check it again last
            else:
                return

    def _drop(self, thread_id: str) -> None:
        if (thread := self._threads.pop(thread_id, None)) is not None:
            self._bytes -= thread.size


def _others(lists: Iterable[L], new: StoredList | ReadList) -> Iterator[L]:
    """Yield the lists whose first message still exists, except lists that start like `new` and are not longer."""
    for one in lists:
        if (start := one.first()) is not None and (start is not new.first() or one.length > new.length):
            yield one
