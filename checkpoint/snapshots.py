"""Snapshots: what `messages` held when an attempt began, as a few bytes of runs."""

import sqlalchemy as sa

from . import tables
from .runs import Runs, decode_runs, encode_runs

_snapshot = tables.snapshot.c


def write(conn: sa.Connection, thread: int, compaction_id: str, runs: Runs, *, now: float) -> None:
    """Write the snapshot of an attempt that has none yet."""
    row = {"thread": thread, "compaction_id": compaction_id, "runs": encode_runs(runs), "created_at": now}
    conn.execute(sa.insert(tables.snapshot).values(row))


def read(conn: sa.Connection, thread: int, compaction_id: str) -> Runs | None:
    """Return the snapshot of an attempt, or None."""
    query = sa.select(_snapshot.runs).where(_snapshot.thread == thread, _snapshot.compaction_id == compaction_id)
    data = conn.execute(query).scalar_one_or_none()
    return None if data is None else decode_runs(bytes(data), row=_name(thread, compaction_id))


def of_thread(conn: sa.Connection, thread: int) -> dict[str, Runs]:
    """Return every snapshot of a thread by its compaction_id."""
    query = sa.select(_snapshot.compaction_id, _snapshot.runs).where(_snapshot.thread == thread)
    return {name: decode_runs(bytes(data), row=_name(thread, name)) for name, data in conn.execute(query)}


def _name(thread: int, compaction_id: str) -> str:
    return f"snapshot {compaction_id} of thread {thread}"
