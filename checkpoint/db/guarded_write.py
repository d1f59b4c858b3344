"""Writes rows of a thread in one PostgreSQL statement, which writes nothing if the thread's row has changed.

A writer usually locks the thread's row by reading it, inserts rows, saves the thread's row and commits: six round
trips to the database. A writer that remembers the thread's row needs one round trip: a statement updates the row if
its counters and its lease are as remembered (compare-and-set), and writes the other rows only if it has updated this
row. The statement waits for a writer that holds the row's lock, and compares with the row that this writer leaves.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import sqlalchemy as sa

from . import tables
from .thread_row import COUNTERS, KNOWN_ROWS, SAVED, Thread
from .write_recorder import Change, Condition

_REMEMBERED_THREADS = 4_096
_COMPARED = (*COUNTERS, "lease", "lease_until")
_Shape = tuple[tuple[sa.Table, bool, Condition | None, tuple[str, ...]], ...]


class RememberedThreads:
    """The rows of the threads that were read or written last. Several OS threads can use one object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: OrderedDict[str, Thread] = OrderedDict()

    def take(self, thread_id: str) -> Thread | None:
        """Remove and return a thread; the caller may change it."""
        with self._lock:
            return self._threads.pop(thread_id, None)

    def keep(self, thread: Thread) -> None:
        """Remember a thread as it is in the database, unless a newer state of its row is remembered already."""
        for lookup_hash in list(thread.added)[:-KNOWN_ROWS]:
            del thread.added[lookup_hash]
        with self._lock:
            known = self._threads.get(thread.thread_id)
            if known is None or known.id != thread.id or known.updated_at < thread.updated_at:
                self._threads[thread.thread_id] = thread
            self._threads.move_to_end(thread.thread_id)
            while len(self._threads) > _REMEMBERED_THREADS:
                self._threads.popitem(last=False)


def compared(thread: Thread) -> dict[str, Any]:
    """Return the values of a thread's row that must be unchanged when rows of the thread are written."""
    return {name: getattr(thread, name) for name in _COMPARED}


def statement(
    changes: Sequence[Change], before: Mapping[str, Any], thread: Thread
) -> tuple[sa.Select[int], dict[str, Any]]:
    """Return a statement that writes rows of a thread and the thread's own row, and its parameters.

    The statement returns 1, or 0 if it wrote nothing because the thread's row differs from `before`. It raises an
    error and writes nothing if a row to insert exists already.
    """
    ordered = sorted(changes, key=lambda one: (one.table.name, one.update, one.unless is None))
    values = {"key": thread.id, **{f"old_{name}": value for name, value in before.items()}}
    values.update((name, getattr(thread, name)) for name in SAVED)
    for number, one in enumerate(ordered):
        values.update((f"{name}_{number}", value) for name, value in one.values.items())
    return _statement(tuple((one.table, one.update, one.unless, tuple(one.values)) for one in ordered)), values


@cache
def _statement(shape: _Shape) -> sa.Select[int]:
    row = tables.thread.c
    unchanged = [row[name].is_not_distinct_from(_typed(row[name], f"old_{name}")) for name in _COMPARED]
    absent = [~unless(partial(_new_value, number)) for number, (_, _, unless, _) in enumerate(shape) if unless]
    saved = (
        sa.update(tables.thread)
        .where(row.id == sa.bindparam("key", type_=row.id.type), *unchanged, *absent)
        .values({name: sa.bindparam(name, type_=row[name].type) for name in SAVED})
        .returning(row.id)
        .cte("saved")
    )
    whole = sa.select(sa.func.count()).select_from(saved)
    for number, (table, update, _, names) in enumerate(shape):
        values = {name: _typed(table.c[name], f"{name}_{number}") for name in names}
        if update:
            key = [column == values.pop(column.name) for column in table.primary_key]
            change: sa.Update | sa.Insert = (
                sa.update(table).where(*key, sa.exists().select_from(saved)).values(values)
            )
        else:
            change = sa.insert(table).from_select(list(names), sa.select(*values.values()).select_from(saved))
        whole = whole.add_cte(change.cte(f"written_{number}"))
    return whole


def _new_value(number: int, column: sa.Column[Any]) -> sa.BindParameter[Any]:
    return sa.bindparam(f"{column.name}_{number}", type_=column.type)


def _typed(column: sa.Column[Any], name: str) -> sa.ColumnElement[Any]:
    """Return a parameter with an explicit type, without which PostgreSQL would take NULL in a SELECT for text."""
    return sa.cast(sa.bindparam(name, type_=column.type), column.type)
