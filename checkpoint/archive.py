"""The archive: what left the view, in the words it had, as runs per compaction."""

import sqlalchemy as sa

from . import tables
from .runs import Runs, decode_runs, encode_runs, expand, runs_of
from .threads import Thread

_archive = tables.archive.c


def write(conn: sa.Connection, thread: Thread, namespace: str, compaction_id: str, runs: Runs, *, now: float) -> None:
    """Archive for a compaction, beside what stands there: a fork may commit the same attempt otherwise."""
    held = _read(conn, thread, compaction_id)
    if held is None:
        key = {"thread": thread.id, "compaction_id": compaction_id, "namespace": namespace}
        conn.execute(
            sa.insert(tables.archive).values(**key, runs=_closed(thread, compaction_id, runs), created_at=now)
        )
    else:
        both = runs_of(dict.fromkeys([*expand(held), *expand(runs)]))
        mine = sa.and_(_archive.thread == thread.id, _archive.compaction_id == compaction_id)
        conn.execute(sa.update(tables.archive).where(mine).values(runs=_closed(thread, compaction_id, both)))


def of_thread(conn: sa.Connection, thread: Thread, namespace: str | None = None) -> dict[str, Runs]:
    """Return what each compaction of a thread, of one namespace or of all, archived."""
    query = sa.select(_archive.compaction_id, _archive.runs).where(_archive.thread == thread.id)
    if namespace is not None:
        query = query.where(_archive.namespace == namespace)
    return {name: _opened(thread, name, data) for name, data in conn.execute(query)}


def _read(conn: sa.Connection, thread: Thread, compaction_id: str) -> Runs | None:
    query = sa.select(_archive.runs).where(_archive.thread == thread.id, _archive.compaction_id == compaction_id)
    data = conn.execute(query).scalar_one_or_none()
    return None if data is None else _opened(thread, compaction_id, data)


def row_name(compaction_id: str) -> str:
    """Return the name of an archive row within its thread."""
    return f"archive {compaction_id}"


def _closed(thread: Thread, compaction_id: str, runs: Runs) -> bytes:
    return thread.seal.close(row_name(compaction_id), encode_runs(runs))


def _opened(thread: Thread, compaction_id: str, sealed: bytes) -> Runs:
    row = row_name(compaction_id)
    return decode_runs(thread.seal.open(row, bytes(sealed)), row=thread.seal.name(row))
