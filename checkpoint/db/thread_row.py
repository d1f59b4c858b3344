"""The thread's row: its lock, its counters, its codec and its lease.

Every writer locks this row first, or writes only if the row has the stamp that the writer knows. Every write gives
the row a new random stamp. What a process remembers of a thread counts only while the row has the stamp of the
process's own last read or write: counters alone cannot tell, because a replica that takes over, or a restored backup,
has lost rows, and other rows may have got their numbers.
"""

import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

import sqlalchemy as sa

from ..errors import KeyringError, LeaseError, RowError
from . import tables
from .columns import checked_key
from .row_codec import OPEN_WITH_KEYS, Keyring, RowCodec, new_salt
from .statements import absent_insert
from .transaction import Transaction

K = TypeVar("K")
V = TypeVar("V")
LONGEST_LEASE_S = 86_400.0
"""Longest lease, in seconds. A lease that ends later than this was written with a wrong clock and counts as ended."""

SAVED = ("stamp", "next_seq", "next_value", "next_checkpoint", "packed", "updated_at", "lease", "lease_until")
"""The columns that a write changes."""
_MOST_THREADS, _MOST_HASHES = 1_024, 2**18
_MOST_PLACES = 64
_SALT = "salt"
_THREAD_ID_BYTES = 512


class StoredList(NamedTuple):
    """A list of messages as it was stored or read last, without its messages."""

    runs: tuple[tuple[int, int], ...]
    """The sequence numbers of the messages; see `messages.sequence_runs`."""
    length: int
    hashes: tuple[int | None, ...]
    """For each 96 messages a hash of their bytes; None where the bytes cannot be compared."""


@dataclass(slots=True)
class Thread:
    """A thread as one transaction sees it, and what this process knows of it while its row has this stamp."""

    id: int
    thread_id: str
    stamp: int
    next_seq: int
    next_value: int
    next_checkpoint: int
    packed: int
    updated_at: float
    lease: str | None
    lease_until: float | None
    codec: RowCodec
    seqs: dict[bytes, int] | None = None
    """The sequence number of each item by its lookup hash; None if they were not read."""
    lists: dict[tuple[str, str], StoredList] = field(default_factory=dict[tuple[str, str], StoredList])
    """By namespace and channel."""
    newest: dict[str, str] = field(default_factory=dict[str, str])
    """The id of a namespace's newest checkpoint, by namespace."""


def noted(known: dict[K, V], new: dict[K, V]) -> dict[K, V]:
    """Return `Thread.lists` or `Thread.newest` with new items; only so many of the last items are kept.

    What is known is not changed: it belongs to one state of the row, and a reader of that state may be late.
    """
    both = {**known, **new}
    return both if len(both) <= _MOST_PLACES else dict(list(both.items())[-_MOST_PLACES:])


def new_stamp() -> int:
    """Return a random stamp."""
    return int.from_bytes(os.urandom(8)) >> 2


class ReservedKeys:
    """Keys for new rows of threads on PostgreSQL, of which a process reserves many at once.

    Each key is given out once. Keys that a process has not used are lost when it ends.
    """

    def __init__(self) -> None:
        self._keys: deque[int] = deque()

    def take(self, transaction: Transaction) -> int:
        """Return a key that no thread has or had; ask the database only if no reserved key is left."""
        while True:
            try:
                return self._keys.popleft()
            except IndexError:
                self._keys.extend(key for (key,) in transaction.run(_NEW_KEYS).fetchall())


class KnownThreads:
    """The threads that were read or written last, within limits. Several OS threads can use one object.

    A forked child knows nothing at first: another OS thread of its parent may have been changing what is known.
    """

    def __init__(self) -> None:
        self.begin()
        _KNOWN.add(self)

    def begin(self) -> None:
        """Know nothing."""
        self.reserved = ReservedKeys()
        self._lock = threading.Lock()
        self._threads: OrderedDict[str, Thread] = OrderedDict()
        self._counted: dict[str, int] = {}
        self._hashes = 0

    def get(self, thread_id: str) -> Thread | None:
        """Return a thread as it was last read or written."""
        return self._threads.get(thread_id)

    def keep(self, thread: Thread) -> None:
        """Remember a thread, unless a newer state of its row is remembered already."""
        name = thread.thread_id
        known = self.get(name)
        if known is not None and known.id == thread.id and known.updated_at > thread.updated_at:
            return
        with self._lock:
            self._threads[name] = thread
            self._threads.move_to_end(name)
            count = 0 if thread.seqs is None else len(thread.seqs)
            self._hashes += count - self._counted.get(name, 0)
            self._counted[name] = count
            while len(self._threads) > 1 and (len(self._threads) > _MOST_THREADS or self._hashes > _MOST_HASHES):
                self._drop(next(iter(self._threads)))

    def forget(self, thread_ids: Iterable[str]) -> None:
        """Forget threads, for example because rows of them were deleted."""
        with self._lock:
            for name in thread_ids:
                self._drop(name)

    def _drop(self, name: str) -> None:
        self._threads.pop(name, None)
        self._hashes -= self._counted.pop(name, 0)


_KNOWN: WeakSet[KnownThreads] = WeakSet()


def _forget_in_child() -> None:
    for known in list(_KNOWN):
        known.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


class Threads:
    """Finds, creates and saves thread rows; opens no transaction."""

    def __init__(
        self, keys: Keyring | None = None, now: Callable[[], float] = time.time, known: KnownThreads | None = None
    ) -> None:
        self.keys = keys
        self.now = now
        self.known = known or KnownThreads()

    def lock(self, transaction: Transaction, thread_id: str) -> Thread:
        """Return the thread, created if needed, and lock its row until the transaction ends."""
        if (found := self.find(transaction, thread_id)) is not None:
            return found
        row: dict[str, Any] = {**dict.fromkeys(SAVED, 0), "lease": None, "lease_until": None}
        row |= {"thread_id": thread_id, "stamp": new_stamp(), "updated_at": self.now()}
        if transaction.dialect.name == "postgresql":  # or it would follow upon threads with reserved keys
            row["id"] = self.known.reserved.take(transaction)
        transaction.run(absent_insert(transaction.dialect.name, tables.thread, tuple(row)), row)
        created = self.find(transaction, thread_id)
        if created is None:
            raise RowError(f"the row of thread {thread_id!r} was deleted while it was being written")
        created.seqs = {} if not (created.next_seq or created.next_value) else created.seqs
        return created

    def find(self, transaction: Transaction, thread_id: str, *, lock: bool = True) -> Thread | None:
        """Return the thread, or None if it does not exist; with `lock`, lock its row until the transaction ends."""
        if self.known.get(thread_id) is None:
            checked_key(thread_id, _THREAD_ID_BYTES)
        row = transaction.run(_LOCKED if lock else _FOUND, {"name": thread_id}).fetchone()
        return None if row is None else self.from_row(row, thread_id, transaction if lock else None)

    def from_row(self, row: Sequence[Any], thread_id: str, transaction: Transaction | None = None) -> Thread:
        """Return the thread whose row (the columns `COLUMNS`) was read, with what is known of it.

        In a `transaction` that has locked the row, a thread that holds nothing yet is encrypted.
        """
        known = self.known.get(thread_id)
        key, stamp, next_seq, next_value, next_checkpoint, packed, updated_at, lease, lease_until, salt = row
        lease = lease.decode() if isinstance(lease, bytes) else lease
        if known is not None and known.id == key and known.stamp == stamp:
            counters = next_seq, next_value, next_checkpoint, packed, updated_at, lease, lease_until
            return Thread(key, thread_id, stamp, *counters, known.codec, known.seqs, known.lists, known.newest)
        counters = next_seq, next_value, next_checkpoint, packed, updated_at, lease, lease_until
        thread = Thread(key, thread_id, stamp, *counters, RowCodec(key, name=thread_id))
        if self.keys is not None or salt is not None:
            thread.codec = self._codec(thread, salt, transaction)
        return thread

    def new(self, key: int, thread_id: str) -> tuple[Thread, bytes | None]:
        """Return a thread whose row has yet to be inserted under this key, and the salt to store in the row."""
        checked_key(thread_id, _THREAD_ID_BYTES)
        codec = RowCodec(key, name=thread_id)
        thread = Thread(key, thread_id, 0, 0, 0, 0, 0, 0.0, None, None, codec, {})
        return thread, self._encrypt(thread)

    def save(self, transaction: Transaction, thread: Thread) -> None:
        """Write the counters, the lease, the time of this write and a new stamp."""
        thread.stamp, thread.updated_at = new_stamp(), self.now()
        if not transaction.run(_SAVE, {"key": thread.id, **saved(thread)}).rowcount:
            raise RowError(f"the row of thread {thread.thread_id!r} is missing")

    def rotate(self, transaction: Transaction, thread: Thread) -> int:
        """Encrypt the thread's salt with the current key; return how many rows were changed (0 or 1)."""
        [body] = transaction.run(_SALT_OF, {"key": thread.id}).fetchone()
        if self.keys is None or body is None or self.keys.is_current(bytes(body)):
            return 0
        without_salt = RowCodec(thread.id, self.keys, name=thread.thread_id)
        salt = without_salt.encode(_SALT, without_salt.decode(_SALT, bytes(body)))
        transaction.run(_STORE_SALT, {"key": thread.id, "content": salt})
        return 1

    def _codec(self, thread: Thread, salt: Any, transaction: Transaction | None) -> RowCodec:
        if self.keys is None:
            raise KeyringError(f"thread {thread.thread_id!r} is encrypted; {OPEN_WITH_KEYS}")
        without_salt = RowCodec(thread.id, self.keys, name=thread.thread_id)
        if salt is not None:
            return RowCodec(thread.id, self.keys, without_salt.decode(_SALT, bytes(salt)), name=thread.thread_id)
        if transaction is None or thread.next_seq or thread.next_checkpoint or thread.next_value:
            raise RowError(f"thread {thread.thread_id!r} is not encrypted, but the database was opened with keys")
        transaction.run(_STORE_SALT, {"key": thread.id, "content": self._encrypt(thread)})
        return thread.codec

    def _encrypt(self, thread: Thread) -> bytes | None:
        """Give a thread that holds nothing yet a new salt, and return the salt to store; None without keys."""
        if self.keys is None:
            return None
        salt = new_salt()
        thread.codec = RowCodec(thread.id, self.keys, salt, name=thread.thread_id)
        return RowCodec(thread.id, self.keys, name=thread.thread_id).encode(_SALT, salt)


def saved(thread: Thread) -> dict[str, Any]:
    """Return the columns of a thread's row that a write changes."""
    return {
        "stamp": thread.stamp,
        "next_seq": thread.next_seq,
        "next_value": thread.next_value,
        "next_checkpoint": thread.next_checkpoint,
        "packed": thread.packed,
        "updated_at": thread.updated_at,
        "lease": thread.lease,
        "lease_until": thread.lease_until,
    }


class Lease(NamedTuple):
    """A lease as its holder knows it: the secret `token`, and `ttl`, the seconds that it lasts after each write."""

    token: str
    ttl: float


_HELD_LEASES: ContextVar[Mapping[str, Lease] | None] = ContextVar("compaction_leases", default=None)
"""The leases of the current context, by thread id: those of the `with saver.lease(...)` around the current code.

LangGraph's background tasks inherit the context.
"""


@contextmanager
def holding_lease(thread_id: str, lease: Lease) -> Generator[None]:
    """Make the current context the holder of a lease."""
    before = _HELD_LEASES.set({**(_HELD_LEASES.get() or {}), thread_id: lease})
    try:
        yield
    finally:
        _HELD_LEASES.reset(before)


def check_lease(thread: Thread, now: float) -> None:
    """Raise LeaseError if another writer holds the locked thread's lease; prolong a lease that this context holds."""
    mine = (_HELD_LEASES.get() or {}).get(thread.thread_id)
    if mine is None:
        if is_leased(thread, now):
            raise LeaseError(
                f"thread {thread.thread_id!r} is leased to another writer: write inside a lease of your own"
            )
    elif thread.lease != mine.token:
        raise LeaseError(f"the lease of thread {thread.thread_id!r} has ended and others may have written since")
    else:
        thread.lease_until = now + mine.ttl


def take_lease(thread: Thread, lease: Lease, now: float) -> bool:
    """Take the locked thread's lease; return False if another writer holds the lease."""
    if thread.lease != lease.token:
        if is_leased(thread, now):
            return False
        thread.lease, thread.lease_until = lease.token, now + lease.ttl
    return True


def release_lease(thread: Thread, lease: Lease) -> None:
    """Give the locked thread's lease back, unless another writer holds the lease."""
    if thread.lease == lease.token:
        thread.lease = thread.lease_until = None


def is_leased(thread: Thread, now: float) -> bool:
    """Return whether a writer, perhaps this one, holds the thread's lease."""
    ends = thread.lease_until
    return thread.lease is not None and ends is not None and now < ends <= now + LONGEST_LEASE_S


_NEW_KEYS = sa.select(
    sa.func.nextval(sa.func.pg_get_serial_sequence(tables.thread.name, tables.thread.c.id.name))
).select_from(sa.func.generate_series(1, sa.literal_column("32")))
_row = tables.thread.c
COLUMNS = (_row.id, *(_row[name] for name in SAVED), _row.salt)
_FOUND = sa.select(*COLUMNS).where(_row.thread_id == sa.bindparam("name"))
_LOCKED = _FOUND.with_for_update()
_SAVE = (
    sa.update(tables.thread)
    .where(_row.id == sa.bindparam("key"))
    .values({name: sa.bindparam(name) for name in SAVED})
)
_SALT_OF = sa.select(_row.salt).where(_row.id == sa.bindparam("key"))
_STORE_SALT = sa.update(tables.thread).where(_row.id == sa.bindparam("key")).values(salt=sa.bindparam("content"))
