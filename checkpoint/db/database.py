"""One engine, and transactions on it that behave alike on every database."""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property, partial, wraps
from types import MappingProxyType, TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, cast
from weakref import finalize, ref

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import Pool, StaticPool

from ..errors import CheckpointError, DatabaseError, DatabaseURLError
from ..telemetry import database_call
from . import reclaim, schema, urls
from .connections import (
    READS,
    WRITES,
    OpenFile,
    OwnEngine,
    begin,
    enter_file,
    forget_isolation,
    in_turn,
    leave_file,
    turn_of,
    using_file,
    wait_for_turn,
)
from .row_codec import Keyring
from .thread_row import KnownThreads
from .transaction import FileTransaction, Transaction
from .workers import Workers, off_event_loop, on_event_loop, threads_for

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", bound="UsesDatabase")
_NONE: Mapping[str, Any] = MappingProxyType({})
_ATTEMPTS = 8
_KEPT_READERS = 2
_FIRST_PAUSE_S = 0.02

_TRANSIENT_SQLSTATES = frozenset(
    {"40001", "40P01", "57P01", "57P02", "57P03", "08006", "53300", "25006", "42703", "42P01"}
)
"""PostgreSQL's codes of errors after which a retry can succeed.

Serialization failure, deadlock, shutdown, crash, start-up, connection lost, too many connections, standby that is not
promoted yet, and column or table missing, which may have been upgraded.
"""
_TRANSIENT_CODES = frozenset({1020, 1205, 1213, 2006, 2013, 1054, 1146})
"""MariaDB's codes of errors after which a retry can succeed.

Row changed since it was read, lock wait timeout, deadlock, server gone, connection lost, column or table missing.
"""


class Database:
    """An engine and how to use it: `write()` and `read()` open one transaction each, from any OS thread.

    Every SQL error is raised as DatabaseError, without the password and without parameters. An OS thread must not
    open a transaction inside another transaction.
    """

    def __init__(self, engine: sa.Engine | OwnEngine, *, keys: Keyring | None = None) -> None:
        self._own = engine if isinstance(engine, OwnEngine) else None
        self._given = engine if isinstance(engine, sa.Engine) else None
        self.keys = keys
        self.durable = not urls.is_memory(engine.url)
        self._place = urls.place(engine.url)
        self._checked = self._setup_put_off = False
        self.is_sqlite = engine.url.get_backend_name() == "sqlite"
        self.is_postgresql = engine.url.get_backend_name() == "postgresql"
        self._is_own_file = self._own is not None and self.is_sqlite and self.durable
        self._file = str(engine.url.database)
        self._turns: tuple[Pool, threading.Lock] | None = None
        self.known_threads = KnownThreads()
        if self._own is not None:  # the garbage collector may run on an event loop, where closing must not block
            finalize(self, off_event_loop, self._own.close).atexit = False
        self.workers = Workers(partial(threads_for, engine))
        """OS threads that run blocking calls for asynchronous callers: `await database.workers.run(call)`."""

    @classmethod
    def open(cls, target: str | sa.Engine = urls.MEMORY, *, keys: Keyring | None = None) -> Self:
        """Open a URL (with the name of a synchronous or an asynchronous driver), an `Engine`, or "memory".

        A "memory" database ends with this object. The caller configures and closes a given engine. With `keys`, all
        messages, values and other texts are encrypted, and rows that are not encrypted are refused. Raise
        DatabaseError for an unknown kind of database, an unreadable URL or a missing driver (on an event loop, a
        missing driver is noticed at the first use). No connection is opened before the first use, which usually is
        `setup()`.
        """
        if isinstance(target, sa.Engine):
            urls.accept(target)
            return cls(target, keys=keys)
        own = OwnEngine(urls.sync_url(target))
        if not on_event_loop():  # making an engine blocks: it reads the working directory and imports the driver
            own.get()
        return cls(own, keys=keys)

    @property
    def engine(self) -> sa.Engine:
        """The engine; for a database that was opened on an event loop, the engine is made at its first use."""
        return self._given or cast("OwnEngine", self._own).get()

    @cached_property
    def identity(self) -> Hashable:
        """Equal for two objects that certainly open the same database: by one URL of a server or file, or one engine.

        A password does not count. A database in memory that `open` made equals no other, and an engine of the
        application only itself: its connections may lead to a place of their own.
        """
        if self._own is not None and self.durable:
            return self._own.url.render_as_string()
        return ref(self._given or self)

    @cached_property
    def _driver_error(self) -> type[Exception]:
        """The base class of the driver's errors, which are raised by statements that bypass SQLAlchemy."""
        return getattr(self.engine.dialect.dbapi, "Error", exc.DBAPIError)

    @cached_property
    def _writer(self) -> sa.Engine:
        needs_level = self.is_postgresql and self._own is None
        return self.engine.execution_options(isolation_level="READ COMMITTED") if needs_level else self.engine

    @cached_property
    def _reader(self) -> sa.Engine:
        # on other databases `begin` sets the isolation
        level = "REPEATABLE READ"
        return self.engine.execution_options(isolation_level=level) if self.is_postgresql else self.engine

    def setup(self) -> None:
        """Create missing tables, or upgrade those of an earlier version.

        Raise SchemaError if this code does not support the version of the stored tables.
        """

        def create() -> None:
            with self._transaction(self._writer, WRITES) as conn:
                schema.create(conn, self.keys)

        self.retry(create)
        self._checked, self._setup_put_off = True, False

    def put_off_setup(self) -> None:
        """Postpone `setup()` to the first transaction, so that no connection is opened until then.

        The OS thread of that transaction runs `setup()`.
        """
        self._setup_put_off = not self._checked

    def finish_setup(self) -> None:
        """Run `setup()` if `put_off_setup` has postponed it."""
        if self._setup_put_off:
            self.setup()

    def run_write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` in a writing transaction; repeat this after a deadlock or a lost connection.

        `work` must have the same effect when it runs twice: a connection may be lost after the commit.
        """
        return self.retry(partial(_run, self.write, work))

    def run_read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` in a reading transaction; run a new transaction with `work` after a lost connection."""
        return self.retry(partial(_run, self.read, work))

    def run(self, mode: str, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction, READS or WRITES, once: `retry` repeats it.

        On an SQLite file of its own this goes past SQLAlchemy, on connections that are kept open; but not while
        somebody listens to the statements of its engine.
        """
        if self._is_own_file and self._checked and not self.engine._has_events:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - it has no public name
            return self._run_on_file(mode, work)
        with self.write() if mode == WRITES else self.read() as conn:
            return work(Transaction(conn))

    def run_statement(self, statement: sa.Insert | sa.Update | sa.Delete, values: Mapping[str, Any] = _NONE) -> int:
        """Run `statement` with retries, as `run_write` does; the same condition holds."""
        return self.retry(partial(self.statement, statement, values))

    def statement(self, statement: sa.Insert | sa.Update | sa.Delete, values: Mapping[str, Any] = _NONE) -> int:
        """Run a statement as a transaction of its own, and return how many rows it changed.

        On PostgreSQL this is one round trip, once a transaction has checked the version of the tables.
        """
        with (self.single_statements if self.can_read_at_once else self.write)() as conn:
            return conn.execute(statement, dict(values)).rowcount

    def retry(self, transaction: Callable[[], T]) -> T:
        """Run a whole transaction; repeat it after a deadlock or a lost connection, up to 8 attempts in all.

        If a table or a column is missing, the next attempt looks whether another version has upgraded the tables.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return transaction()
            except DatabaseError as error:
                if attempt + 1 == _ATTEMPTS or not _is_transient(error.__cause__):
                    raise
                self._checked = False
                # a random pause, so that transactions that blocked each other do not block each other again
                time.sleep(_FIRST_PAUSE_S * 2**attempt * random.random())  # noqa: S311 - not a secret
        raise AssertionError("unreachable")

    @contextmanager
    def write(self) -> Generator[sa.Connection]:
        """Open a writing transaction: committed at the end, rolled back by any exception."""
        self.finish_setup()
        with self._transaction(self._writer, WRITES) as conn:
            self._check_schema(conn)
            yield conn

    @contextmanager
    def read(self) -> Generator[sa.Connection]:
        """Open a reading transaction on one consistent snapshot of the database."""
        self.finish_setup()
        with self._transaction(self._reader, READS) as conn:
            self._check_schema(conn)
            yield conn

    @property
    def can_read_at_once(self) -> bool:
        """Whether `single_statements` may be used now to read all rows of a checkpoint, with PostgreSQL's joins."""
        return self.is_postgresql and self._checked

    @contextmanager
    def single_statements(self) -> Generator[sa.Connection]:
        """Open a connection on which each statement is a transaction of its own: a round trip for each, no more.

        Only for servers. The caller makes sure that `write()` or `read()` has checked the version of the tables.
        """
        with self._connect(self._autocommit) as conn, self._translated():
            forget_isolation(conn)
            yield conn

    def reclaim(self) -> None:
        """Rewrite the tables, so that deleted rows leave neither bytes nor free space behind; see `reclaim.rewrite`.

        Raise DatabaseError if another connection keeps an older transaction open, on SQLite and PostgreSQL.
        """
        self.finish_setup()
        with self._exclusive(WRITES), self._connect(self._autocommit) as conn, self._translated(self._driver_error):
            forget_isolation(conn)
            reclaim.rewrite(conn, self._place)

    def close(self) -> None:
        """End the worker threads, and close the connections of an engine that `open` made."""
        self.workers.close()
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_schema(self, conn: sa.Connection) -> None:
        if not self._checked:
            schema.check(conn)
            self._checked = True

    @cached_property
    def _autocommit(self) -> sa.Engine:
        return self.engine if self.is_sqlite else self.engine.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def _transaction(self, engine: sa.Engine, mode: str) -> Generator[sa.Connection]:
        with self._exclusive(mode), self._connection(engine, mode) as conn, self._translated(), conn.begin():
            with self._translated(self._driver_error):
                begin(conn, mode)
            yield conn

    @contextmanager
    def _connection(self, engine: sa.Engine, mode: str) -> Generator[sa.Connection]:
        """Take a connection from the pool, or the connection that all writers of an SQLite file share.

        A traceback can keep an unfinished cursor alive, and on SQLite such a cursor pins an old read snapshot; so the
        connection is discarded after an error.
        """
        pool = engine.pool
        shared = self._own.writers if self._own and self._is_own_file and mode == WRITES else None
        kept = None if shared is None else shared.pop(pool, None)
        conn = self._connect(engine) if kept is None else kept.conn
        try:
            yield conn
        except BaseException:
            if self.is_sqlite and self.durable:
                conn.invalidate()
            conn.close()
            raise
        if shared is None:
            conn.close()
        else:
            self._keep_writer(cast("OwnEngine", self._own), pool, kept or _open_file(conn))

    def _keep_writer(self, own: OwnEngine, pool: Pool, used: OpenFile) -> None:
        own.writers[pool] = used
        if own.get().pool is not pool:  # `close` replaced the pool during the transaction
            own.close_kept(pool)

    @contextmanager
    def _exclusive(self, mode: str) -> Generator[None]:
        """Wait in a queue for the only connection of an engine, or for the right to write to an SQLite file."""
        waits = isinstance(self.engine.pool, StaticPool) or (self.is_sqlite and mode == WRITES)
        is_file = self.is_sqlite and self.durable
        with (
            using_file(self._file, self._place) if is_file else nullcontext(),
            in_turn(self.engine.pool, self._place) if waits else nullcontext(),
        ):
            yield

    def _run_on_file(self, mode: str, work: Callable[[Transaction], T]) -> T:
        own = cast("OwnEngine", self._own)
        enter_file(self._file, self._place)
        try:
            pool = own.get().pool
            return self._write_file(own, pool, work) if mode == WRITES else self._read_file(own, pool, work)
        finally:
            leave_file(self._file)

    def _write_file(self, own: OwnEngine, pool: Pool, work: Callable[[Transaction], T]) -> T:
        if self._turns is None or self._turns[0] is not pool:
            self._turns = pool, turn_of(pool)
        turn = self._turns[1]
        wait_for_turn(turn, self._place)
        try:
            used = own.writers.pop(pool, None) or _open_file(self._connect(self.engine))
            done = self._within(used, "BEGIN IMMEDIATE", work)
            self._keep_writer(own, pool, used)
            return done
        finally:
            turn.release()

    def _read_file(self, own: OwnEngine, pool: Pool, work: Callable[[Transaction], T]) -> T:
        readers = own.readers.get(pool)
        if readers is None:
            readers = own.readers.setdefault(pool, deque())
        try:
            used = readers.pop()
        except IndexError:
            used = _open_file(self._connect(self.engine))
        found = self._within(used, "BEGIN", work)
        if len(readers) < _KEPT_READERS:
            readers.append(used)
        else:
            used.conn.close()
        if own.get().pool is not pool:  # see `_keep_writer`
            own.close_kept(pool)
        return found

    def _within(self, used: OpenFile, begin_text: str, work: Callable[[Transaction], T]) -> T:
        """Run `work` between BEGIN and COMMIT; discard the connection after an error."""
        transaction = FileTransaction(used.conn.dialect, used.driver)
        try:
            used.driver.execute(begin_text)
            done = work(transaction)
            used.driver.commit()
        except BaseException as error:
            with suppress(self._driver_error):
                transaction.close()
                used.driver.rollback()
            used.conn.invalidate()
            used.conn.close()
            if isinstance(error, self._driver_error):
                raise self._database_error(error) from error
            raise
        return done

    def _connect(self, engine: sa.Engine) -> sa.Connection:
        try:
            return engine.connect()
        except (exc.SQLAlchemyError, self._driver_error) as error:
            kind = DatabaseURLError if urls.is_unusable_file(error) else DatabaseError
            raise kind(
                f"cannot connect to {self._place}: {self._text(error)}; check that it runs, and its host, "
                "port, name, user and password (of a file: its folder and rights)"
            ) from error

    @contextmanager
    def _translated(self, *others: type[Exception]) -> Generator[None]:
        """Raise DatabaseError in place of SQLAlchemy's errors and the error types `others`."""
        kinds: tuple[type[Exception], ...] = (exc.SQLAlchemyError, *others)
        try:
            yield
        except kinds as error:
            cause = getattr(error, "orig", None)
            if isinstance(cause, CheckpointError):
                raise cause from None
            raise self._database_error(error) from error

    def _database_error(self, error: Exception) -> DatabaseError:
        # only the first line: further lines of PostgreSQL's messages show the row
        return DatabaseError(f"{self._place}: {self._text(error, lines=1)}")

    def _text(self, error: Exception, *, lines: int | None = None) -> str:
        said = str(getattr(error, "orig", None) or error).strip().splitlines()
        text = " ".join(line.strip() for line in said[:lines])
        password = self.engine.url.password
        return text.replace(str(password), "***") if password else text


class UsesDatabase(Protocol):
    """An object whose methods are transactions of one database."""

    database: Database


def writes(method: Callable[Concatenate[S, sa.Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method run in a writing transaction, which is repeated after a deadlock or a lost connection."""

    @database_call(f"records.{method.__name__}")
    @wraps(method)
    def transaction(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return self.database.run_write(lambda conn: method(self, conn, *args, **options))

    return transaction


def reads(method: Callable[Concatenate[S, sa.Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method run in a reading transaction, which is repeated after a lost connection."""

    @database_call(f"records.{method.__name__}")
    @wraps(method)
    def transaction(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return self.database.run_read(lambda conn: method(self, conn, *args, **options))

    return transaction


def _open_file(conn: sa.Connection) -> OpenFile:
    return OpenFile(conn, conn.connection.driver_connection)


def _run(opened: Callable[[], AbstractContextManager[sa.Connection]], work: Callable[[sa.Connection], T]) -> T:
    with opened() as conn:
        return work(conn)


def _is_transient(cause: BaseException | None) -> bool:
    """Return whether the same transaction may succeed when it is tried again."""
    error = cause
    if isinstance(cause, exc.DBAPIError):
        if cause.connection_invalidated:
            return True
        error = cause.orig
    arguments: tuple[object, ...] = getattr(error, "args", ())
    if isinstance(cause, exc.OperationalError) and getattr(error, "sqlstate", "") is None:
        return True  # raised by psycopg itself, not by the server: the connection broke within a pipeline
    sqlstate = getattr(error, "sqlstate", None)
    if str(error).startswith("no such "):  # SQLite's text for a missing column or table
        return True
    return sqlstate in _TRANSIENT_SQLSTATES or not _TRANSIENT_CODES.isdisjoint(arguments[:1])
