"""The thread's row: its lock, its counters and its seal. Every writer takes it first."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import sqlalchemy as sa

from ..errors import KeyringError, RowError
from . import tables
from .row_codec import Keyring, RowCodec, new_salt
from .statements import insert_if_absent

_ZERO = ("next_seq", "next_blob", "next_checkpoint", "packed", "nameless", "generation")
_SAVED = (*_ZERO, "lease", "lease_until", "updated_at")
_SALT = "salt"


@dataclass(slots=True)
class Thread:
    """What a transaction knows of a thread. The counters are changed in place and written by `Threads.save`."""

    id: int
    thread_id: str
    next_seq: int
    next_blob: int
    next_checkpoint: int
    packed: int
    nameless: int
    generation: int
    lease: str | None
    lease_until: float | None
    updated_at: float
    codec: RowCodec
    added: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """Numbers of the messages that this transaction has stored, by their hash."""

    @property
    def age(self) -> tuple[int, int]:
        """What changes where rows of the thread may have gone."""
        return self.id, self.generation

    def lose_rows(self) -> None:
        """Note that rows of messages have gone."""
        self.generation += 1
        self.added.clear()


class Threads:
    """Finds, creates and saves thread rows. It holds no state of a thread and opens no transaction."""

    def __init__(self, keys: Keyring | None = None, now: Callable[[], float] = time.time) -> None:
        self.keys = keys
        self.now = now

    def lock(self, conn: sa.Connection, thread_id: str) -> Thread:
        """Return the thread, created if needed, and hold its lock to the end of the transaction."""
        if (found := self.find(conn, thread_id)) is not None:
            return found
        fresh = {"thread_id": thread_id, "updated_at": self.now(), **dict.fromkeys(_ZERO, 0)}
        insert_if_absent(conn, tables.thread, fresh)
        created = self.find(conn, thread_id)
        if created is None:
            raise RowError(f"the row of thread {thread_id!r} went while it was being written")
        return created

    def find(self, conn: sa.Connection, thread_id: str, *, lock: bool = True) -> Thread | None:
        """Return the thread or None; with `lock` hold its row to the end of the transaction."""
        query = _LOCKED if lock else _FOUND
        row = conn.execute(query, {"name": thread_id}).one_or_none()
        if row is None:
            return None
        values: list[Any] = [*row]
        salt, values[-1] = values[-1], RowCodec(values[0])
        thread = Thread(*values)
        if self.keys is not None or salt is not None:
            thread.codec = self._seal(conn, thread, salt, fresh=lock)
        return thread

    def save(self, conn: sa.Connection, thread: Thread) -> None:
        """Write the counters and the time."""
        thread.updated_at = self.now()
        values = {name: getattr(thread, name) for name in _SAVED}
        if not conn.execute(_SAVE, {"key": thread.id, **values}).rowcount:
            raise RowError(f"the row of thread {thread.thread_id!r} is missing")

    def _seal(self, conn: sa.Connection, thread: Thread, salt: Any, *, fresh: bool) -> RowCodec:
        if self.keys is None:
            raise KeyringError(f"thread {thread.thread_id!r} is encrypted; open the database with its keys")
        plain = RowCodec(thread.id, self.keys)
        if salt is not None:
            return RowCodec(thread.id, self.keys, plain.decode(_SALT, bytes(salt)))
        if not fresh or thread.next_seq or thread.next_checkpoint or thread.next_blob:
            raise RowError(f"thread {thread.thread_id!r} is not encrypted, and a key is set")
        made = new_salt()
        _store_salt(conn, thread.id, plain.encode(_SALT, made))
        return RowCodec(thread.id, self.keys, made)

    def rotate(self, conn: sa.Connection, thread: Thread) -> int:
        """Encrypt the thread's salt with the current key; return 1 where another key had encrypted it."""
        sealed = conn.execute(sa.select(tables.thread.c.salt).where(tables.thread.c.id == thread.id)).scalar_one()
        if self.keys is None or sealed is None or self.keys.is_current(bytes(sealed)):
            return 0
        plain = RowCodec(thread.id, self.keys)
        _store_salt(conn, thread.id, plain.encode(_SALT, plain.decode(_SALT, bytes(sealed))))
        return 1


def _store_salt(conn: sa.Connection, thread: int, sealed: bytes) -> None:
    conn.execute(sa.update(tables.thread).where(tables.thread.c.id == thread).values(salt=sealed))


_COLUMNS = tuple(tables.thread.c[one.name] for one in fields(Thread) if one.name in tables.thread.c)
_FOUND = sa.select(*_COLUMNS, tables.thread.c.salt).where(tables.thread.c.thread_id == sa.bindparam("name"))
_LOCKED = _FOUND.with_for_update()
_SAVE = (
    sa.update(tables.thread)
    .where(tables.thread.c.id == sa.bindparam("key"))
    .values({name: sa.bindparam(name) for name in _SAVED})
)
