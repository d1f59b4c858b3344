"""One engine, and transactions on it that mean the same on every database."""

import random
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, cast
from weakref import finalize

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import Pool, StaticPool

from ..errors import CheckpointError, DatabaseError
from . import reclaim, schema, urls
from .connections import READS, WRITES, begin, in_turn, prepare
from .event_loop import off_loop, on_event_loop
from .retries import may_pass
from .row_codec import Keyring
from .workers import Workers, threads_for

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", bound="UsesDatabase")
_ATTEMPTS = 8
_FIRST_PAUSE_S = 0.02


class Database:
    """An engine and how to use it: `write()` and `read()` are one transaction each, from any thread.

    Every SQL error leaves as DatabaseError, without the password and without parameters. Transactions of one
    thread are not nested.
    """

    def __init__(self, engine: sa.Engine | urls.OwnEngine, *, keys: Keyring | None = None) -> None:
        self._own = engine if isinstance(engine, urls.OwnEngine) else None
        self._given = engine if isinstance(engine, sa.Engine) else None
        self.keys = keys
        self.durable = not urls.is_memory(engine.url)
        self._place = urls.place(engine.url)
        self._checked = self._setup_put_off = False
        self.is_sqlite = engine.url.get_backend_name() == "sqlite"
        # where one writes at a time; a forked child has another pool, and leaves the parent's connection alone
        self.keeps = self._own is not None and self.is_sqlite and self.durable
        self._kept: dict[Pool, sa.Connection] = {}
        if self._own is not None:  # one that nobody uses any more may be collected on an event loop
            finalize(self, off_loop, partial(self._own.close, self._kept)).atexit = False
        self._postgresql = engine.url.get_backend_name() == "postgresql"  # elsewhere `begin` says how isolated it is
        self.workers = Workers(partial(threads_for, engine))
        """Threads for asynchronous callers: `await database.workers.run(call)`."""

    @classmethod
    def open(cls, target: str | sa.Engine = urls.MEMORY, *, keys: Keyring | None = None) -> Self:
        """Open a URL (synchronous or asynchronous driver names), an `Engine`, or "memory".

        "memory" ends with this object. An engine that is passed in stays the caller's to configure and close.
        With `keys` all that is said and stored is encrypted, and what is not is refused.
        DatabaseError for an unknown kind of database, an unreadable URL or a missing driver (on an event loop, at
        the first use); whether the database answers is seen at the first use, which `setup()` usually is.
        """
        if isinstance(target, sa.Engine):
            urls.accept(target)
            return cls(target, keys=keys)
        own = urls.OwnEngine(urls.sync_url(target), prepare)
        if not on_event_loop():  # to make one looks at the working directory and imports the driver
            own.made()
        return cls(own, keys=keys)

    @property
    def engine(self) -> sa.Engine:
        """The engine; one that was opened on an event loop is made at its first use."""
        return self._given or cast("urls.OwnEngine", self._own).made()

    @cached_property
    def _driver_error(self) -> type[Exception]:
        """What comes where a driver is spoken to directly, and where MariaDB is told an isolation."""
        return getattr(self.engine.dialect.dbapi, "Error", exc.DBAPIError)

    @cached_property
    def _writer(self) -> sa.Engine:
        leveled = self._postgresql and self._own is None
        return self.engine.execution_options(isolation_level="READ COMMITTED") if leveled else self.engine

    @cached_property
    def _reader(self) -> sa.Engine:
        return self.engine.execution_options(isolation_level="REPEATABLE READ") if self._postgresql else self.engine

    def setup(self) -> None:
        """Create the tables where they are missing; SchemaError where they are of another version."""
        with self._transaction(self._writer, WRITES) as conn:
            schema.create(conn)
        self._checked, self._setup_put_off = True, False

    def put_off_setup(self) -> None:
        """Have the first transaction do `setup()`, in the thread that runs it: nothing is opened before."""
        self._setup_put_off = not self._checked

    def finish_setup(self) -> None:
        """Do the `setup()` that was put off; nothing where none was, or where it is done."""
        if self._setup_put_off:
            self.setup()

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
                if attempt + 1 == _ATTEMPTS or not may_pass(error.__cause__):
                    raise
                # several that met once should not meet again
                time.sleep(_FIRST_PAUSE_S * 2**attempt * random.random())  # noqa: S311 - nobody's secret
        raise AssertionError("unreachable")

    @contextmanager
    def write(self) -> Generator[sa.Connection]:
        """Open a transaction that writes: committed at the end, undone as a whole by any exception."""
        self.finish_setup()
        with self._transaction(self._writer, WRITES) as conn:
            self._check(conn)
            yield conn

    @contextmanager
    def read(self) -> Generator[sa.Connection]:
        """Open a transaction that sees one moment of the database and writes nothing."""
        self.finish_setup()
        with self._transaction(self._reader, READS) as conn:
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

        DatabaseError where another connection reads an old state for too long, on SQLite and PostgreSQL.
        """
        self.finish_setup()
        with self._alone(WRITES), self._connected(self._autocommit()) as conn, self._translated(self._driver_error):
            reclaim.rewrite(conn, self._place)

    def close(self) -> None:
        """Close the connections of an engine that `open` made; leave another's engine alone. End the threads."""
        self.workers.close()
        if self._own is not None:
            self._own.close(self._kept)

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
        return self.engine if self.is_sqlite else self.engine.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def _transaction(self, engine: sa.Engine, mode: str) -> Generator[sa.Connection]:
        with self._alone(mode), self._taken(engine, mode) as conn, self._translated(), conn.begin():
            with self._translated(self._driver_error):
                begin(conn, mode)
            yield conn

    @contextmanager
    def _taken(self, engine: sa.Engine, mode: str) -> Generator[sa.Connection]:
        """Take a connection from the pool or, to write to an SQLite file, the one that did so without an error.

        The error of a transaction may keep a query that is not read to its end, as long as somebody has the error.
        On an SQLite file the connection would go on seeing that moment of it, so it is not used again.
        """
        pool, keeps = engine.pool, self.keeps and mode == WRITES
        conn = (self._kept.pop(pool, None) if keeps else None) or self._connected(engine)
        try:
            yield conn
        except BaseException:
            if self.is_sqlite and self.durable:
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
        if isinstance(self.engine.pool, StaticPool) or (self.is_sqlite and mode == WRITES):
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
