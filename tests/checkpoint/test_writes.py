"""Writes of the records that are repeated, and a thread that is forgotten."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome
from langgraph_compaction.checkpoint.db import tables
from tests.checkpoint.samples import COMMITTED, SUMMARY, begin, opening, talk


def everything(records: CompactionRecords) -> dict[str, list[tuple[object, ...]]]:
    """Return the content of every table but of the one that tells, by hashes, which threads were erased."""
    with records.database.read() as conn:
        return {
            name: sorted((tuple(row) for row in conn.execute(sa.select(table))), key=repr)
            for name, table in tables.METADATA.tables.items()
            if table is not tables.erased
        }


WRITES: dict[str, Callable[[CompactionRecords, AttemptKey], object]] = {
    "begin": lambda records, key: records.begin(key, talk(5), now=11.0, **opening(epoch=9)),
    "record_summary": lambda records, key: records.record_summary(key, SUMMARY),
    "commit": lambda records, key: records.commit(key, COMMITTED, archived=talk(3)),
    "close": lambda records, key: records.close(key, Outcome(verdict="rejected_empty", now=12.0)),
    "note": lambda records, key: records.note(
        AttemptKey(key.thread_id, "", key.base_fingerprint, 7, 0), Outcome(verdict="declined", now=12.0), **opening()
    ),
    "archive": lambda records, key: records.archive(key.thread_id, "", "f" * 16, talk(2), now=12.0),
    "abandon_open": lambda records, key: records.abandon_open(key.thread_id, "", keep=None, now=12.0),
    "forget": lambda records, key: records.forget(key.thread_id),
}


@pytest.mark.parametrize("kind", WRITES)
def test_a_write_that_is_repeated_changes_nothing_more(records: CompactionRecords, thread_id: str, kind: str) -> None:
    """A node that runs again after a crash repeats its write without effect."""
    key = begin(records, thread_id)
    WRITES[kind](records, key)
    once = everything(records)
    WRITES[kind](records, key)
    assert everything(records) == once


def test_forgetting_erases_every_row_of_one_thread(records: CompactionRecords, thread_id: str) -> None:
    """After forget no table holds a row of the thread, its text is gone, and other threads are untouched."""
    before = everything(records)
    key = begin(records, thread_id)
    for write in WRITES.values():
        write(records, key)
    begin(records, thread_id)
    records.forget(thread_id)
    assert everything(records) == before
    records.forget("nobody")
