"""What every connection of our own engines gets and is asked, what it is spared, and who waits for one."""

import os
import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import Pool

from ..errors import DatabaseError
from .statements import IN_BINARY
from .urls import BUSY_TIMEOUT_S, is_memory

READS, WRITES = "DEFERRED", "IMMEDIATE"  # as SQLite calls them
_PAUSE_S = 0.01
_BINARY = 1  # psycopg.pq.Format.BINARY
_PRIMARY = 0xFF  # the rest of an error code says which kind of busy it is
_ENGINES: WeakSet[sa.Engine] = WeakSet()
_INHERITED: list[Pool] = []
_QUEUES: WeakKeyDictionary[Pool, threading.Semaphore] = WeakKeyDictionary()
_QUEUES_LOCK = threading.Lock()


def prepare(engine: sa.Engine) -> None:
    """Make SQLite files write ahead and psycopg read bytes as bytes; keep connections out of forked children."""
    if is_memory(engine.url):
        return
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _write_ahead)
    if engine.dialect.driver == "psycopg":
        event.listen(engine, "before_cursor_execute", _in_binary)
    _ENGINES.add(engine)


def begin(conn: sa.Connection, mode: str) -> None:
    """Begin where the driver would do it too late or otherwise.

    SQLite's waits for the first change and then fails instead of waiting. MariaDB's default would read from
    before the thread row was locked, and a read is to see one moment.
    """
    name = conn.dialect.name
    driver: Any = conn.connection.driver_connection
    if name == "sqlite" and not getattr(driver, "in_transaction", False):
        driver.execute(f"BEGIN {mode}")
    elif name in {"mysql", "mariadb"}:
        level = "REPEATABLE READ" if mode == READS else "READ COMMITTED"
        conn.exec_driver_sql(f"SET TRANSACTION ISOLATION LEVEL {level}")


@contextmanager
def in_turn(engine: sa.Engine, place: str) -> Generator[None]:
    """Queue with all who use this engine (after a fork: with all of this process); DatabaseError after a while."""
    with _QUEUES_LOCK:
        queue = _QUEUES.setdefault(engine.pool, threading.Semaphore())
    if not queue.acquire(timeout=BUSY_TIMEOUT_S):
        raise DatabaseError(f"{place} has been busy for {BUSY_TIMEOUT_S:.0f} s; is a transaction left open?")
    try:
        yield
    finally:
        queue.release()


def _in_binary(_conn: sa.Connection, cursor: Any, _text: str, _values: object, context: Any, _many: bool) -> None:
    """Ask for bytes as they are where a statement says so."""
    if context is not None and context.execution_options.get(IN_BINARY):
        cursor.format = _BINARY


def _write_ahead(connection: Any, _record: Any) -> None:
    """Let readers go on while one writes; the mode stays with the file.

    SQLite does not wait for others when it changes the mode, as two that open a new file at once find out.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & _PRIMARY == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def _leave_to_parent() -> None:
    """Give every engine of a forked child an empty pool.

    The old one is kept: to close its connections would speak to the server, or touch the file, for the parent.
    """
    for engine in _ENGINES:
        _INHERITED.append(engine.pool)
        engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
