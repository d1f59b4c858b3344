"""Snapshots: the messages with which a compaction attempt began.

A snapshot row holds no message, only the runs of consecutive sequence numbers under which the messages are stored.
"""

import sqlalchemy as sa

from ..db import tables
from ..db.thread_row import Thread
from ..db.transaction import Transaction
from ..messages.sequence_runs import Runs, runs_from_body, runs_to_body

_snapshot = tables.snapshot.c


def write(transaction: Transaction, thread: Thread, compaction_id: str, runs: Runs, *, now: float) -> None:
    """Write the snapshot of an attempt that has none yet."""
    row = {
        "thread": thread.id,
        "compaction_id": compaction_id,
        "runs": runs_to_body(thread.codec, row_name(compaction_id), runs),
        "created_at": now,
    }
    transaction.execute(sa.insert(tables.snapshot).values(row))


def read(transaction: Transaction, thread: Thread, compaction_id: str) -> Runs | None:
    """Return the sequence numbers in an attempt's snapshot as runs, or None if the attempt has no snapshot."""
    query = sa.select(_snapshot.runs).where(_snapshot.thread == thread.id, _snapshot.compaction_id == compaction_id)
    data = transaction.execute(query).scalar_one_or_none()
    return None if data is None else runs_from_body(thread.codec, row_name(compaction_id), data)


def of_thread(transaction: Transaction, thread: Thread) -> dict[str, Runs]:
    """Return by compaction_id the sequence numbers, as runs, in every snapshot of a thread."""
    query = sa.select(_snapshot.compaction_id, _snapshot.runs).where(_snapshot.thread == thread.id)
    return {name: runs_from_body(thread.codec, row_name(name), data) for name, data in transaction.execute(query)}


def row_name(compaction_id: str) -> str:
    """Return the name of an attempt's snapshot row; `RowCodec` binds the row's body to this name."""
    return f"snapshot {compaction_id}"
