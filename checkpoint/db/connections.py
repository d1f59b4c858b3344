"""Engines of this package: how they are made, what they keep open, and how transactions begin."""

import os
import sqlite3
import threading
import time
from collections import deque
from contextlib import suppress
from functools import cache
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import Pool

from ..errors import DatabaseError
from .transaction import ISOLATION, WRITES, Transaction
from .urls import BUSY_TIMEOUT_S, PREPARE, create_engine, is_memory

Turn: TypeAlias = "threading.Lock | threading.Semaphore"
_MOST_IDLE, _MOST_USED = 5, 15
_PAUSE_S = 0.01
_PRIMARY_CODE = 0xFF  # mask of SQLite's primary error code; the other bits say why the database is busy
_OWN: "WeakSet[OwnEngine]" = WeakSet()
_INHERITED: list[tuple[Pool, deque[Transaction]]] = []
_CUT_OFF: set[str] = set()
"""The SQLite files that were in use when this process was forked."""
_TURNS: WeakKeyDictionary[Pool, threading.Lock] = WeakKeyDictionary()
_TURNS_LOCK = threading.Lock()


class OwnEngine:
    """An engine that this package makes from a URL, in contrast to an engine that the application passes.

    The engine is made once, by the first call of `get`.
    """

    def __init__(self, url: sa.URL) -> None:
        self.url = url
        self.idle: deque[Transaction] = deque()
        """Connections that are kept open, which saves the pool's work between two transactions."""
        self.places = threading.Semaphore(_MOST_USED)
        """A place for each connection in use."""
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

    def keep(self, one: Transaction, pool: Pool) -> None:
        """Keep a connection of a pool open, unless enough are, or `close` has replaced the pool meanwhile."""
        if self.get().pool is pool and len(self.idle) < _MOST_IDLE:
            self.idle.append(one)
        else:
            one.close_for_good()

    def close(self) -> None:
        """Close the engine's connections, with those that are kept open, if the engine was made at all.

        A connection in use is closed by its user, who finds then that the engine has another pool.
        """
        if self._engine is not None:
            self._engine.dispose()
            self.close_idle()

    def close_idle(self) -> None:
        """Close the connections that are kept open."""
        with suppress(IndexError):
            while True:
                self.idle.pop().close_for_good()

    def leave_to_parent(self) -> None:
        """Give the engine of a forked child an empty pool.

        The inherited connections are kept alive: closing them would send messages to the server, or change the file,
        on behalf of the parent process.
        """
        engine = self.get()
        _INHERITED.append((engine.pool, self.idle))
        self.idle, self.places = deque(), threading.Semaphore(_MOST_USED)
        engine.dispose(close=False)


def turn_of(pool: Pool) -> threading.Lock:
    """Return the lock that lets only one user at a time use a pool, or write to the SQLite file behind the pool."""
    with _TURNS_LOCK:
        return _TURNS.setdefault(pool, threading.Lock())


def wait_for_turn(turn: Turn, place: str) -> None:
    """Take the lock or a place; raise DatabaseError, naming `place`, after `BUSY_TIMEOUT_S` seconds.

    SQLite's own waiting is unfair: waiters sleep and retry, and the last to arrive may be served first.
    """
    if not turn.acquire(timeout=BUSY_TIMEOUT_S):
        raise DatabaseError(f"{place} has been busy for {BUSY_TIMEOUT_S:.0f} s; is a transaction left open?")


def _configure(engine: sa.Engine, url: sa.URL) -> None:
    """Set what the driver of an engine needs; keep its connections out of forked children."""
    if is_memory(url):
        return
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _use_write_ahead_log)
    if engine.dialect.driver == "psycopg" and PREPARE not in url.query:
        event.listen(engine, "connect", _prepare_nothing_behind_a_pooler)
    if engine.dialect.name in {"mysql", "mariadb"}:
        event.listen(engine, "connect", _note_isolation)


def _prepare_nothing_behind_a_pooler(connection: Any, _record: Any) -> None:
    """Prepare no statements where another session than the connection's own answers, as behind pgbouncer.

    Each transaction may get another session there, in which the name of a prepared statement may be another one's.
    """
    before, connection.autocommit = connection.autocommit, True  # without a transaction this is one round trip
    [session] = connection.execute("SELECT pg_backend_pid()").fetchone()
    connection.autocommit = before
    if session != connection.info.backend_pid:
        connection.prepare_threshold = None


def _note_isolation(_connection: Any, record: Any) -> None:
    record.info[ISOLATION] = WRITES


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
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._forks = False
        self.inside: dict[tuple[int, str], int] = {}
        """How many transactions each OS thread has open on a file."""

    def enter(self, file: str) -> None:
        """Keep the process from being forked until `leave`; first wait while it is being forked."""
        me = threading.get_ident()
        with self._lock:
            if self._forks:
                self._changed.wait_for(lambda: not self._forks or any(one == me for one, _ in self.inside))
            self.inside[me, file] = self.inside.get((me, file), 0) + 1

    def leave(self, file: str) -> None:
        """End what `enter` began."""
        place = threading.get_ident(), file
        with self._lock:
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
    global _gate  # noqa: PLW0603 - OS threads that the child does not have may be inside the old one
    _CUT_OFF.update(file for _, file in _gate.inside)
    _gate = _Gate()
    for own in _OWN:
        own.leave_to_parent()
