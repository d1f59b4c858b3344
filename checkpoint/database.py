"""One engine, and transactions on it that mean the same on every database."""

import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import Pool, SingletonThreadPool, StaticPool

from . import schema, urls
from .errors import CheckpointError, DatabaseError
from .pooling import prepare

_QUEUES: WeakKeyDictionary[Pool, threading.Semaphore] = WeakKeyDictionary()
_QUEUES_LOCK = threading.Lock()


class Database:
    """An engine and how to use it: `write()` and `read()` are one transaction each, from any thread.

    Every SQL error leaves as DatabaseError, without the password and without parameters. Transactions of one
    thread are not nested.
    """

    def __init__(self, engine: sa.Engine, *, owned: bool = False) -> None:
        self.engine = engine
        self.durable = not urls.is_memory(engine.url)
        self._owned = owned
        self._place = urls.place(engine.url)
        self._checked = False
        self._queue = _queue_of(engine)
        sqlite = engine.dialect.name == "sqlite"
        # MariaDB's default would read from before the thread row was locked; a read sees one moment
        self._writer = engine if sqlite or owned else engine.execution_options(isolation_level="READ COMMITTED")
        self._reader = engine if sqlite else engine.execution_options(isolation_level="REPEATABLE READ")

    @classmethod
    def open(cls, target: str | sa.Engine = urls.MEMORY) -> Self:
        """Open a URL (synchronous or asynchronous driver names), an `Engine`, or "memory".

        "memory" ends with this object. An engine that is passed in stays the caller's to configure and close.
        DatabaseError for an unknown kind of database, a missing driver or an unreadable URL; whether the
        database answers is seen at the first use, which `setup()` usually is.
        """
        if isinstance(target, sa.Engine):
            _accept(target)
            return cls(target)
        url = urls.sync_url(target)
        engine = urls.create_engine(url)
        prepare(engine)
        return cls(engine, owned=True)

    def setup(self) -> None:
        """Create the tables where they are missing; SchemaError where they are newer than this code."""
        with self._transaction(self._writer, "IMMEDIATE") as conn:
            schema.create(conn)
        self._checked = True

    @contextmanager
    def write(self) -> Generator[sa.Connection]:
        """Open a transaction that writes: committed at the end, undone as a whole by any exception."""
        with self._transaction(self._writer, "IMMEDIATE") as conn:
            self._check(conn)
            yield conn

    @contextmanager
    def read(self) -> Generator[sa.Connection]:
        """Open a transaction that sees one moment of the database and writes nothing."""
        with self._transaction(self._reader, "DEFERRED") as conn:
            self._check(conn)
            yield conn

    def close(self) -> None:
        """Close the connections of an engine that `open` made; leave another's engine alone."""
        if self._owned:
            self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self, conn: sa.Connection) -> None:
        if not self._checked:
            schema.check(conn)
            self._checked = True

    @contextmanager
    def _transaction(self, engine: sa.Engine, mode: str) -> Generator[sa.Connection]:
        with self._alone(), self._connected(engine) as conn, self._translated(), conn.begin():
            _begin(conn, mode)
            yield conn

    def _alone(self) -> AbstractContextManager[object]:
        return nullcontext() if self._queue is None else _held(self._queue, self._place)

    def _connected(self, engine: sa.Engine) -> sa.Connection:
        try:
            return engine.connect()
        except exc.SQLAlchemyError as error:
            raise DatabaseError(
                f"cannot connect to {self._place}: {self._text(error)}; check that it runs, and its host, "
                "port, name, user and password (of a file: its folder and rights)"
            ) from error

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except exc.SQLAlchemyError as error:
            cause = getattr(error, "orig", None)
            if isinstance(cause, CheckpointError):
                raise cause from None
            # further lines of PostgreSQL's show the row
            raise DatabaseError(f"{self._place}: {self._text(error, lines=1)}") from error

    def _text(self, error: exc.SQLAlchemyError, *, lines: int | None = None) -> str:
        said = str(getattr(error, "orig", None) or error).strip().splitlines()
        text = " ".join(line.strip() for line in said[:lines])
        password = self.engine.url.password
        return text.replace(str(password), "***") if password else text


def _begin(conn: sa.Connection, mode: str) -> None:
    """Begin on SQLite, whose driver would wait for the first change and then fail instead of waiting."""
    if conn.dialect.name == "sqlite" and not getattr(conn.connection.driver_connection, "in_transaction", False):
        conn.exec_driver_sql(f"BEGIN {mode}")


def _accept(engine: sa.Engine) -> None:
    if engine.dialect.name not in {"sqlite", "postgresql", "mysql", "mariadb"}:
        raise DatabaseError(f"there is no support for {engine.dialect.name!r} databases")
    if engine.dialect.is_async:
        raise DatabaseError("an engine with an asynchronous driver was given; give its URL, or a synchronous engine")
    if isinstance(engine.pool, SingletonThreadPool):
        raise DatabaseError(
            "this engine gives every thread an SQLite memory database of its own; "
            "open 'memory', or make the engine with poolclass=StaticPool and check_same_thread=False"
        )


def _queue_of(engine: sa.Engine) -> threading.Semaphore | None:
    """Return the lock shared by all who use this engine's only connection, or None where it has many."""
    if not isinstance(engine.pool, StaticPool):
        return None
    with _QUEUES_LOCK:
        return _QUEUES.setdefault(engine.pool, threading.Semaphore())


@contextmanager
def _held(queue: threading.Semaphore, place: str) -> Generator[None]:
    if not queue.acquire(timeout=urls.BUSY_TIMEOUT_S):
        raise DatabaseError(f"{place} has been busy for {urls.BUSY_TIMEOUT_S:.0f} s; is a transaction left open?")
    try:
        yield
    finally:
        queue.release()
