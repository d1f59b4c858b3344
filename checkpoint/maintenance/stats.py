"""Statistics of a thread: how many rows it has, and how many bytes."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from ..compaction.ledger import PREPARING, SWAPPED
from ..db import tables
from ..db.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStats:
    """What a thread holds. Sizes in bytes count stored row bodies, without keys and the database's overhead."""

    thread_id: str
    checkpoints: int
    writes: int
    messages: int
    snapshots: int
    compactions: int
    """Attempts in the ledger, without preparations."""
    preparations: int
    """Summaries that were prepared ahead, with those that failed."""
    preparations_used: int
    """Those that a compaction used."""
    checkpoint_bytes: int
    write_bytes: int
    message_bytes: int
    value_bytes: int
    updated_at: float

    @property
    def total_bytes(self) -> int:
        """Size of all stored row bodies, in bytes."""
        return self.checkpoint_bytes + self.write_bytes + self.message_bytes + self.value_bytes


def stats(transaction: Transaction, thread_id: str | None) -> list[ThreadStats]:
    """Return the statistics of a thread, or of all in the order in which they were created, by one statement."""
    found: list[ThreadStats] = []
    for row in transaction.execute(_query(one=thread_id is not None), {"name": thread_id}).mappings():
        held: dict[str, Any] = {name: value if name in _AS_READ else int(value) for name, value in row.items()}
        found.append(ThreadStats(**held))
    return found


_AS_READ = ("thread_id", "updated_at")
_COUNTED = {
    "checkpoints": tables.checkpoint,
    "writes": tables.write,
    "snapshots": tables.snapshot,
}
_ledger = tables.ledger.c
_is_ahead = _ledger.trigger == PREPARING
_ATTEMPTS = {
    "compactions": sa.not_(_is_ahead),
    "preparations": _is_ahead,
    "preparations_used": sa.and_(_is_ahead, _ledger.reason == SWAPPED),
}
_MEASURED = {
    "checkpoint_bytes": tables.checkpoint,
    "write_bytes": tables.write,
}
_item = tables.item.c
_length = sa.func.length(_item.body)
_OF_ITEMS = {
    "messages": (_item.held, _item.seq >= 0),
    "message_bytes": (_length, _item.seq >= 0),
    "value_bytes": (_length, _item.seq < 0),
}


@cache
def _query(*, one: bool) -> sa.Select[*tuple[Any, ...]]:
    """Return the statement with a row of numbers for each thread, or for one; each number is found by an index."""
    row = tables.thread.c
    query = sa.select(row.thread_id, row.updated_at)
    for name, table in _COUNTED.items():
        count = sa.select(sa.func.count()).select_from(table).where(table.c.thread == row.id)
        query = query.add_columns(count.scalar_subquery().label(name))
    for name, condition in _ATTEMPTS.items():
        rows = sa.select(sa.func.count()).select_from(tables.ledger).where(_ledger.thread == row.id, condition)
        query = query.add_columns(rows.scalar_subquery().label(name))
    for name, table in _MEASURED.items():
        size = sa.select(sa.func.coalesce(sa.func.sum(sa.func.length(table.c.body)), 0)).where(
            table.c.thread == row.id
        )
        query = query.add_columns(size.scalar_subquery().label(name))
    for name, (number, condition) in _OF_ITEMS.items():
        total = sa.select(sa.func.coalesce(sa.func.sum(number), 0)).where(_item.thread == row.id, condition)
        query = query.add_columns(total.scalar_subquery().label(name))
    return query.where(row.thread_id == sa.bindparam("name")) if one else query.order_by(row.id)
