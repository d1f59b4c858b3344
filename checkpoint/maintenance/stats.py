"""Statistics of a thread: how many rows it has, and how many bytes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Any

import sqlalchemy as sa

from ..compaction import snapshots
from ..compaction.ledger import PREPARING, SWAPPED
from ..db import tables
from ..db.thread_row import Thread
from ..db.transaction import Transaction
from ..messages import items, references
from ..messages.message_store import MessageStore
from ..messages.references import References
from ..messages.sequence_runs import Runs
from .retention import all_runs, references_of_rows


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
    unshared_message_bytes: int | None = None
    """Bytes of the messages, uncompressed, if every checkpoint, pending write and snapshot had its own copies.

    None in the statistics of all threads, because counting these bytes reads every row of a thread.
    """

    @property
    def total_bytes(self) -> int:
        """Size of all stored row bodies, in bytes."""
        return self.checkpoint_bytes + self.write_bytes + self.message_bytes + self.value_bytes


def stats(transaction: Transaction, *, store: MessageStore, thread_id: str) -> ThreadStats | None:
    """Return the statistics of a thread, or None if the thread does not exist."""
    thread = store.find(transaction, thread_id, lock=False)
    if thread is None:
        return None
    [found] = _of_rows(transaction.execute(_query(one=True), {"key": thread.id}).mappings())
    return replace(found, unshared_message_bytes=_unshared_bytes(transaction, thread))


def stats_of_all(transaction: Transaction) -> list[ThreadStats]:
    """Return the statistics of all threads, in the order in which they were created, by one statement."""
    return list(_of_rows(transaction.execute(_query(one=False)).mappings()))


def _of_rows(rows: Iterable[Mapping[Any, Any]]) -> Iterator[ThreadStats]:
    for row in rows:
        held: dict[str, Any] = {name: value if name in _AS_READ else int(value) for name, value in row.items()}
        yield ThreadStats(**held)


def _unshared_bytes(transaction: Transaction, thread: Thread) -> int:
    rows = references_of_rows(transaction, thread)
    whole = references.joined(rows)
    shared = items.fetch(transaction, thread, References(values=whole.shared))
    runs = [one.runs for one in rows]
    runs += [items.shared_runs(shared, number, thread) for one in rows for number in one.shared]
    runs += snapshots.of_thread(transaction, thread).values()
    all_runs(thread, runs)
    data: dict[int, bytes] = {}
    items.open_rows(thread.codec, items.all_rows(transaction, thread), data)
    before = list(accumulate((len(data.get(seq, b"")) for seq in range(thread.next_seq)), initial=0))
    return sum(_span(before, one) for one in runs)


def _span(before: Sequence[int], runs: Runs) -> int:
    return sum(before[start + length] - before[start] for start, length in runs)


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
    return query.where(row.id == sa.bindparam("key")) if one else query.order_by(row.id)
