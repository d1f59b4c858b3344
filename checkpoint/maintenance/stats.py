"""Statistics of a thread: how many rows it has, and how many bytes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Any

import sqlalchemy as sa

from ..checkpoints import checkpoint_rows
from ..compaction import snapshots
from ..compaction.ledger import PREPARING, SWAPPED
from ..db import tables
from ..db.thread_row import Thread
from ..messages import blobs, message_blocks
from ..messages.decode import references, run_blob_numbers
from ..messages.message_store import MessageStore
from ..messages.sequence_runs import Runs
from .retention import all_runs, encoded_values


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
    blob_bytes: int
    updated_at: float
    unshared_message_bytes: int | None = None
    """Bytes of the messages, uncompressed, if every checkpoint, pending write and snapshot had its own copies.

    None in the statistics of all threads, because counting these bytes reads every row of a thread.
    """

    @property
    def total_bytes(self) -> int:
        """Size of all stored row bodies, in bytes."""
        return self.checkpoint_bytes + self.write_bytes + self.message_bytes + self.blob_bytes


def stats(conn: sa.Connection, *, store: MessageStore, thread_id: str) -> ThreadStats | None:
    """Return the statistics of a thread, or None if the thread does not exist."""
    thread = store.find(conn, thread_id, lock=False)
    if thread is None:
        return None
    [found] = _of_rows(conn.execute(_query(one=True), {"key": thread.id}).mappings())
    return replace(found, unshared_message_bytes=_unshared_bytes(conn, thread))


def stats_of_all(conn: sa.Connection) -> list[ThreadStats]:
    """Return the statistics of all threads, in the order in which they were created, by one statement."""
    return list(_of_rows(conn.execute(_query(one=False)).mappings()))


def _of_rows(rows: Iterable[Mapping[Any, Any]]) -> Iterator[ThreadStats]:
    for row in rows:
        held: dict[str, Any] = {**row}
        held["messages"] = held.pop("single_messages") + held.pop("block_messages")
        held["message_bytes"] = held.pop("single_message_bytes") + held.pop("block_bytes")
        held.update((name, int(size)) for name, size in held.items() if name.endswith("_bytes"))
        yield ThreadStats(**held)


def _unshared_bytes(conn: sa.Connection, thread: Thread) -> int:
    found = list(encoded_values(conn, thread, list(checkpoint_rows.all_of(conn, thread))))
    runs, _ = references(found, blobs.get(conn, thread, run_blob_numbers(found)))
    taken = list(snapshots.of_thread(conn, thread).values())
    all_runs(thread, [*runs, *taken])
    sizes = {seq: len(body) for seq, body in message_blocks.all_messages(conn, thread)}
    before = list(accumulate((sizes.get(seq, 0) for seq in range(thread.next_seq)), initial=0))
    return sum(_span(before, one) for one in (*runs, *taken))


def _span(before: Sequence[int], runs: Runs) -> int:
    return sum(before[start + length] - before[start] for start, length in runs)


_COUNTED = {
    "checkpoints": tables.checkpoint,
    "writes": tables.write,
    "single_messages": tables.message,
    "block_messages": tables.hash_,
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
    "single_message_bytes": tables.message,
    "block_bytes": tables.block,
    "blob_bytes": tables.blob,
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
    return query.where(row.id == sa.bindparam("key")) if one else query.order_by(row.id)
