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

from .statements import BINARY_RESULTS

_OPTIONS = {BINARY_RESULTS: True, "preserve_rowcount": True}
_NONE: Mapping[str, Any] = MappingProxyType({})


class _Text(NamedTuple):
    sql: str
    arguments: Callable[[Mapping[str, Any]], Sequence[Any]]
    """A function that puts values by name into the order of the text's parameters."""


_TEXTS: dict[tuple[str, str], dict[sa.Executable, _Text]] = {}
"""The texts of statements, by the database's name and the driver's."""


class Transaction:
    """An open transaction of SQLAlchemy. `run` returns a cursor: `fetchone()`, `fetchall()`, `rowcount`."""

    def __init__(self, conn: sa.Connection) -> None:
        self.dialect = conn.dialect
        self._execute: Callable[..., Any] = conn.exec_driver_sql
        self._texts = _texts(conn.dialect)

    def run(self, statement: sa.Executable, values: Mapping[str, Any] = _NONE) -> Any:
        """Run a statement, and return its cursor."""
        text = self._texts.get(statement) or self._compiled(statement)
        return self._execute(text.sql, text.arguments(values), _OPTIONS)

    def run_many(self, statement: sa.Executable, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement once for each row of values."""
        text = self._texts.get(statement) or self._compiled(statement)
        self._execute(text.sql, list(map(text.arguments, rows)), _OPTIONS)

    def _compiled(self, statement: sa.Executable) -> _Text:
        # drivers of servers take parameters by place as "%s", whatever SQLAlchemy uses
        kind: Any = type(self.dialect)
        style = "qmark" if self.dialect.name == "sqlite" else "format"
        compiled: Any = statement.compile(dialect=kind(paramstyle=style))  # type: ignore[attr-defined] # of every statement
        names: tuple[str, ...] = tuple(compiled.positiontup)
        constants = {name: value for name, value in compiled.params.items() if value is not None}
        self._texts[statement] = text = _Text(str(compiled), _arguments(names, constants))
        return text


class FileTransaction(Transaction):
    """A transaction on the connection of Python's SQLite driver, without SQLAlchemy's layers."""

    def __init__(self, dialect: sa.Dialect, driver: Any) -> None:  # pyright: ignore[reportMissingSuperCall] - no connection of SQLAlchemy
        self.dialect = dialect
        self._cursor = driver.cursor()
        self._texts = _texts(dialect)

    def close(self) -> None:
        """Close the cursor: an open one, kept by a traceback, would keep the connection and its locks."""
        self._cursor.close()

    def run(self, statement: sa.Executable, values: Mapping[str, Any] = _NONE) -> Any:
        """Run a statement, and return its cursor."""
        text = self._texts.get(statement) or self._compiled(statement)
        return self._cursor.execute(text.sql, text.arguments(values))

    def run_many(self, statement: sa.Executable, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement once for each row of values."""
        text = self._texts.get(statement) or self._compiled(statement)
        self._cursor.executemany(text.sql, list(map(text.arguments, rows)))


def _texts(dialect: sa.Dialect) -> dict[sa.Executable, _Text]:
    return _TEXTS.setdefault((dialect.name, dialect.driver), {})


def _arguments(names: tuple[str, ...], constants: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    if constants:
        return lambda values: tuple([values[name] if name in values else constants[name] for name in names])
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple([values[name] for name in names])
