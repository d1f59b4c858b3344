"""Reads a checkpoint, its thread's row, its pending writes and new items in one PostgreSQL statement.

A read otherwise takes six round trips: it begins a transaction, reads these rows one kind after the other, and ends
the transaction. A single statement sees one state of the database without a transaction around it. Packed messages,
and other large values than the newest, are read by further statements: they are never changed, only deleted.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from ..db import tables
from ..db.columns import ident
from ..db.thread_row import COLUMNS
from ..db.transaction import Transaction
from ..messages import items
from . import checkpoint_rows

_VALUES = 2
"""How many of a thread's newest values are read: a turn mostly ends with those that the next turn begins with."""
_thread, _checkpoint, _write, _item = tables.thread.c, tables.checkpoint.c, tables.write.c, tables.item.c


class StateRows(NamedTuple):
    """The rows of a checkpoint, as the driver returns them."""

    thread: Sequence[Any]
    checkpoint: Sequence[Any] | None
    writes: list[tuple[bytes, bytes, bytes, bytes]]
    """(checkpoint id, task id, refs, body) of each row of pending writes."""
    items: list[tuple[int, bytes, bytes]]
    """(seq, hashes, body) of the messages that are not packed, and of the newest values; without large ones."""
    hashes: list[tuple[int, bytes]] | None
    """(seq, hashes) of all rows of items; None if the thread's row has the stamp that was given."""


def read(
    transaction: Transaction, thread_id: str, namespace: str, checkpoint_id: str | None, stamp: int | None
) -> StateRows | None:
    """Return the rows of the checkpoint with this id, or of the newest if the id is None.

    Return None if the thread does not exist; `checkpoint` is None if the thread has no such checkpoint. `stamp` is
    the stamp of the thread whose items are known; with None nobody wants to know them.
    """
    where: dict[str, Any] = {"name": thread_id, "namespace": namespace, "stamp": 0 if stamp is None else stamp}
    if checkpoint_id:
        where["id"] = ident(checkpoint_id)
    row = transaction.run(_rows(newest=not checkpoint_id, hashes=stamp is not None), where).fetchone()
    if row is None:
        return None
    at = len(COLUMNS)
    thread, checkpoint, rest = row[:at], row[at : at + _WIDTH], [one or [] for one in row[at + _WIDTH :]]
    name = checkpoint[2]
    writes = [(name, *one) for one in zip(*rest[:3], strict=True)]
    fresh = [(seq, items.GONE, body) for seq, body in zip(*rest[3:5], strict=True)]
    hashes = None
    if stamp is not None and row[1] != stamp:
        hashes = list(zip(*rest[5:], strict=True))
    return StateRows(thread, None if name is None else checkpoint, writes, fresh, hashes)


_WIDTH = len(checkpoint_rows.COLUMNS)


@cache
def _rows(*, newest: bool, hashes: bool) -> sa.Select[*tuple[Any, ...]]:
    labeled = [column.label(f"checkpoint_{column.name}") for column in checkpoint_rows.COLUMNS]
    namespace = sa.bindparam("namespace", type_=sa.Text())
    chosen = sa.select(*labeled).where(_checkpoint.thread == _thread.id, _checkpoint.namespace == namespace)
    if newest:
        chosen = chosen.order_by(_checkpoint.number.desc()).limit(sa.literal_column("1"))
    else:
        chosen = chosen.where(_checkpoint.id == sa.bindparam("id", type_=sa.LargeBinary()))
    checkpoint = chosen.lateral("chosen")
    parts: list[Any] = [
        checkpoint,
        _arrays("writes", _write.task, _write.refs, _write.body).where(
            _write.thread == _thread.id,
            _write.namespace == namespace,
            _write.checkpoint == checkpoint.c.checkpoint_id,
        ),
        _arrays("items", _item.seq, _item.body).where(
            _item.thread == _thread.id,
            (_item.seq >= _thread.packed * items.PACK)
            | ((_item.seq < 0) & (_item.seq < _VALUES - _thread.next_value)),
            sa.func.length(_item.body) <= items.LARGE,
        ),
    ]
    if hashes:
        unknown = _thread.stamp != sa.bindparam("stamp", type_=sa.BigInteger())
        parts.append(_arrays("hashes", _item.seq, _item.hashes).where(_item.thread == _thread.id, unknown))
    joined: sa.FromClause = tables.thread
    found: list[Any] = list(COLUMNS)
    for part, name in zip(parts, ("chosen", "writes", "items", "hashes"), strict=False):
        lateral = part if part is checkpoint else part.lateral(name)
        joined = joined.outerjoin(lateral, sa.true())
        found.extend(lateral.c)
    return sa.select(*found).select_from(joined).where(_thread.thread_id == sa.bindparam("name", type_=sa.Text()))


def _arrays(name: str, *columns: sa.Column[Any]) -> sa.Select[*tuple[Any, ...]]:
    return sa.select(*(sa.func.array_agg(column).label(f"{name}_{column.name}") for column in columns))
