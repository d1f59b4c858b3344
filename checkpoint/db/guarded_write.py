"""Writes rows of a thread in one PostgreSQL statement, which writes nothing if the thread's row has changed.

A writer usually locks the thread's row by reading it, inserts rows, saves the thread's row and commits: six round
trips to the database. A writer that remembers the thread's row needs one round trip: a statement updates the row if
its stamp is as remembered (compare-and-set), and writes the other rows only if it has updated this row. The statement
waits for a writer that holds the row's lock, and compares with the row that this writer leaves.

If the thread has no row yet, the statement inserts it, and writes the other rows only if it has inserted this row.
The bodies of the other rows depend on the thread's key, so the writer first takes a key that its process has
reserved.
"""

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from . import tables
from .thread_row import KNOWN_ROWS, SAVED, Thread
from .write_recorder import Change, Condition

_REMEMBERED_THREADS = 4_096
_RESERVED_KEYS = 32
_Shape = tuple[tuple[sa.Table, bool, Condition | None, tuple[str, ...]], ...]


class RememberedThreads:
    """The rows of the threads that were read or written last. Several OS threads can use one object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: OrderedDict[str, Thread] = OrderedDict()
        self._absent: OrderedDict[str, None] = OrderedDict()

    def take(self, thread_id: str) -> Thread | None:
        """Remove and return a thread; the caller may change it."""
        with self._lock:
            return self._threads.pop(thread_id, None)

    def take_absent(self, thread_id: str) -> bool:
        """Return whether a thread is remembered to have no row, and forget it: the caller may insert the row."""
        with self._lock:
            if is_absent := thread_id in self._absent:
                del self._absent[thread_id]
            return is_absent

    def keep_absent(self, thread_id: str) -> None:
        """Remember that a thread has no row."""
        with self._lock:
            self._threads.pop(thread_id, None)
            self._absent[thread_id] = None
            while len(self._absent) > _REMEMBERED_THREADS:
                self._absent.popitem(last=False)

    def keep(self, thread: Thread) -> None:
        """Remember a thread as it is in the database, unless a newer state of its row is remembered already."""
        for lookup_hash in list(thread.added)[:-KNOWN_ROWS]:
            del thread.added[lookup_hash]
        with self._lock:
            known = self._threads.get(thread.thread_id)
            if known is None or known.id != thread.id or known.updated_at < thread.updated_at:
                self._threads[thread.thread_id] = thread
            self._absent.pop(thread.thread_id, None)
            self._threads.move_to_end(thread.thread_id)
            while len(self._threads) > _REMEMBERED_THREADS:
                self._threads.popitem(last=False)


class ReservedKeys:
    """Keys for new rows of threads, of which a process reserves many at once. Several OS threads can use one object.

    A key is given out once. Keys that a process has not used are lost when the process ends.
    """

    def __init__(self) -> None:
        self._by_process: dict[int, deque[int]] = {}
        """By process, because a forked child must not give out the keys of its parent."""

    def take(self, connect: Callable[[], AbstractContextManager[sa.Connection]]) -> int:
        """Return a key that no thread has or had; use a connection only if no reserved key is left."""
        reserved = self._by_process.setdefault(os.getpid(), deque())
        while True:
            try:
                return reserved.popleft()
            except IndexError:
                with connect() as conn:
                    reserved.extend(conn.scalars(_NEW_KEYS))


class ExpectedRow(NamedTuple):
    """What the row of a thread must be when rows of the thread are written."""

    is_new: bool
    """Whether the thread must have no row; the row is then inserted."""
    values: Mapping[str, Any]
    """The values of the row that must be unchanged or, of a new row, the values that never change."""


def unchanged(thread: Thread) -> ExpectedRow:
    """Expect the row of a thread as it is now remembered."""
    return ExpectedRow(is_new=False, values={"old_stamp": thread.stamp})


def absent(thread: Thread, salt: bytes | None) -> ExpectedRow:
    """Expect that a new thread has no row; `salt` is stored in the new row."""
    return ExpectedRow(is_new=True, values={"thread_id": thread.thread_id, "salt": salt})


def statement(
    changes: Sequence[Change], expected: ExpectedRow, thread: Thread
) -> tuple[sa.Select[int], dict[str, Any]]:
    """Return a statement that writes rows of a thread and the thread's own row, and its parameters.

    The statement returns 1, or 0 if it wrote nothing because the thread's row is not as expected. It raises an error
    and writes nothing if a row to insert exists already.
    """
    ordered = sorted(changes, key=lambda one: (one.table.name, one.update, one.unless is None))
    values = {"key": thread.id, **expected.values}
    values.update((name, getattr(thread, name)) for name in SAVED)
    for number, one in enumerate(ordered):
        values.update((f"{name}_{number}", value) for name, value in one.values.items())
    shape = tuple((one.table, one.update, one.unless, tuple(one.values)) for one in ordered)
    return _statement(shape, is_new=expected.is_new), values


@cache
def _statement(shape: _Shape, *, is_new: bool) -> sa.Select[int]:
    saved = (_inserted() if is_new else _updated(shape)).returning(tables.thread.c.id).cte("saved")
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


def _inserted() -> postgresql.Insert:
    """Insert the row of a thread, unless there is one: under its key, or with the same thread id."""
    values = {"id": _KEY, **_parameters(("thread_id", "salt", *SAVED))}
    return postgresql.insert(tables.thread).values(values).on_conflict_do_nothing()


def _updated(shape: _Shape) -> sa.Update:
    """Update the row of a thread if it is unchanged, and if no condition of a new row forbids it."""
    row = tables.thread.c
    same = row.stamp == sa.bindparam("old_stamp", type_=row.stamp.type)
    allowed = [~unless(partial(_new_value, number)) for number, (_, _, unless, _) in enumerate(shape) if unless]
    return sa.update(tables.thread).where(row.id == _KEY, same, *allowed).values(_parameters(SAVED))


def _parameters(names: Iterable[str]) -> dict[str, sa.BindParameter[Any]]:
    return {name: sa.bindparam(name, type_=tables.thread.c[name].type) for name in names}


def _new_value(number: int, column: sa.Column[Any]) -> sa.BindParameter[Any]:
    return sa.bindparam(f"{column.name}_{number}", type_=column.type)


def _typed(column: sa.Column[Any], name: str) -> sa.ColumnElement[Any]:
    """Return a parameter with an explicit type, without which PostgreSQL would take NULL in a SELECT for text."""
    return sa.cast(sa.bindparam(name, type_=column.type), column.type)


_KEY = sa.bindparam("key", type_=tables.thread.c.id.type)
_NEW_KEYS = sa.select(
    sa.func.nextval(sa.func.pg_get_serial_sequence(tables.thread.name, tables.thread.c.id.name))
).select_from(sa.func.generate_series(1, _RESERVED_KEYS))
