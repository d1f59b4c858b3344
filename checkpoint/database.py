"""One engine, and transactions on it that mean the same on every database."""

import random
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import Pool, SingletonThreadPool, StaticPool

from . import rewriting, schema, urls
from .errors import CheckpointError, DatabaseError
from .pooling import in_turn, prepare
from .sealing import Keyring
from .workers import Workers, threads_for

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", bound="UsesDatabase")
_READS, _WRITES = "DEFERRED", "IMMEDIATE"  # as SQLite calls them
_ATTEMPTS = 8
_FIRST_PAUSE_S = 0.02
_AGAIN_SQLSTATES = frozenset({"40001", "40P01", "57P01", "57P02", "57P03", "08006", "53300"})
"""PostgreSQL's: serialization failure, deadlock, shut down, crashed, starting up, lost, too many."""
_AGAIN_CODES = frozenset({1020, 1205, 1213, 2006, 2013})
"""MariaDB's: row changed since it was read, lock wait, deadlock, server gone, connection lost."""


class Database:
    """An engine and how to use it: `write()` and `read()` are one transaction each, from any thread.

    Every SQL error leaves as DatabaseError, without the password and without parameters. Transactions of one
    thread are not nested.
    """

    def __init__(self, engine: sa.Engine, *, owned: bool = False, keys: Keyring | None = None) -> None:
        self.engine = engine
        self.keys = keys
        self.durable = not urls.is_memory(engine.url)
        self._owned = owned
        self._place = urls.place(engine.url)
        self._checked = False
        self._sqlite = engine.dialect.name == "sqlite"
        # it comes as it is where a driver is spoken to directly, and where MariaDB is told an isolation
        self._driver_error: type[Exception] = getattr(engine.dialect.dbapi, "Error", exc.DBAPIError)
        # where one writes at a time; a forked child has another pool, and leaves the parent's connection alone
        self.keeps = owned and self._sqlite and self.durable
        self._kept: dict[Pool, sa.Connection] = {}
        self.workers = Workers(partial(threads_for, engine))
        """Threads for asynchronous callers: `await database.workers.run(call)`."""
        postgresql = engine.dialect.name == "postgresql"  # elsewhere `_begin` says how isolated it is
        leveled = engine.execution_options
        self._writer = leveled(isolation_level="READ COMMITTED") if postgresql and not owned else engine
        self._reader = leveled(isolation_level="REPEATABLE READ") if postgresql else engine

    @classmethod
    def open(cls, target: str | sa.Engine = urls.MEMORY, *, keys: Keyring | None = None) -> Self:
        """Open a URL (synchronous or asynchronous driver names), an `Engine`, or "memory".

        "memory" ends with this object. An engine that is passed in stays the caller's to configure and close.
        With `keys` all that is said and stored is encrypted, and what is not is refused.
        DatabaseError for an unknown kind of database, a missing driver or an unreadable URL; whether the
        database answers is seen at the first use, which `setup()` usually is.
        """
        if isinstance(target, sa.Engine):
            _accept(target)
            return cls(target, keys=keys)
        url = urls.sync_url(target)
        engine = urls.create_engine(url)
        prepare(engine)
        return cls(engine, owned=True, keys=keys)

    def setup(self) -> None:
        """Create the tables where they are missing and bring old ones up to date; SchemaError where they are newer.

        Tables of version 1 must not be used by older code meanwhile. What they hold stays unencrypted.
        """
        with self._transaction(self._writer, _WRITES) as conn:
            schema.create(conn)
        self._checked = True

    def run(self, work: Callable[[sa.Connection], T]) -> T:
        """Do `work` in a transaction that writes, again after a deadlock or a lost connection.

        `work` must come to the same when it is done twice: a connection may be lost after the commit.
        """
        return self.again(partial(_done, self.write, work))

    def look(self, work: Callable[[sa.Connection], T]) -> T:
        """Do `work` in a transaction that reads, again after a lost connection."""
        return self.again(partial(_done, self.read, work))

    def again(self, transaction: Callable[[], T]) -> T:
        """Do a whole transaction, again after a deadlock or a lost connection."""
        for attempt in range(_ATTEMPTS):
            try:
                return transaction()
            except DatabaseError as error:
                if attempt + 1 == _ATTEMPTS or not _may_pass(error.__cause__):
                    raise
                # several that met once should not meet again
                time.sleep(_FIRST_PAUSE_S * 2**attempt * random.random())  # noqa: S311 - nobody's secret
        raise AssertionError("unreachable")

    @contextmanager
    def write(self) -> Generator[sa.Connection]:
        """Open a transaction that writes: committed at the end, undone as a whole by any exception."""
        with self._transaction(self._writer, _WRITES) as conn:
            self._check(conn)
            yield conn

    @contextmanager
    def read(self) -> Generator[sa.Connection]:
        """Open a transaction that sees one moment of the database and writes nothing."""
        with self._transaction(self._reader, _READS) as conn:
            self._check(conn)
            yield conn

    def stamp(self, conn: sa.Connection) -> tuple[int, int]:
        """Return, within a transaction that writes, what is another once anybody has changed a row of the file."""
        driver: Any = conn.connection.driver_connection
        with self._translated(self._driver_error):
            [version] = driver.execute("PRAGMA data_version").fetchone()
            return version, driver.total_changes

    def reclaim(self) -> None:
        """Write the tables anew, so that erased rows leave neither bytes nor space behind; see `rewriting`.

        DatabaseError where another connection reads an old state of an SQLite file for too long.
        """
        with self._alone(_WRITES), self._connected(self._autocommit()) as conn, self._translated(self._driver_error):
            rewriting.rewrite(conn, self._place)

    def close(self) -> None:
        """Close the connections of an engine that `open` made; leave another's engine alone. End the threads."""
        self.workers.close()
        if self._owned:
            if (kept := self._kept.pop(self.engine.pool, None)) is not None:
                kept.close()
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

    def _autocommit(self) -> sa.Engine:
        return self.engine if self._sqlite else self.engine.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def _transaction(self, engine: sa.Engine, mode: str) -> Generator[sa.Connection]:
        with self._alone(mode), self._taken(engine, mode) as conn, self._translated(), conn.begin():
            with self._translated(self._driver_error):
                _begin(conn, mode)
            yield conn

    @contextmanager
    def _taken(self, engine: sa.Engine, mode: str) -> Generator[sa.Connection]:
        """Take a connection from the pool or, to write to an SQLite file, the one that did so without an error.

        The error of a transaction may keep a query that is not read to its end, as long as somebody has the error.
        On an SQLite file the connection would go on seeing that moment of it, so it is not used again.
        """
        pool, keeps = engine.pool, self.keeps and mode == _WRITES
        conn = (self._kept.pop(pool, None) if keeps else None) or self._connected(engine)
        try:
            yield conn
        except BaseException:
            if self._sqlite and self.durable:
                conn.invalidate()
            conn.close()
            raise
        if keeps and engine.pool is pool:
            self._kept[pool] = conn
        else:
            if keeps:  # the database was closed meanwhile
                conn.detach()
            conn.close()

    def _alone(self, mode: str) -> AbstractContextManager[object]:
        """Queue for an engine's only connection, and for writing to an SQLite file.

        SQLite itself would have those who wait sleep and try again, the last to come as likely as the first.
        """
        if isinstance(self.engine.pool, StaticPool) or (self._sqlite and mode == _WRITES):
            return in_turn(self.engine, self._place)
        return nullcontext()

    def _connected(self, engine: sa.Engine) -> sa.Connection:
        try:
            return engine.connect()
        except (exc.SQLAlchemyError, self._driver_error) as error:
            raise DatabaseError(
                f"cannot connect to {self._place}: {self._text(error)}; check that it runs, and its host, "
                "port, name, user and password (of a file: its folder and rights)"
            ) from error

    @contextmanager
    def _translated(self, *others: type[Exception]) -> Generator[None]:
        kinds: tuple[type[Exception], ...] = (exc.SQLAlchemyError, *others)
        try:
            yield
        except kinds as error:
            cause = getattr(error, "orig", None)
            if isinstance(cause, CheckpointError):
                raise cause from None
            # further lines of PostgreSQL's show the row
            raise DatabaseError(f"{self._place}: {self._text(error, lines=1)}") from error

    def _text(self, error: Exception, *, lines: int | None = None) -> str:
        said = str(getattr(error, "orig", None) or error).strip().splitlines()
        text = " ".join(line.strip() for line in said[:lines])
        password = self.engine.url.password
        return text.replace(str(password), "***") if password else text


class UsesDatabase(Protocol):
    """An object whose methods are transactions of one database."""

    database: Database


def writes(method: Callable[Concatenate[S, sa.Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Give a method a transaction that writes, done again after a deadlock or a lost connection."""

    @wraps(method)
    def transaction(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return self.database.run(lambda conn: method(self, conn, *args, **options))

    return transaction


def reads(method: Callable[Concatenate[S, sa.Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Give a method a transaction that reads, done again after a lost connection."""

    @wraps(method)
    def transaction(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return self.database.look(lambda conn: method(self, conn, *args, **options))

    return transaction


def _done(opened: Callable[[], AbstractContextManager[sa.Connection]], work: Callable[[sa.Connection], T]) -> T:
    with opened() as conn:
        return work(conn)


def _begin(conn: sa.Connection, mode: str) -> None:
    """Begin where the driver would do it too late or otherwise.

    SQLite's waits for the first change and then fails instead of waiting. MariaDB's default would read from
    before the thread row was locked, and a read is to see one moment.
    """
    name = conn.dialect.name
    driver: Any = conn.connection.driver_connection
    if name == "sqlite" and not getattr(driver, "in_transaction", False):
        driver.execute(f"BEGIN {mode}")
    elif name in {"mysql", "mariadb"}:
        level = "REPEATABLE READ" if mode == _READS else "READ COMMITTED"
        conn.exec_driver_sql(f"SET TRANSACTION ISOLATION LEVEL {level}")


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


def _may_pass(cause: BaseException | None) -> bool:
    """Say whether the same transaction may succeed when it is tried again."""
    said = cause
    if isinstance(cause, exc.DBAPIError):
        if cause.connection_invalidated:
            return True
        said = cause.orig
    arguments: tuple[object, ...] = getattr(said, "args", ())
    if isinstance(cause, exc.OperationalError) and getattr(said, "sqlstate", "") is None:
        return True  # psycopg's own word, not the server's: the connection broke within a pipeline
    return getattr(said, "sqlstate", None) in _AGAIN_SQLSTATES or not _AGAIN_CODES.isdisjoint(arguments[:1])
