"""The archive: what left the view, in the words it had, as runs per compaction."""

import sqlalchemy as sa

from . import tables
from .runs import Runs, decode_runs, encode_runs, expand, runs_of

_archive = tables.archive.c


def write(conn: sa.Connection, thread: int, namespace: str, compaction_id: str, runs: Runs, *, now: float) -> None:
    """Archive for a compaction, beside what stands there: a fork may commit the same attempt otherwise."""
    held = _read(conn, thread, compaction_id)
    if held is None:
        key = {"thread": thread, "compaction_id": compaction_id, "namespace": namespace}
        conn.execute(sa.insert(tables.archive).values(**key, runs=encode_runs(runs), created_at=now))
    else:
        both = runs_of(dict.fromkeys([*expand(held), *expand(runs)]))
        mine = sa.and_(_archive.thread == thread, _archive.compaction_id == compaction_id)
        conn.execute(sa.update(tables.archive).where(mine).values(runs=encode_runs(both)))


def of_thread(conn: sa.Connection, thread: int, namespace: str | None = None) -> dict[str, Runs]:
    """Return what each compaction of a thread, of one namespace or of all, archived."""
    query = sa.select(_archive.compaction_id, _archive.runs).where(_archive.thread == thread)
    if namespace is not None:
        query = query.where(_archive.namespace == namespace)
    return {name: decode_runs(bytes(data), row=_name(thread, name)) for name, data in conn.execute(query)}


def _read(conn: sa.Connection, thread: int, compaction_id: str) -> Runs | None:
    query = sa.select(_archive.runs).where(_archive.thread == thread, _archive.compaction_id == compaction_id)
    data = conn.execute(query).scalar_one_or_none()
    return None if data is None else decode_runs(bytes(data), row=_name(thread, compaction_id))


def _name(thread: int, compaction_id: str) -> str:
    return f"archive {compaction_id} of thread {thread}"
