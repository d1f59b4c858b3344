"""A transaction as the storage code sees it: statements that SQLAlchemy compiles once, run with values by name.

A statement is compiled to a text the first time it is run, and the text is kept: so pass statements that live as long
as the module, or that a cached function returns. Values are passed as the driver takes them, without SQLAlchemy's
types: ids as `columns.ident` encodes them, texts as `columns.checked_key` accepts them.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import sqlalchemy as sa

from .urls import AUTOCOMMIT, READ_COMMITTED

_NONE: Mapping[str, Any] = MappingProxyType({})
_OPTIONS = {"preserve_rowcount": True}


class _Text(NamedTuple):
    sql: str
    arguments: Callable[[Mapping[str, Any]], Sequence[Any]]
    """A function that puts values by name into the order of the text's parameters."""


_TEXTS: dict[tuple[str, str], dict[sa.Executable, _Text]] = {}
"""The texts of statements, by the database's name and the driver's."""


READS, WRITES, SINGLE = "DEFERRED", "IMMEDIATE", "SINGLE"
"""How a transaction begins: SQLite takes the write lock at the first change, or at once.

With SINGLE, for PostgreSQL and for what runs outside of transactions, each statement is a transaction of its own.
"""
LEVELS = {READS: "REPEATABLE READ", WRITES: READ_COMMITTED, SINGLE: AUTOCOMMIT}
"""The isolation of a transaction, on servers."""
_BEGIN = {READS: "BEGIN", WRITES: "BEGIN IMMEDIATE"}

ISOLATION = "compaction_isolation"
"""Key of a connection's `info` under which the mode of its last transaction stands, if we set the isolation."""


class Transaction:
    """A transaction on a connection. `run` returns a cursor: `fetchone()`, `fetchall()`, `rowcount`.

    On SQLite and PostgreSQL the statements of `run` go straight to the driver, unless somebody listens to those of
    the engine. `execute` takes any statement of SQLAlchemy, which converts its values.
    """

    def __init__(self, conn: sa.Connection) -> None:
        self.conn = conn
        self.execute = conn.execute
        self.dialect = dialect = conn.dialect
        self._driver: Any = conn.connection.driver_connection
        self._texts = _TEXTS.setdefault((dialect.name, dialect.driver), {})
        self.is_heard: bool = conn.engine._has_events  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - it has no public name
        """Whether somebody listens to the statements of the engine."""
        self._cursor: Any = None
        if not self.is_heard and (dialect.name == "sqlite" or dialect.driver == "psycopg"):
            self._cursor = self._new_cursor()

    def _new_cursor(self) -> Any:
        # as text, each byte of a body would be two digits
        return self._driver.cursor() if self.dialect.name == "sqlite" else self._driver.cursor(binary=True)

    def begin(self, mode: str) -> None:
        """Begin, unless the mode is SINGLE.

        SQLite's driver would begin at the first change, and would fail at once instead of waiting while another
        connection writes. MariaDB's default isolation would let a writer read rows as they were before it locked the
        thread's row; readers need one consistent snapshot. The isolation of a session of MariaDB is changed only if
        the connection's last transaction had the other one.
        """
        if mode == SINGLE:
            return
        name = self.dialect.name
        if name == "sqlite":
            self._driver.execute(_BEGIN[mode])
        elif name == "postgresql":
            self._driver.execute(f"BEGIN ISOLATION LEVEL {LEVELS[mode]}")
        elif ISOLATION not in self.conn.info:
            self.conn.exec_driver_sql(f"SET TRANSACTION ISOLATION LEVEL {LEVELS[mode]}")
        elif self.conn.info[ISOLATION] != mode:
            self.conn.exec_driver_sql(f"SET SESSION TRANSACTION ISOLATION LEVEL {LEVELS[mode]}")
            self.conn.info[ISOLATION] = mode

    def commit(self) -> None:
        """Commit, by SQLAlchemy if it knows of the transaction."""
        (self.conn if self.conn.in_transaction() else self._driver).commit()

    def roll_back(self) -> None:
        """Roll back, and close the cursor: an open one, kept by a traceback, would keep the connection's locks."""
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = self._new_cursor()
        (self.conn if self.conn.in_transaction() else self._driver).rollback()

    def close_for_good(self) -> None:
        """Close the connection, also one that the server has ended: it does not return to its pool."""
        self.conn.invalidate()  # in contrast to `detach`, this sends no ROLLBACK
        self.conn.close()

    def run(self, statement: sa.Executable, values: Mapping[str, Any] = _NONE) -> Any:
        """Run a statement, and return its cursor."""
        text = self._texts.get(statement) or self._compiled(statement)
        if self._cursor is not None:
            return self._cursor.execute(text.sql, text.arguments(values))
        return self.conn.exec_driver_sql(text.sql, text.arguments(values), _OPTIONS)

    def run_many(self, statement: sa.Executable, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement once for each row of values."""
        text = self._texts.get(statement) or self._compiled(statement)
        arguments = list(map(text.arguments, rows))
        if self._cursor is not None:
            self._cursor.executemany(text.sql, arguments)
        else:
            self.conn.exec_driver_sql(text.sql, arguments, _OPTIONS)

    def _compiled(self, statement: sa.Executable) -> _Text:
        # drivers of servers take parameters by place as "%s", whatever SQLAlchemy uses
        kind: Any = type(self.dialect)
        style = "qmark" if self.dialect.name == "sqlite" else "format"
        compiled: Any = statement.compile(dialect=kind(paramstyle=style))  # type: ignore[attr-defined] # of every statement
        names: tuple[str, ...] = tuple(compiled.positiontup)
        constants = {name: value for name, value in compiled.params.items() if value is not None}
        self._texts[statement] = text = _Text(str(compiled), _arguments(names, constants))
        return text


def _arguments(names: tuple[str, ...], constants: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    if constants:
        return lambda values: tuple([values[name] if name in values else constants[name] for name in names])
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple([values[name] for name in names])
