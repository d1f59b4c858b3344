"""The archive: the messages that compactions removed or clipped (shortened), in their original form.

An archive row holds only the sequence numbers of these messages; the messages themselves are in the message store.
"""

from typing import NamedTuple

import sqlalchemy as sa

from ..db import tables
from ..db.thread_row import Thread
from ..db.transaction import Transaction
from ..messages.sequence_runs import Runs, expand, runs_from_body, runs_of, runs_to_body

_archive = tables.archive.c


class Entry(NamedTuple):
    """The messages that one compaction archived, as runs of sequence numbers, and the time in Unix seconds."""

    compaction_id: str
    namespace: str
    runs: Runs
    created_at: float


def write(
    transaction: Transaction, thread: Thread, namespace: str, compaction_id: str, runs: Runs, *, now: float
) -> None:
    """Archive messages under a compaction.

    Messages archived earlier under the compaction stay, because a fork can commit the same attempt (with an equal
    compaction_id) with other messages.
    """
    row, held = row_name(compaction_id), _read(transaction, thread, compaction_id)
    if held is None:
        key = {"thread": thread.id, "compaction_id": compaction_id, "namespace": namespace}
        body = runs_to_body(thread.codec, row, runs, bound=namespace)
        transaction.execute(sa.insert(tables.archive).values(**key, runs=body, created_at=now))
    else:
        both = runs_of(dict.fromkeys([*expand(held.runs), *expand(runs)]))
        body = runs_to_body(thread.codec, row, both, bound=held.namespace)
        mine = sa.and_(_archive.thread == thread.id, _archive.compaction_id == compaction_id)
        transaction.execute(sa.update(tables.archive).where(mine).values(runs=body))


def of_thread(transaction: Transaction, thread: Thread) -> dict[str, Runs]:
    """Return by compaction_id the sequence numbers of archived messages, in all namespaces."""
    return {entry.compaction_id: entry.runs for entry in _rows(transaction, thread)}


def entries(transaction: Transaction, thread: Thread) -> list[Entry]:
    """Return the archive entries of a thread, oldest first."""
    return sorted(_rows(transaction, thread), key=lambda entry: (entry.created_at, entry.compaction_id))


def _read(transaction: Transaction, thread: Thread, compaction_id: str) -> Entry | None:
    return next(iter(_rows(transaction, thread, _archive.compaction_id == compaction_id)), None)


def _rows(transaction: Transaction, thread: Thread, *conditions: sa.ColumnElement[bool]) -> list[Entry]:
    """Return rows of a thread; raise `RowError`, naming the row, if its runs or its namespace were changed."""
    columns = (_archive.compaction_id, _archive.namespace, _archive.runs, _archive.created_at)
    return [
        Entry(name, namespace, runs_from_body(thread.codec, row_name(name), body, bound=namespace), moment)
        for name, namespace, body, moment in transaction.execute(
            sa.select(*columns).where(_archive.thread == thread.id, *conditions)
        )
    ]


def row_name(compaction_id: str) -> str:
    """Return the name of a compaction's archive row; `RowCodec` binds the row's body to this name."""
    return f"archive {compaction_id}"
