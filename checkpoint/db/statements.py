"""Statements that databases spell differently, and lists of values in a `WHERE ... IN`."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from .transaction import Transaction

T = TypeVar("T")
_CLOCKS: dict[str, sa.ColumnElement[float]] = {
    "sqlite": sa.literal_column("(julianday('now') - 2440587.5) * 86400.0", sa.Double),
    "postgresql": sa.literal_column("extract(epoch FROM clock_timestamp())::double precision", sa.Double),
    **dict.fromkeys(("mysql", "mariadb"), sa.literal_column("unix_timestamp(sysdate(6)) + 0e0", sa.Double)),
}


def database_time(dialect: str) -> sa.ColumnElement[float]:
    """Return the seconds since the epoch by the database's clock, on which all processes agree."""
    return _CLOCKS[dialect]


@cache
def absent_insert(dialect: str, table: sa.Table, names: tuple[str, ...]) -> sa.Insert:
    """Return an INSERT of a row unless its key exists; it waits for another transaction that inserts the same key."""
    values = {name: sa.bindparam(name, type_=table.c[name].type) for name in names}
    if dialect in {"postgresql", "sqlite"}:
        return ignoring(dialect, table).values(values)
    # not INSERT IGNORE: it leaves a shared lock behind, and two waiting transactions would then deadlock
    same = {key.name: key for key in table.primary_key}
    return mysql.insert(table).values(values).on_duplicate_key_update(same)


def insert_if_absent(conn: sa.Connection | Transaction, table: sa.Table, values: dict[str, Any]) -> None:
    """Insert a row unless its key exists; see `absent_insert`."""
    conn.execute(absent_insert(conn.dialect.name, table, tuple(values)), values)


@cache
def new_insert(dialect: str, table: sa.Table) -> sa.Insert:
    """Return an INSERT of a whole row, which changes no row if the key or a unique value exists.

    Only for tables whose writers hold the lock of the thread's row: nobody inserts the same row at the same time.
    """
    return ignoring(dialect, table).values({one.name: sa.bindparam(one.name, type_=one.type) for one in table.c})


@cache
def ignoring(dialect: str, table: sa.Table) -> sa.Insert:
    """Return an INSERT that skips rows whose key exists."""
    match dialect:
        case "postgresql":
            return postgresql.insert(table).on_conflict_do_nothing()
        case "sqlite":
            return sqlite.insert(table).on_conflict_do_nothing()
        case _:
            return mysql.insert(table).prefix_with("IGNORE")


_SIZES = (1, 2, 4, 8, 32, 128, 512)


def chunks(items: Sequence[T], size: int = 300) -> Iterator[Sequence[T]]:
    """Yield the items in chunks small enough for the parameters of one query."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def any_of(column: sa.Column[Any], size: int) -> sa.ColumnElement[bool]:
    """Return the condition `column IN (...)` with `size` parameters, whose values `in_groups` yields.

    SQLAlchemy compiles a statement anew for each number of parameters, so `in_groups` uses only seven sizes.
    """
    return column.in_([sa.bindparam(f"value_{place}", type_=column.type) for place in range(size)])


def in_groups(values: Sequence[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Divide values into groups, and yield the `size` and the parameters of each group for `any_of`.

    If a group has fewer values than its size, its last value is repeated.
    """
    for group in chunks(values, _SIZES[-1]):
        size = next(size for size in _SIZES if size >= len(group))
        yield size, {f"value_{place}": group[min(place, len(group) - 1)] for place in range(size)}
