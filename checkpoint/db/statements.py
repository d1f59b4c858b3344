"""The few statements that databases spell differently."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

IN_BINARY = "compaction_in_binary"
"""Execution option of what reads many bodies: else PostgreSQL sends two digits for each of their bytes."""

T = TypeVar("T")
_NEW = "new_"


def insert_if_absent(conn: sa.Connection, table: sa.Table, values: dict[str, Any]) -> None:
    """Insert a row unless its key is there; waits for another transaction that is inserting the same."""
    if conn.dialect.name in {"postgresql", "sqlite"}:
        conn.execute(ignoring(conn.dialect.name, table), values)
    else:
        # not INSERT IGNORE: it leaves a shared lock behind, and two that wait would then deadlock
        same = {key.name: key for key in table.primary_key}
        conn.execute(mysql.insert(table).values(values).on_duplicate_key_update(same))


def insert_new(conn: sa.Connection, table: sa.Table, values: dict[str, Any], unless: sa.Exists | None = None) -> bool:
    """Insert a row unless one with its key, or with the same value of a unique column, is there; True for inserted.

    Nor is it inserted where `unless` is true: a constant of a module, which says so of `new_value`. For tables whose
    writers hold the thread row's lock: nobody else is inserting the same at this moment.
    """
    if unless is not None:
        values = {_NEW + name: value for name, value in values.items()}
    return conn.execute(_counted(conn.dialect.name, table, unless), values).rowcount > 0


def new_value(column: sa.Column[T]) -> sa.BindParameter[T]:
    """Return what `insert_new` is to put into a column."""
    return sa.bindparam(_NEW + column.name, type_=column.type)


@cache
def _counted(dialect: str, table: sa.Table, unless: sa.Exists | None) -> sa.Insert:
    insert = ignoring(dialect, table)
    if unless is not None:
        insert = insert.from_select(list(table.c), sa.select(*map(new_value, table.c)).where(~unless))
    # drivers know the count of an INSERT, but SQLAlchemy keeps it only where it is asked to
    return insert.execution_options(preserve_rowcount=True)


@cache
def ignoring(dialect: str, table: sa.Table) -> sa.Insert:
    """Return an INSERT that leaves alone what is there."""
    match dialect:
        case "postgresql":
            return postgresql.insert(table).on_conflict_do_nothing()
        case "sqlite":
            return sqlite.insert(table).on_conflict_do_nothing()
        case _:
            return mysql.insert(table).prefix_with("IGNORE")


_SIZES = (1, 2, 4, 8, 32, 128, 512)


def chunks(items: Sequence[T], size: int = 300) -> Iterator[Sequence[T]]:
    """Yield the items, as many at a time as a query can name."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def any_of(column: sa.Column[Any], size: int) -> sa.ColumnElement[bool]:
    """Return that the column is one of `size` values, to be given as `in_groups` gives them.

    A list of any length would have SQLAlchemy write the statement anew each time it is used.
    """
    return column.in_([sa.bindparam(f"value_{place}", type_=column.type) for place in range(size)])


def in_groups(values: Sequence[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (size, parameters) for `any_of`, so that every value is in one group; the last one is repeated."""
    for group in chunks(values, _SIZES[-1]):
        size = next(size for size in _SIZES if size >= len(group))
        yield size, {f"value_{place}": group[min(place, len(group) - 1)] for place in range(size)}
