"""The rows of threads that are held in memory between two writes."""

import pytest

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.checkpoint.db import guarded_write
from langgraph_compaction.checkpoint.db.guarded_write import RememberedThreads


def test_the_threads_that_were_used_last_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that serves many threads holds so many rows, and not those of all."""
    monkeypatch.setattr(guarded_write, "_REMEMBERED_THREADS", 2)
    records, held = CompactionRecords(Database.open("memory")), RememberedThreads()
    records.database.setup()
    with records.database.write() as conn:
        threads = {name: records.store.thread(conn, name) for name in "abc"}
    for name in "abac":
        held.keep(threads[name])
    found = [held.take(name) for name in "abc"]
    assert found == [threads["a"], None, threads["c"]]


def test_a_thread_without_a_row_is_remembered_as_absent_alone() -> None:
    """What was remembered of its row before is forgotten, and a row that is written ends the absence."""
    records, held = CompactionRecords(Database.open("memory")), RememberedThreads()
    records.database.setup()
    with records.database.write() as conn:
        thread = records.store.thread(conn, "a")
    held.keep(thread)
    held.keep_absent("a")
    assert held.take("a") is None
    assert held.take_absent("a")
    assert not held.take_absent("a")
    held.keep_absent("a")
    held.keep(thread)
    assert not held.take_absent("a")
    assert held.take("a") is thread


def test_the_threads_without_a_row_that_were_looked_for_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number has a limit, so that reading many unknown threads does not fill the memory."""
    monkeypatch.setattr(guarded_write, "_REMEMBERED_THREADS", 2)
    held = RememberedThreads()
    for name in "abc":
        held.keep_absent(name)
    assert [held.take_absent(name) for name in "abc"] == [False, True, True]
