"""Stores pending writes: the values that tasks wrote at a checkpoint, in one row for each task."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import ormsgpack
import sqlalchemy as sa
from langgraph.checkpoint.base import WRITES_IDX_MAP

from ..db import tables
from ..db.row_codec import expect_types, intact
from ..db.statements import any_of, in_groups, insert_new
from ..db.thread_row import Thread

_OPTION = ormsgpack.OPT_NON_STR_KEYS
_write = tables.write.c


@dataclass(frozen=True, slots=True)
class Write:
    """One pending write. `path`, `task` and `index` order the pending writes of a checkpoint."""

    path: str
    task: str
    index: int
    channel: str
    value: Any
    """The encoded value (see `messages.decode`)."""
    row: str
    """Name of the row that holds the write, for error messages."""


def merged(held: Iterable[Write], writes: Sequence[Write]) -> Iterable[Write]:
    """Return a task's writes after the task wrote again: for each index, the earliest write is kept.

    If all new writes are special (an error, an interrupt, a resume), each one replaces an earlier write of its index.
    """
    special = all(one.channel in WRITES_IDX_MAP for one in writes)
    new = {one.index: one for one in (writes if special else reversed(writes))}
    old = {one.index: one for one in held}
    return ({**old, **new} if special else {**new, **old}).values()


def put(conn: sa.Connection, thread: Thread, place: tuple[str, str], task: str, writes: Sequence[Write]) -> None:
    """Add writes of one task to the writes that the task has already stored at this checkpoint."""
    namespace, checkpoint_id = place
    key = {"thread": thread.id, "namespace": namespace, "checkpoint": checkpoint_id, "task": task}
    row = row_name(namespace, checkpoint_id, task)
    body = thread.codec.encode(row, ormsgpack.packb(_grouped(merged((), writes)), option=_OPTION))
    if insert_new(conn, tables.write, {**key, "body": body}):
        return
    held = _writes(thread, row, task, bytes(conn.execute(_WRITE, key).scalar_one()))
    body = thread.codec.encode(row, ormsgpack.packb(_grouped(merged(held, writes)), option=_OPTION))
    conn.execute(_UPDATE_WRITE, {**{f"key_{name}": value for name, value in key.items()}, "body": body})


def of(conn: sa.Connection, thread: Thread, namespace: str, ids: Iterable[str]) -> dict[str, list[Write]]:
    """Return by checkpoint id the writes at these checkpoints, in the order in which LangGraph applies them."""
    where = {"thread": thread.id, "namespace": namespace}
    rows = (conn.execute(_chosen(size), {**where, **group}).all() for size, group in in_groups(list(ids)))
    return from_rows(thread, namespace, chain.from_iterable(rows))


def from_rows(thread: Thread, namespace: str, rows: Iterable[Sequence[Any]]) -> dict[str, list[Write]]:
    """Return by checkpoint id the writes in rows of (checkpoint id, task id, body), in the order of `of`."""
    found: dict[str, list[Write]] = {}
    for checkpoint_id, task, body in rows:
        held = _writes(thread, row_name(namespace, checkpoint_id, task), task, bytes(body))
        found.setdefault(checkpoint_id, []).extend(held)
    for writes in found.values():
        writes.sort(key=_order)
    return found


def all_of(conn: sa.Connection, thread: Thread) -> Iterator[tuple[str, str, list[Write]]]:
    """Yield (namespace, checkpoint id, one task's writes) for each row of pending writes in the thread."""
    query = sa.select(_write.namespace, _write.checkpoint, _write.task, _write.body).where(_write.thread == thread.id)
    for namespace, checkpoint_id, task, body in conn.execute(query):
        row = row_name(namespace, checkpoint_id, task)
        yield namespace, checkpoint_id, _writes(thread, row, task, bytes(body))


def _order(write: Write) -> tuple[str, str, int]:
    """Return the sort key of a checkpoint's writes: the order in which LangGraph applies them."""
    return write.path, write.task, write.index


def _grouped(writes: Iterable[Write]) -> list[Any]:
    """Return one task's writes, grouped by path, for msgpack."""
    groups: dict[str, list[Any]] = {}
    for one in writes:
        groups.setdefault(one.path, []).append([one.index, one.channel, one.value])
    return [[path, items] for path, items in groups.items()]


def _ungrouped(groups: Any, task: str, row: str) -> Iterator[Write]:
    """Yield the writes that `_grouped` grouped; raise TypeError or ValueError for data in any other form."""
    for path, items in groups:
        for index, channel, value in items:
            expect_types((path, str), (index, int), (channel, str))
            yield Write(path, task, index, channel, value, row)


def _writes(thread: Thread, row: str, task: str, body: bytes) -> list[Write]:
    with intact(thread.codec.describe(row)):
        return list(_ungrouped(thread.codec.unpack(row, body), task, row))


def row_name(namespace: str, checkpoint_id: str, task: str) -> str:
    """Return the name of the row with a task's pending writes; `RowCodec` binds the row's body to this name."""
    return f"write of task {task} at checkpoint {checkpoint_id} in {namespace!r}"


_OURS_WRITES = sa.and_(_write.thread == sa.bindparam("thread"), _write.namespace == sa.bindparam("namespace"))
_WRITE = sa.select(_write.body).where(
    _OURS_WRITES, _write.checkpoint == sa.bindparam("checkpoint"), _write.task == sa.bindparam("task")
)


@cache
def _chosen(size: int) -> sa.Select[str, str, bytes]:
    return sa.select(_write.checkpoint, _write.task, _write.body).where(_OURS_WRITES, any_of(_write.checkpoint, size))


_UPDATE_WRITE = (
    sa.update(tables.write)
    .where(*(_write[name] == sa.bindparam(f"key_{name}") for name in ("thread", "namespace", "checkpoint", "task")))
    .values(body=sa.bindparam("body"))
)
