"""Reads a checkpoint, its thread's row, its pending writes, new messages and blobs in one PostgreSQL statement.

A read otherwise takes six round trips: it begins a transaction, reads these rows one kind after the other, and ends
the transaction. A single statement sees one state of the database without a transaction around it. Old messages, and
other large values than the newest, are read by further statements: their rows are never changed, only deleted.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from ..db import tables
from ..db.statements import BINARY_RESULTS
from ..db.thread_row import COLUMNS
from ..messages import message_blocks
from . import checkpoint_rows

_BLOBS = 2
"""How many of a thread's newest blobs are read: a turn mostly ends with those that the next turn begins with."""
_thread, _checkpoint, _write, _message = tables.thread.c, tables.checkpoint.c, tables.write.c, tables.message.c
_blob = tables.blob.c


class StateRows(NamedTuple):
    """The rows of a checkpoint."""

    thread: tuple[Any, ...]
    checkpoint: Mapping[str, Any] | None
    writes: list[tuple[str, str, bytes]]
    """(checkpoint id, task id, body) of each row of pending writes."""
    messages: dict[int, bytes]
    """The stored bodies, by sequence number, of all messages that are neither in blocks nor large."""
    blobs: dict[int, bytes]
    """The stored bodies, by number, of the thread's newest blobs that are not large."""


def read(conn: sa.Connection, thread_id: str, namespace: str, checkpoint_id: str | None) -> StateRows | None:
    """Return the rows of the checkpoint with this id, or of the newest if the id is None.

    Return None if the thread does not exist; `checkpoint` is None if the thread has no such checkpoint.
    """
    where = {"name": thread_id, "namespace": namespace, "id": checkpoint_id}
    found = conn.execute(_rows(newest=not checkpoint_id), where).mappings().one_or_none()
    if found is None:
        return None
    row: dict[str, Any] = {**found}
    checkpoint: dict[str, Any] = {name: row[f"checkpoint_{name}"] for name in checkpoint_rows.COLUMN_NAMES}
    # without any row, an aggregate is NULL
    tasks, written, seqs, bodies, numbers, blobs = (row[name] or [] for name in _AGGREGATES)
    writes: list[tuple[str, str, bytes]] = [(row["checkpoint_id"], *one) for one in zip(tasks, written, strict=True)]
    return StateRows(
        tuple(row[name] for name in THREAD_COLUMNS),
        None if checkpoint["id"] is None else checkpoint,
        writes,
        dict(zip(seqs, bodies, strict=True)),
        dict(zip(numbers, blobs, strict=True)),
    )


THREAD_COLUMNS = (*(column.name for column in COLUMNS), "salt")
_AGGREGATES = ("tasks", "writes", "seqs", "bodies", "numbers", "blobs")


@cache
def _rows(*, newest: bool) -> sa.Select[*tuple[Any, ...]]:
    chosen = sa.select(*(_checkpoint[name].label(f"checkpoint_{name}") for name in checkpoint_rows.COLUMN_NAMES))
    chosen = chosen.where(_checkpoint.thread == _thread.id, _checkpoint.namespace == sa.bindparam("namespace"))
    if newest:
        chosen = chosen.order_by(_checkpoint.number.desc()).limit(1)
    else:
        chosen = chosen.where(_checkpoint.id == sa.bindparam("id"))
    checkpoint = chosen.lateral("checkpoint")
    writes = (
        sa.select(sa.func.array_agg(_write.task).label("tasks"), sa.func.array_agg(_write.body).label("writes"))
        .where(
            _write.thread == _thread.id,
            _write.namespace == sa.bindparam("namespace"),
            _write.checkpoint == checkpoint.c.checkpoint_id,
        )
        .lateral("writes")
    )
    messages = (
        sa.select(sa.func.array_agg(_message.seq).label("seqs"), sa.func.array_agg(_message.body).label("bodies"))
        .where(
            _message.thread == _thread.id,
            _message.seq >= _thread.packed * message_blocks.BLOCK,
            sa.func.length(_message.body) <= message_blocks.LARGE,
        )
        .lateral("messages")
    )
    blobs = (
        sa.select(sa.func.array_agg(_blob.number).label("numbers"), sa.func.array_agg(_blob.body).label("blobs"))
        .where(
            _blob.thread == _thread.id,
            _blob.number >= _thread.next_blob - _BLOBS,
            sa.func.length(_blob.body) <= message_blocks.LARGE,
        )
        .lateral("blobs")
    )
    parts = (checkpoint, writes, messages, blobs)
    joined: sa.FromClause = tables.thread
    for part in parts:
        joined = joined.outerjoin(part, sa.true())
    query = sa.select(*(_thread[name] for name in THREAD_COLUMNS), *parts).select_from(joined)
    return query.where(_thread.thread_id == sa.bindparam("name")).execution_options(**{BINARY_RESULTS: True})
