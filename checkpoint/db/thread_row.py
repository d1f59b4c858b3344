"""The thread's row: its lock, its counters, its codec and its lease.

Every writer locks this row first, or writes only if the row is as the writer remembers it (see `guarded_write`).

Every write gives the row a new random stamp. What a process remembers of a thread counts only while the row has the
stamp of the process's own last read or write: counters alone cannot tell, because a replica that takes over, or a
restored backup, has lost rows, and other rows may have got their numbers.
"""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from itertools import count, islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from ..errors import KeyringError, LeaseError, RowError
from . import tables
from .row_codec import Keyring, RowCodec, new_salt
from .statements import insert_if_absent

LONGEST_LEASE_S = 86_400.0
"""Longest lease, in seconds. A lease that ends later than this was written with a wrong clock and counts as ended."""

COUNTERS = ("next_seq", "next_blob", "next_checkpoint", "packed", "nameless")
SAVED = (*COUNTERS, "stamp", "lease", "lease_until", "updated_at")
_NO_ROWS: Mapping[str, Any] = MappingProxyType(dict.fromkeys(COUNTERS, 0))
_SALT = "salt"
_CACHE_KEY = "compaction_threads"
_CACHED_THREADS = 64
_KNOWN_STAMPS = 8_192
KNOWN_ROWS = 64

V = TypeVar("V", int, str)


@dataclass(slots=True)
class KnownRows:
    """What is known about other rows of a thread, without reading them, as long as the thread's row is unchanged."""

    newest: dict[str, str] = field(default_factory=dict[str, str])
    """The id of a namespace's newest checkpoint, by namespace."""
    nameless: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """The sequence number of a message without an id, by its lookup hash."""
    blobs: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """The number of a blob, by its lookup hash."""


def note(known: dict[Any, V], key: Any, value: V) -> None:
    """Set an item of `KnownRows`; keep only the items that were set last."""
    known.pop(key, None)
    known[key] = value
    if len(known) > KNOWN_ROWS:
        del known[next(iter(known))]


class _Generations:
    """The number under which this process remembers rows of a thread, by the stamp of the thread's row.

    Each number belongs to one stamp at a time, so an older state of the row never gets the number of a newer one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new = count()
        self._by_stamp: OrderedDict[int, int] = OrderedDict()

    def of(self, stamp: int) -> int:
        """Return the number of a stamp; a new one if this process did not read or write the stamp last."""
        with self._lock:
            return self._keep(stamp, self._by_stamp.pop(stamp, -1))

    def pass_on(self, before: int, stamp: int, generation: int) -> None:
        """Give the number of a stamp to the stamp that a write puts in its place."""
        with self._lock:
            self._by_stamp.pop(before, None)
            self._keep(stamp, generation)

    def new(self) -> int:
        """Return a number that no stamp has."""
        return next(self._new)

    def _keep(self, stamp: int, generation: int) -> int:
        self._by_stamp[stamp] = generation if generation >= 0 else self.new()
        if len(self._by_stamp) > _KNOWN_STAMPS:
            self._by_stamp.popitem(last=False)
        return self._by_stamp[stamp]


_GENERATIONS = _Generations()


def new_stamp() -> int:
    """Return a random stamp."""
    return secrets.randbits(62)


@dataclass(slots=True)
class Thread:
    """A thread as one transaction sees it. Callers change the counters in place; `Threads.save` writes them."""

    id: int
    thread_id: str
    next_seq: int
    next_blob: int
    next_checkpoint: int
    packed: int
    nameless: int
    stamp: int
    lease: str | None
    lease_until: float | None
    updated_at: float
    codec: RowCodec
    added: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """Sequence numbers of messages that this transaction, or one before it, has stored, by their lookup hash."""
    known: KnownRows = field(default_factory=KnownRows)
    generation: int = field(init=False)

    def __post_init__(self) -> None:
        self.generation = _GENERATIONS.of(self.stamp)

    @property
    def generation_key(self) -> tuple[int, int]:
        """A value that changes when message rows of the thread are deleted, or when another process wrote its row.

        A cache stores this value with each entry and ignores the entry once the value differs.
        """
        return self.id, self.generation

    def note_new_stamp(self, before: int) -> None:
        """Note that the row got this stamp after the stamp `before`, by a write of this process."""
        _GENERATIONS.pass_on(before, self.stamp, self.generation)

    def note_deleted_messages(self) -> None:
        """Note that message rows were deleted."""
        self.generation = _GENERATIONS.new()
        self.added.clear()
        self.known = KnownRows()


class Threads:
    """Finds, creates and saves thread rows; holds no state of a thread and opens no transaction."""

    def __init__(self, keys: Keyring | None = None, now: Callable[[], float] = time.time) -> None:
        self.keys = keys
        self.now = now

    def lock(self, conn: sa.Connection, thread_id: str) -> Thread:
        """Return the thread, created if needed, and lock its row until the transaction ends."""
        if (found := self.find(conn, thread_id)) is not None:
            return found
        insert_if_absent(
            conn, tables.thread, {"thread_id": thread_id, "updated_at": self.now(), "stamp": new_stamp(), **_NO_ROWS}
        )
        created = self.find(conn, thread_id)
        if created is None:
            raise RowError(f"the row of thread {thread_id!r} was deleted while it was being written")
        return created

    def find(self, conn: sa.Connection, thread_id: str, *, lock: bool = True) -> Thread | None:
        """Return the thread, or None if it does not exist; with `lock`, lock its row until the transaction ends."""
        query = _LOCKED if lock else _FOUND
        row = conn.execute(query, {"name": thread_id}).one_or_none()
        return None if row is None else self.from_row(conn, row, may_create=lock)

    def from_row(self, conn: sa.Connection, row: Sequence[Any], *, may_create: bool = False) -> Thread:
        """Return the thread whose row was read; with `may_create`, encrypt a thread that holds nothing yet."""
        values: list[Any] = [*row]
        salt, values[-1] = values[-1], RowCodec(values[0], name=values[1])
        thread = Thread(*values)
        if self.keys is not None or salt is not None:
            thread.codec = self._codec(conn, thread, salt, may_create=may_create)
        return thread

    def new(self, key: int, thread_id: str) -> tuple[Thread, bytes | None]:
        """Return a thread whose row has yet to be inserted under this key, and the salt to store in the row."""
        thread = Thread(
            id=key,
            thread_id=thread_id,
            stamp=new_stamp(),
            lease=None,
            lease_until=None,
            updated_at=self.now(),
            codec=RowCodec(key, name=thread_id),
            **_NO_ROWS,
        )
        return thread, self._encrypt(thread)

    def save(self, conn: sa.Connection, thread: Thread) -> None:
        """Write the counters, the lease, the time of this write and a new stamp."""
        before, thread.stamp, thread.updated_at = thread.stamp, new_stamp(), self.now()
        values = {name: getattr(thread, name) for name in SAVED}
        if not conn.execute(_SAVE, {"key": thread.id, **values}).rowcount:
            raise RowError(f"the row of thread {thread.thread_id!r} is missing")
        thread.note_new_stamp(before)

    def rotate(self, conn: sa.Connection, thread: Thread) -> int:
        """Encrypt the thread's salt with the current key; return how many rows were changed (0 or 1)."""
        body = conn.execute(sa.select(tables.thread.c.salt).where(tables.thread.c.id == thread.id)).scalar_one()
        if self.keys is None or body is None or self.keys.is_current(bytes(body)):
            return 0
        without_salt = RowCodec(thread.id, self.keys, name=thread.thread_id)
        _store_salt(conn, thread.id, without_salt.encode(_SALT, without_salt.decode(_SALT, bytes(body))))
        return 1

    def _codec(self, conn: sa.Connection, thread: Thread, salt: Any, *, may_create: bool) -> RowCodec:
        if self.keys is None:
            raise KeyringError(f"thread {thread.thread_id!r} is encrypted; open the database with its keys")
        without_salt = RowCodec(thread.id, self.keys, name=thread.thread_id)
        if salt is not None:
            return RowCodec(thread.id, self.keys, without_salt.decode(_SALT, bytes(salt)), name=thread.thread_id)
        if not may_create or thread.next_seq or thread.next_checkpoint or thread.next_blob:
            raise RowError(f"thread {thread.thread_id!r} is not encrypted, but the database was opened with keys")
        _store_salt(conn, thread.id, self._encrypt(thread))
        return thread.codec

    def _encrypt(self, thread: Thread) -> bytes | None:
        """Give a thread that holds nothing yet a new salt, and return the salt to store; None without keys."""
        if self.keys is None:
            return None
        salt = new_salt()
        thread.codec = RowCodec(thread.id, self.keys, salt, name=thread.thread_id)
        return RowCodec(thread.id, self.keys, name=thread.thread_id).encode(_SALT, salt)


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
        if _is_leased(thread, now):
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
        if _is_leased(thread, now):
            return False
        thread.lease, thread.lease_until = lease.token, now + lease.ttl
    return True


def release_lease(thread: Thread, lease: Lease) -> None:
    """Give the locked thread's lease back, unless another writer holds the lease."""
    if thread.lease == lease.token:
        thread.lease = thread.lease_until = None


def _is_leased(thread: Thread, now: float) -> bool:
    ends = thread.lease_until
    return thread.lease is not None and ends is not None and now < ends <= now + LONGEST_LEASE_S


@dataclass(slots=True)
class CachedThreads:
    """The thread rows that a transaction saved, by thread id, kept for the next transaction of the same connection.

    They may be used only if `committed` is True, because a transaction that was rolled back has saved nothing.
    """

    stamp: tuple[int, int]
    """`Database.change_stamp` after the threads were saved."""
    threads: dict[str, Thread]
    committed: bool = False


def take_cached_threads(conn: sa.Connection, stamp: tuple[int, int]) -> dict[str, Thread]:
    """Remove and return the threads that the last transaction of this connection cached.

    Return {} if the file was changed since then: `stamp`, the current `Database.change_stamp`, then differs.
    """
    last: CachedThreads | None = conn.info.pop(_CACHE_KEY, None)
    return last.threads if last is not None and last.committed and last.stamp == stamp else {}


def cache_threads(conn: sa.Connection, stamp: tuple[int, int], threads: Mapping[str, Thread]) -> CachedThreads:
    """Cache threads whose rows are about to be committed; keep at most the last 64."""
    newest = dict(islice(threads.items(), max(len(threads) - _CACHED_THREADS, 0), None))
    for thread in newest.values():
        thread.added.clear()
    conn.info[_CACHE_KEY] = last = CachedThreads(stamp, newest)
    return last


def keep_cached_threads(conn: sa.Connection, before: tuple[int, int], after: tuple[int, int]) -> None:
    """Keep the cached threads valid across changes that concern no thread: those between the two stamps."""
    last: CachedThreads | None = conn.info.get(_CACHE_KEY)
    if last is not None and last.stamp == before:
        last.stamp = after


def _store_salt(conn: sa.Connection, thread: int, body: bytes | None) -> None:
    conn.execute(sa.update(tables.thread).where(tables.thread.c.id == thread).values(salt=body))


COLUMNS = tuple(tables.thread.c[one.name] for one in fields(Thread) if one.name in tables.thread.c)
_FOUND = sa.select(*COLUMNS, tables.thread.c.salt).where(tables.thread.c.thread_id == sa.bindparam("name"))
_LOCKED = _FOUND.with_for_update()
_SAVE = (
    sa.update(tables.thread)
    .where(tables.thread.c.id == sa.bindparam("key"))
    .values({name: sa.bindparam(name) for name in SAVED})
)
