"""One engine, and transactions on it that behave alike on every database."""

import random
import threading
import time
from collections.abc import Callable, Generator, Hashable, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property, partial, wraps
from types import MappingProxyType, TracebackType
from typing import Any, Concatenate, NoReturn, ParamSpec, Protocol, Self, TypeVar, cast
from weakref import finalize, ref

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import Pool, StaticPool

from ..errors import CheckpointError, DatabaseError, DatabaseURLError
from ..telemetry import database_call
from . import reclaim, schema, urls
from .connections import OwnEngine, Turn, enter_file, leave_file, turn_of, wait_for_turn
from .row_codec import Keyring
from .thread_row import KnownThreads
from .transaction import LEVELS, READS, SINGLE, WRITES, Transaction
from .workers import Workers, off_event_loop, on_event_loop, threads_for

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", bound="UsesDatabase")
_NONE: Mapping[str, Any] = MappingProxyType({})
_ATTEMPTS = 8
_FIRST_PAUSE_S = 0.02

_TRANSIENT_SQLSTATES = frozenset(
    {
        *("40001", "40P01", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "08006", "08P01"),
        *("53300", "25006", "42703", "42P01"),
    }
)
"""PostgreSQL's codes of errors after which a retry can succeed.

Serialization failure, deadlock, shutdown, crash, start-up, session or transaction idle or open too long, connection
lost or cut by pgbouncer, too many connections, standby that is not promoted yet, and column or table missing, which
may have been upgraded.
"""
_TRANSIENT_CODES = frozenset({1020, 1205, 1213, 1412, 2006, 2013, 1054, 1146})
"""MariaDB's codes of errors after which a retry can succeed.

Row changed since it was read, lock wait timeout, deadlock, table rewritten since the snapshot, server gone,
connection lost, column or table missing.
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
        self._is_file = self.is_sqlite and self.durable
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
    def _errors(self) -> tuple[type[Exception], ...]:
        """The base classes of SQLAlchemy's errors, and of the driver's, which statements past SQLAlchemy raise."""
        return exc.SQLAlchemyError, getattr(self.engine.dialect.dbapi, "Error", exc.DBAPIError)

    @cached_property
    def _keeper(self) -> OwnEngine | None:
        """What keeps connections open between transactions, which then begin by a statement of this package."""
        own = self._own if self.durable else None
        return None if own is None or (self.is_postgresql and not urls.begins_itself(own.url)) else own

    @cached_property
    def _engines(self) -> Mapping[str, sa.Engine]:
        """The engine by the mode of a transaction, which has its isolation on PostgreSQL if the driver begins it."""
        if not self.is_postgresql or self._keeper is not None:
            return dict.fromkeys(LEVELS, self.engine)
        return {mode: self.engine.execution_options(isolation_level=level) for mode, level in LEVELS.items()}

    def setup(self) -> None:
        """Create missing tables, or upgrade those of an earlier version.

        Raise SchemaError if this code does not support the version of the stored tables.
        """

        def create() -> None:
            with self._opened(WRITES, ready=False) as transaction:
                schema.create(transaction.conn, self.keys)

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

    def run_write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a writing transaction; repeat this after a deadlock or a lost connection.

        `work` must have the same effect when it runs twice: a connection may be lost after the commit.
        """
        return self.retry(partial(self.run, WRITES, work))

    def run_read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a reading transaction; run a new transaction with `work` after a lost connection."""
        return self.retry(partial(self.run, READS, work))

    def run(self, mode: str, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction, READS, WRITES or SINGLE, once: `retry` repeats it."""
        with self._opened(mode, *self._errors) as transaction:
            return work(transaction)

    def run_statement(self, statement: sa.Insert | sa.Update | sa.Delete, values: Mapping[str, Any] = _NONE) -> int:
        """Run `statement` with retries, as `run_write` does; the same condition holds."""
        return self.retry(partial(self.statement, statement, values))

    def statement(self, statement: sa.Insert | sa.Update | sa.Delete, values: Mapping[str, Any] = _NONE) -> int:
        """Run a statement as a transaction of its own, and return how many rows it changed.

        On PostgreSQL this is one round trip, once a transaction has checked the version of the tables.
        """
        mode = SINGLE if self.can_read_at_once else WRITES
        return self.run(mode, lambda transaction: transaction.execute(statement, dict(values)).rowcount)

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

    def write(self) -> AbstractContextManager[Transaction]:
        """Open a writing transaction: committed at the end, rolled back by any exception."""
        return self._opened(WRITES)

    def read(self) -> AbstractContextManager[Transaction]:
        """Open a reading transaction on one consistent snapshot of the database."""
        return self._opened(READS)

    @property
    def can_read_at_once(self) -> bool:
        """Whether SINGLE may be used now to read all rows of a checkpoint, with PostgreSQL's joins."""
        return self.is_postgresql and self._checked

    def reclaim(self) -> None:
        """Rewrite the tables, so that deleted rows leave neither bytes nor free space behind; see `reclaim.rewrite`.

        Raise DatabaseError if another connection keeps an older transaction open, on SQLite and PostgreSQL.
        """
        self.run(SINGLE, lambda transaction: reclaim.rewrite(transaction.conn, self._place))

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

    @contextmanager
    def _opened(self, mode: str, *others: type[Exception], ready: bool = True) -> Generator[Transaction]:
        """Open a transaction. It is committed at the end, and rolled back by any exception.

        Within the block SQLAlchemy's errors become a DatabaseError, and the error types `others`. With `ready`, the
        tables are there first.
        """
        if ready:
            self.finish_setup()
        pool, errors = self.engine.pool, self._errors
        turn = self._enter(mode, pool)
        try:
            transaction = self._take(mode)
            try:
                if self._keeper is not None or not self.is_postgresql:
                    transaction.begin(mode)
                if ready and not self._checked:
                    schema.check(transaction.conn)
                    self._checked = True
                errors = (exc.SQLAlchemyError, *others)
                yield transaction
                errors = self._errors
                transaction.commit()
            except BaseException as error:
                self._give_up(transaction, pool, error)
                if isinstance(error, errors):
                    self._raise_told(error)
                raise
            self._give_back(transaction, pool)
        finally:
            self._leave(turn)

    def _enter(self, mode: str, pool: Pool) -> "Turn | None":
        """Wait for a place among the connections, or for the right to write to an SQLite file."""
        if self._is_file:
            enter_file(self._file, self._place)
        if not self.is_sqlite or (mode == READS and not isinstance(pool, StaticPool)):
            if self._own is None:
                return None
            turn: Turn = self._own.places
        else:
            if self._turns is None or self._turns[0] is not pool:
                self._turns = pool, turn_of(pool)
            turn = self._turns[1]
        try:
            wait_for_turn(turn, self._place)
        except BaseException:
            self._leave(None)
            raise
        return turn

    def _leave(self, turn: "Turn | None") -> None:
        if turn is not None:
            turn.release()
        if self._is_file:
            leave_file(self._file)

    def _take(self, mode: str) -> Transaction:
        """Take a connection: one that was kept open, unless somebody listens to the engine, or else from the pool."""
        engine = self._engines[mode]
        if self._keeper is None or engine._has_events:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - it has no public name
            return Transaction(self._connect(engine))
        try:
            kept = self._keeper.idle.pop()
        except IndexError:
            kept = Transaction(self._connect(engine))
        return kept

    def _give_back(self, transaction: Transaction, pool: Pool) -> None:
        if self._keeper is None or transaction.is_heard:
            transaction.conn.close()
        else:
            self._keeper.keep(transaction, pool)

    def _give_up(self, transaction: Transaction, pool: Pool, error: BaseException) -> None:
        """Roll back, and discard a connection that was lost.

        A traceback can keep an unfinished cursor alive, and on SQLite such a cursor pins an old read snapshot; so a
        connection to a file is discarded after any error.
        """
        is_lost = True
        with suppress(*self._errors):
            transaction.roll_back()  # raises an error if the connection was lost
            is_lost = self._is_file or transaction.conn.invalidated or not isinstance(error, Exception)
        if not is_lost:
            self._give_back(transaction, pool)
            return
        transaction.close_for_good()
        if self._keeper is not None and not self.is_sqlite:  # the others are lost, too
            self._keeper.close_idle()

    def _connect(self, engine: sa.Engine) -> sa.Connection:
        try:
            return engine.connect()
        except self._errors as error:
            kind = DatabaseURLError if urls.is_unusable_file(error) else DatabaseError
            raise kind(
                f"cannot connect to {self._place}: {self._text(error)}; check that it runs, and its host, "
                "port, name, user and password (of a file: its folder and rights)"
            ) from error

    def _raise_told(self, error: Exception) -> NoReturn:
        cause = getattr(error, "orig", None)
        if isinstance(cause, CheckpointError):  # of an id, which SQLAlchemy has converted
            raise cause from None
        # only the first line: further lines of PostgreSQL's messages show the row
        raise DatabaseError(f"{self._place}: {self._text(error, lines=1)}") from error

    def _text(self, error: Exception, *, lines: int | None = None) -> str:
        said = str(getattr(error, "orig", None) or error).strip().splitlines()
        text = " ".join(line.strip() for line in said[:lines])
        password = self.engine.url.password
        return text.replace(str(password), "***") if password else text


class UsesDatabase(Protocol):
    """An object whose methods are transactions of one database."""

    database: Database


def writes(method: Callable[Concatenate[S, Transaction, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method run in a writing transaction, which is repeated after a deadlock or a lost connection."""

    @database_call(f"records.{method.__name__}")
    @wraps(method)
    def transaction(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return self.database.run_write(lambda transaction: method(self, transaction, *args, **options))

    return transaction


def reads(method: Callable[Concatenate[S, Transaction, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method run in a reading transaction, which is repeated after a lost connection."""

    @database_call(f"records.{method.__name__}")
    @wraps(method)
    def transaction(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return self.database.run_read(lambda transaction: method(self, transaction, *args, **options))

    return transaction


def _is_transient(cause: BaseException | None) -> bool:
    """Return whether the same transaction may succeed when it is tried again."""
    error = cause
    if isinstance(cause, exc.DBAPIError):
        if cause.connection_invalidated:
            return True
        error = cause.orig
    arguments: tuple[object, ...] = getattr(error, "args", ())
    if type(error).__name__ == "OperationalError" and getattr(error, "sqlstate", "") is None:
        return True  # raised by psycopg itself, not by the server: the connection broke
    sqlstate = getattr(error, "sqlstate", None)
    if str(error).startswith("no such "):  # SQLite's text for a missing column or table
        return True
    return sqlstate in _TRANSIENT_SQLSTATES or not _TRANSIENT_CODES.isdisjoint(arguments[:1])
