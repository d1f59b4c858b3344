"""Stores pending writes: the values that tasks wrote at a checkpoint, in one row for each task."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ormsgpack
import sqlalchemy as sa
from langgraph.checkpoint.base import WRITES_IDX_MAP

from ..db import tables
from ..db.columns import ident, ident_text
from ..db.row_codec import expect_types, intact
from ..db.statements import any_of, in_groups, new_insert
from ..db.thread_row import Thread
from ..db.transaction import Transaction
from ..messages import references
from ..messages.references import References

_OPTION = ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_REPLACE_SURROGATES
_write = tables.write.c


@dataclass(frozen=True, slots=True)
class Write:
    """One pending write. `path`, `task` and `index` order the pending writes of a checkpoint."""

    path: str
    task: str
    index: int
    channel: str
    value: list[Any]
    """The encoded value (see `messages.decode`)."""
    row: str
    """Name of the row that holds the write, for error messages."""
    references: References
    """The items to which all writes of the row refer."""


@dataclass(frozen=True, slots=True)
class TaskWrites:
    """What one task wrote at a checkpoint, and the items to which the writes refer."""

    place: tuple[str, str]
    """Namespace and id of the checkpoint."""
    task: str
    writes: Sequence[Write]
    references: References


def merged(held: Iterable[Write], writes: Sequence[Write]) -> list[Write]:
    """Return a task's writes after the task wrote again: for each index, the earliest write is kept.

    If all new writes are special (an error, an interrupt, a resume), each one replaces an earlier write of its index.
    """
    special = all(one.channel in WRITES_IDX_MAP for one in writes)
    new = {one.index: one for one in (writes if special else reversed(writes))}
    old = {one.index: one for one in held}
    return list(({**old, **new} if special else {**new, **old}).values())


def columns(thread: Thread, new: TaskWrites) -> dict[str, Any]:
    """Return the row of a task's first writes at a checkpoint as the database holds it."""
    return _columns(thread, new, merged((), new.writes), new.references)


def _columns(
    thread: Thread, new: TaskWrites, writes: Iterable[Write], references_of_all: References
) -> dict[str, Any]:
    refs = references_of_all.encode()
    data = ormsgpack.packb(_grouped(writes), option=_OPTION)
    return {
        "thread": thread.id,
        "namespace": new.place[0],
        "checkpoint": ident(new.place[1]),
        "task": ident(new.task),
        "refs": refs,
        "body": thread.codec.encode(row_name(*new.place, new.task), data, bound=refs.hex()),
    }


def put(transaction: Transaction, thread: Thread, new: TaskWrites) -> None:
    """Add writes of one task to the writes that the task has already stored at this checkpoint."""
    row = columns(thread, new)
    if transaction.run(new_insert(transaction.dialect.name, tables.write), row).rowcount > 0:
        return
    held = _writes(thread, new.place, new.task, transaction.run(_WRITE, row).fetchone())
    both = references.joined([new.references, *(one.references for one in held[:1])])
    changed = _columns(thread, new, merged(held, new.writes), both)
    transaction.run(_UPDATE_WRITE, {f"new_{name}": value for name, value in changed.items()})


def of(transaction: Transaction, thread: Thread, namespace: str, ids: Sequence[str]) -> dict[str, list[Write]]:
    """Return by checkpoint id the writes at these checkpoints, in the order in which LangGraph applies them."""
    where = {"thread": thread.id, "namespace": namespace}
    rows: list[Sequence[Any]] = []
    for size, group in in_groups([ident(one) for one in ids]):
        rows += transaction.run(_chosen(size), {**where, **group}).fetchall()
    return from_rows(thread, namespace, rows)


def from_rows(thread: Thread, namespace: str, rows: Iterable[Sequence[Any]]) -> dict[str, list[Write]]:
    """Return by checkpoint id the writes in rows of (checkpoint id, task id, refs, body), in the order of `of`."""
    found: dict[str, list[Write]] = {}
    for checkpoint, task, *stored in rows:
        checkpoint_id = ident_text(bytes(checkpoint))
        held = _writes(thread, (namespace, checkpoint_id), ident_text(bytes(task)), stored)
        found.setdefault(checkpoint_id, []).extend(held)
    for writes in found.values():
        if len(writes) > 1:
            writes.sort(key=_order)
    return found


def all_of(transaction: Transaction, thread: Thread) -> Iterator[tuple[str, str, list[Write]]]:
    """Yield (namespace, checkpoint id, one task's writes) for each row of pending writes in the thread."""
    for namespace, checkpoint, task, *stored in transaction.run(_ALL, {"thread": thread.id}).fetchall():
        place = namespace.decode() if isinstance(namespace, bytes) else namespace, ident_text(bytes(checkpoint))
        yield *place, _writes(thread, place, ident_text(bytes(task)), stored)


def _order(write: Write) -> tuple[str, str, int]:
    """Return the sort key of a checkpoint's writes: the order in which LangGraph applies them."""
    return write.path, write.task, write.index


def _grouped(writes: Iterable[Write]) -> list[Any]:
    """Return one task's writes, grouped by path, for msgpack."""
    groups: dict[str, list[Any]] = {}
    for one in writes:
        groups.setdefault(one.path, []).append([one.index, one.channel, one.value])
    return [[path, items] for path, items in groups.items()]


def _writes(thread: Thread, place: tuple[str, str], task: str, stored: Sequence[Any]) -> list[Write]:
    """Return the writes in the columns (refs, body) of a row; raise `RowError`, naming the row, if it is damaged."""
    refs, body = map(bytes, stored)
    row = row_name(*place, task)
    described = thread.codec.describe(row)
    held = references.decode(refs, described)
    with intact(described):
        writes: list[Write] = []
        for path, parts in thread.codec.unpack(row, body, bound=refs.hex()):
            for index, channel, value in parts:
                expect_types((path, str), (index, int), (channel, str), (value, list))
                writes.append(Write(path, task, index, channel, value, row, held))
        return writes


def row_name(namespace: str, checkpoint_id: str, task: str) -> str:
    """Return the name of the row with a task's pending writes; `RowCodec` binds the row's body to this name."""
    return f"write of task {task} at checkpoint {checkpoint_id} in {namespace!r}"


_MINE = _write.thread == sa.bindparam("thread")
_OURS = sa.and_(_MINE, _write.namespace == sa.bindparam("namespace"))
_WRITE = sa.select(_write.refs, _write.body).where(
    _OURS, _write.checkpoint == sa.bindparam("checkpoint"), _write.task == sa.bindparam("task")
)
_ALL = sa.select(_write.namespace, _write.checkpoint, _write.task, _write.refs, _write.body).where(_MINE)


@cache
def _chosen(size: int) -> sa.Select[*tuple[Any, ...]]:
    return sa.select(_write.checkpoint, _write.task, _write.refs, _write.body).where(
        _OURS, any_of(_write.checkpoint, size)
    )


_KEY = ("thread", "namespace", "checkpoint", "task")
_UPDATE_WRITE = (
    sa.update(tables.write)
    .where(*(_write[name] == sa.bindparam(f"new_{name}") for name in _KEY))
    .values({name: sa.bindparam(f"new_{name}") for name in ("refs", "body")})
)
