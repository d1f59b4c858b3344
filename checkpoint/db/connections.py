"""Engines of this package: how they are made, how their connections are configured, and how transactions begin."""

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import Pool, PoolResetState

from ..errors import DatabaseError
from .statements import BINARY_RESULTS
from .urls import BUSY_TIMEOUT_S, PREPARE, READ_COMMITTED, create_engine, is_memory

READS, WRITES = "DEFERRED", "IMMEDIATE"  # after BEGIN: SQLite takes the write lock at the first change, or at once
_PAUSE_S = 0.01
_ISOLATION = "compaction_isolation"
"""Key of a connection's `info` under which the isolation of its session is noted, if this package sets it."""
_IN_TRANSACTION = 1  # flag of the status that MariaDB sends with each answer: a transaction is open
_PSYCOPG_BINARY = 1  # psycopg.pq.Format.BINARY
_PRIMARY_CODE = 0xFF  # mask of SQLite's primary error code; the other bits say why the database is busy
_OWN: "WeakSet[OwnEngine]" = WeakSet()
_INHERITED: list[Pool] = []
_CUT_OFF: set[str] = set()
"""The SQLite files that were in use when this process was forked."""
_TURNS: WeakKeyDictionary[Pool, threading.Lock] = WeakKeyDictionary()
_TURNS_LOCK = threading.Lock()


class OpenFile(NamedTuple):
    """A connection to an SQLite file, and the driver's connection behind it."""

    conn: sa.Connection
    driver: Any

    def close(self) -> None:
        """Close the connection for good: it does not return to its pool."""
        self.conn.detach()
        self.conn.close()


class OwnEngine:
    """An engine that this package makes from a URL, in contrast to an engine that the application passes.

    The engine is made once, by the first call of `get`.
    """

    def __init__(self, url: sa.URL) -> None:
        self.url = url
        # by pool, because a forked child process gets a new pool and must not use a connection of its parent
        self.writers: dict[Pool, OpenFile] = {}
        self.readers: WeakKeyDictionary[Pool, deque[OpenFile]] = WeakKeyDictionary()
        self._engine: sa.Engine | None = None
        self._lock = threading.Lock()

    def get(self) -> sa.Engine:
        """Return the engine; raise DatabaseError if its driver is missing or unknown."""
        if self._engine is None:
            with self._lock:
                if self._engine is None:
                    engine = create_engine(self.url)
                    _configure(engine, self.url)
                    self._engine = engine
                    if not is_memory(self.url):
                        _OWN.add(self)
                        _register_fork_hooks()
        return self._engine

    def close(self) -> None:
        """Close the engine's connections, with those that are kept open, if the engine was made at all.

        A connection in use is closed by its user, who finds then that the engine has another pool.
        """
        if self._engine is not None:
            pool = self._engine.pool
            self._engine.dispose()
            self.close_kept(pool)

    def close_kept(self, pool: Pool) -> None:
        """Close the connections that are kept open, of a pool that is no longer the engine's."""
        if (writer := self.writers.pop(pool, None)) is not None:
            writer.close()
        readers = self.readers.get(pool, deque())
        while readers:
            with suppress(IndexError):  # a reader has taken it meanwhile
                readers.pop().close()


def begin(conn: sa.Connection, mode: str) -> None:
    """Begin a transaction, on databases whose driver would begin too late or with the wrong isolation.

    SQLite's driver would begin a transaction at the first change, and would fail at once instead of waiting while
    another connection writes. MariaDB's default isolation would let a writer read rows as they were before the writer
    locked the thread's row, so writers use READ COMMITTED; readers need the consistent snapshot of REPEATABLE READ.
    The isolation of a session of our own is changed only if the connection's last transaction had the other one.
    """
    name = conn.dialect.name
    driver: Any = conn.connection.driver_connection
    if name == "sqlite" and not getattr(driver, "in_transaction", False):
        driver.execute(f"BEGIN {mode}")
    elif name in {"mysql", "mariadb"}:
        level = "REPEATABLE READ" if mode == READS else READ_COMMITTED
        if _ISOLATION not in conn.info:
            conn.exec_driver_sql(f"SET TRANSACTION ISOLATION LEVEL {level}")
        elif conn.info[_ISOLATION] != level:
            conn.exec_driver_sql(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
            conn.info[_ISOLATION] = level


def forget_isolation(conn: sa.Connection) -> None:
    """Set the isolation in each transaction from now on, as SQLAlchemy is about to change that of the session."""
    conn.info.pop(_ISOLATION, None)


def turn_of(pool: Pool) -> threading.Lock:
    """Return the lock that lets only one user at a time use a pool, or write to the SQLite file behind the pool."""
    with _TURNS_LOCK:
        return _TURNS.setdefault(pool, threading.Lock())


def wait_for_turn(turn: threading.Lock, place: str) -> None:
    """Take the lock; raise DatabaseError, naming `place`, after `BUSY_TIMEOUT_S` seconds.

    SQLite's own waiting is unfair: waiters sleep and retry, and the last to arrive may be served first.
    """
    if not turn.acquire(timeout=BUSY_TIMEOUT_S):
        raise DatabaseError(f"{place} has been busy for {BUSY_TIMEOUT_S:.0f} s; is a transaction left open?")


@contextmanager
def in_turn(pool: Pool, place: str) -> Generator[None]:
    """Hold the pool's lock in the `with` block."""
    turn = turn_of(pool)
    wait_for_turn(turn, place)
    try:
        yield
    finally:
        turn.release()


def _configure(engine: sa.Engine, url: sa.URL) -> None:
    """Set what the driver of an engine needs; keep its connections out of forked children."""
    if is_memory(url):
        return
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _use_write_ahead_log)
    if engine.dialect.driver == "psycopg":
        event.listen(engine, "before_cursor_execute", _request_binary_results)
        if PREPARE not in url.query:
            event.listen(engine, "connect", _prepare_nothing_behind_a_pooler)
    if engine.dialect.name in {"mysql", "mariadb"}:
        event.listen(engine, "connect", _note_isolation)
        event.listen(engine, "reset", _roll_back_unless_ended)


def _request_binary_results(
    _conn: sa.Connection, cursor: Any, _text: str, _values: object, context: Any, _many: bool
) -> None:
    if context is not None and context.execution_options.get(BINARY_RESULTS):
        cursor.format = _PSYCOPG_BINARY


def _prepare_nothing_behind_a_pooler(connection: Any, _record: Any) -> None:
    """Prepare no statements where another session than the connection's own answers, as behind pgbouncer.

    Each transaction may get another session there, in which the name of a prepared statement may be another one's.
    """
    connection.autocommit = True  # without a transaction this is one round trip
    [session] = connection.execute("SELECT pg_backend_pid()").fetchone()
    connection.autocommit = False
    if session != connection.info.backend_pid:
        connection.prepare_threshold = None


def _note_isolation(_connection: Any, record: Any) -> None:
    record.info[_ISOLATION] = READ_COMMITTED


def _roll_back_unless_ended(connection: Any, _record: Any, state: PoolResetState) -> None:
    """Roll back what is left open on a connection that returns to the pool.

    SQLAlchemy would send ROLLBACK after each transaction, also after a commit. PyMySQL keeps the status that the
    server sent last, which tells whether a transaction is open.
    """
    status = getattr(connection, "server_status", None)
    ended = state.transaction_was_reset or (isinstance(status, int) and not status & _IN_TRANSACTION)
    if not ended and not state.terminate_only:
        connection.rollback()


def _use_write_ahead_log(connection: Any, _record: Any) -> None:
    """Turn on the write-ahead log, so that readers need not wait for a writer; the file keeps this mode.

    SQLite's busy timeout does not apply to a change of the journal mode, and two processes that open a new file at
    once both try to change the mode. So this function retries.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


class _Gate:
    """Lets OS threads use SQLite files, except while one of them forks the process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._forks = False
        self.inside: dict[tuple[int, str], int] = {}
        """How many transactions each OS thread has open on a file."""

    def enter(self, file: str) -> None:
        """Keep the process from being forked until `leave`; first wait while it is being forked."""
        me = threading.get_ident()
        with self._changed:
            if self._forks:
                self._changed.wait_for(lambda: not self._forks or any(one == me for one, _ in self.inside))
            self.inside[me, file] = self.inside.get((me, file), 0) + 1

    def leave(self, file: str) -> None:
        """End what `enter` began."""
        place = threading.get_ident(), file
        with self._changed:
            if self.inside[place] > 1:
                self.inside[place] -= 1
            else:
                del self.inside[place]
            if self._forks:
                self._changed.notify_all()

    def close(self) -> None:
        """Wait until no other OS thread is inside, for `BUSY_TIMEOUT_S` seconds at most, and let nobody in."""
        me = threading.get_ident()
        self._changed.acquire()
        self._forks = True
        self._changed.wait_for(lambda: all(one == me for one, _ in self.inside), BUSY_TIMEOUT_S)

    def open(self) -> None:
        """Let all in again; the OS thread that called `close` calls this."""
        self._forks = False
        self._changed.notify_all()
        self._changed.release()


_gate = _Gate()


def enter_file(file: str, place: str) -> None:
    """Keep the process from being forked until `leave_file`, because it uses an SQLite file now.

    SQLite notes in the memory of the process which locks its connections hold. A forked child with an open connection
    believes these notes: it waits for ever for the right to write, or writes without a lock to a log that its parent
    deletes. So no connection may be open during a fork. Raise DatabaseError in a child where one was open.
    """
    if file in _CUT_OFF:
        raise DatabaseError(
            f"{place} was in use while this process was forked, so SQLite cannot use it here: fork outside of "
            'transactions, or start processes by multiprocessing\'s method "spawn"'
        )
    _gate.enter(file)


def leave_file(file: str) -> None:
    """Allow forks again, after `enter_file`."""
    _gate.leave(file)


@contextmanager
def using_file(file: str, place: str) -> Generator[None]:
    """Keep the process from being forked in the `with` block."""
    enter_file(file, place)
    try:
        yield
    finally:
        leave_file(file)


@cache
def _register_fork_hooks() -> None:
    """Register what is done around a fork once, when the first engine is made."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_close_files, after_in_parent=_open_gate, after_in_child=_leave_connections_to_parent
        )


def _close_files() -> None:
    """Close this package's connections to SQLite files, once no other OS thread uses one."""
    _gate.close()
    for own in _OWN:
        if own.url.get_backend_name() == "sqlite":
            own.close()


def _open_gate() -> None:
    _gate.open()


def _leave_connections_to_parent() -> None:
    """Give every engine of a forked child an empty pool.

    The inherited pool is kept alive: closing the pool's connections would send messages to the server, or change the
    file, on behalf of the parent process.
    """
    global _gate  # noqa: PLW0603 - OS threads that the child does not have may be inside the old one
    _CUT_OFF.update(file for _, file in _gate.inside)
    _gate = _Gate()
    for own in _OWN:
        engine = own.get()
        _INHERITED.append(engine.pool)
        engine.dispose(close=False)
