"""Statistics of a thread: how many rows it has, and how many bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import sqlalchemy as sa

from ..checkpoints import checkpoint_rows
from ..compaction import snapshots
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
    checkpoint_bytes: int
    write_bytes: int
    message_bytes: int
    blob_bytes: int
    unshared_message_bytes: int
    """Bytes of the messages, uncompressed, if every checkpoint, pending write and snapshot had its own copies."""
    updated_at: float

    @property
    def total_bytes(self) -> int:
        """Size of all stored row bodies, in bytes."""
        return self.checkpoint_bytes + self.write_bytes + self.message_bytes + self.blob_bytes


def stats(conn: sa.Connection, *, store: MessageStore, thread_id: str) -> ThreadStats | None:
    """Return the statistics of a thread, or None if the thread does not exist."""
    thread = store.find(conn, thread_id, lock=False)
    if thread is None:
        return None
    stored = list(checkpoint_rows.all_of(conn, thread))
    found = list(encoded_values(conn, thread, stored))
    runs, _ = references(found, blobs.get(conn, thread, run_blob_numbers(found)))
    taken = list(snapshots.of_thread(conn, thread).values())
    all_runs(thread, [*runs, *taken])
    sizes = {seq: len(body) for seq, body in message_blocks.all_messages(conn, thread)}
    before = list(accumulate((sizes.get(seq, 0) for seq in range(thread.next_seq)), initial=0))
    return ThreadStats(
        thread_id=thread_id,
        checkpoints=len(stored),
        writes=_count(conn, tables.write, thread),
        messages=len(sizes),
        snapshots=len(taken),
        compactions=_count(conn, tables.ledger, thread),
        checkpoint_bytes=_bytes(conn, tables.checkpoint, thread),
        write_bytes=_bytes(conn, tables.write, thread),
        message_bytes=_bytes(conn, tables.message, thread) + _bytes(conn, tables.block, thread),
        blob_bytes=_bytes(conn, tables.blob, thread),
        unshared_message_bytes=sum(_span(before, one) for one in (*runs, *taken)),
        updated_at=thread.updated_at,
    )


def _span(before: Sequence[int], runs: Runs) -> int:
    return sum(before[start + length] - before[start] for start, length in runs)


def _count(conn: sa.Connection, table: sa.Table, thread: Thread) -> int:
    return conn.execute(sa.select(sa.func.count()).select_from(table).where(table.c.thread == thread.id)).scalar_one()


def _bytes(conn: sa.Connection, table: sa.Table, thread: Thread) -> int:
    size = sa.func.coalesce(sa.func.sum(sa.func.length(table.c.body)), 0)
    return int(conn.execute(sa.select(size).where(table.c.thread == thread.id)).scalar_one())
