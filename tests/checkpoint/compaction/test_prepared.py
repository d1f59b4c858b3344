"""Summaries that are prepared ahead: one for each thread, and not again and again for nothing."""

import os
import subprocess
import sys
from typing import Any

import pytest

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction import prepared
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome
from langgraph_compaction.checkpoint.compaction.prepared import PREPARED, PREPARING, READY, SWAPPED, Preparation
from langgraph_compaction.checkpoint.db.owner import owner
from tests.checkpoint.samples import COMMITTED, opening

READY_NOW = Outcome(verdict=PREPARED, reason=READY, now=20.0, summary_calls=1, summary_input_tokens=9)


def key(thread_id: str, number: int) -> AttemptKey:
    """The key of a preparation."""
    return AttemptKey(thread_id, "", f"base {number}", 0, -1)


def claim(
    records: CompactionRecords, thread_id: str, number: int, *, now: float = 10.0, epoch: int = 0, **changed: Any
) -> str | None:
    """Begin a preparation."""
    given: dict[str, Any] = {"until": now + 60, "unused": 2, **opening(trigger=PREPARING, epoch=epoch), **changed}
    return records.claim_preparation(key(thread_id, number), {"epoch": epoch, "drop": ["a"]}, now=now, **given)


def told(records: CompactionRecords, thread_id: str) -> list[tuple[str | None, str]]:
    """What the ledger says of each preparation."""
    return [(row.verdict, row.reason) for row in records.history(thread_id)]


def test_a_thread_has_one_preparation(
    records: CompactionRecords, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one is under way, and when it is ready, no other begins; one whose process died makes room."""
    assert claim(records, thread_id, 1) is None
    assert claim(records, thread_id, 2) == "exists"
    found = records.preparation(thread_id, "")
    assert found is not None
    assert (found.is_under_way, found.body["drop"]) == (True, ["a"])
    monkeypatch.setattr(prepared, "may_run", lambda _: False)
    assert claim(records, thread_id, 2) is None
    assert told(records, thread_id) == [("abandoned", ""), (PREPARED, "under_way")]
    records.finish_preparation(key(thread_id, 1), READY_NOW, {"epoch": 0})  # it ends late: nothing comes of it
    records.finish_preparation(key(thread_id, 2), READY_NOW, {"epoch": 0})
    assert claim(records, thread_id, 3) == "exists"
    assert claim(records, thread_id, 3, epoch=1, unused=9) is None  # a commit came since
    assert told(records, thread_id) == [("abandoned", ""), (PREPARED, "unused"), (PREPARED, "under_way")]


def test_a_commit_takes_the_preparation_with_its_cost(records: CompactionRecords, thread_id: str) -> None:
    """In one transaction the row is gone, the ledger says so, and the cost is told once."""
    claim(records, thread_id, 1)
    records.finish_preparation(key(thread_id, 1), READY_NOW, {"epoch": 0})
    attempt = AttemptKey(thread_id, "", "base", 0, 0)
    records.begin(attempt, [], now=30.0, **opening())
    records.commit(attempt, COMMITTED, archived=[], used=key(thread_id, 1).compaction_id)
    assert told(records, thread_id)[0] == (PREPARED, SWAPPED)
    assert records.history(thread_id)[0].summary_calls == 0
    assert records.preparation(thread_id, "") is None


@pytest.mark.parametrize(
    ("endings", "refused"),
    [
        ([("stale", "x"), ("stale", "y")], "stale"),
        ([("failed_transient", "x"), ("stale", "y")], "unused"),
        ([("stale", "x"), (PREPARED, SWAPPED)], None),
    ],
)
def test_preparations_that_are_not_used_end_the_preparing(
    records: CompactionRecords, thread_id: str, endings: list[tuple[str, str]], refused: str | None
) -> None:
    """Two that went stale in a row end it for the next compaction, two unused within an hour for that hour."""
    for number, (verdict, reason) in enumerate(endings):
        assert claim(records, thread_id, number) is None
        name = key(thread_id, number).compaction_id
        records.settle_preparation(thread_id, "", name, verdict=verdict, reason=reason, now=12.0)
    assert claim(records, thread_id, 9) == refused
    assert claim(records, thread_id, 8, epoch=2, now=10.0 + 3_601) is None


def test_a_preparation_that_a_compaction_overtook_does_not_begin(records: CompactionRecords, thread_id: str) -> None:
    """The compaction began after the messages were read, and removes them itself."""
    records.begin(AttemptKey(thread_id, "", "base", 0, 0), [], now=30.0, **opening())
    assert claim(records, thread_id, 1, now=31.0, since=29.0) == "late"
    assert claim(records, thread_id, 1, now=31.0, since=30.5) is None


@pytest.mark.parametrize(
    ("now", "alive", "may"), [(9.0, True, True), (10.0, True, False), (9.0, False, False), (11.0, False, False)]
)
def test_a_preparation_is_waited_for_while_its_process_runs_and_has_time(
    now: float, *, alive: bool, may: bool
) -> None:
    """Not for one whose process has died, however much time it had, nor for one that took too long."""
    process = f"{os.getpid()}"
    if not alive:
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        process = f"{ended.pid}"
    held = Preparation(
        compaction_id="c",
        verdict=PREPARED,
        reason="",
        duration_s=None,
        owner=owner().replace(f"/{os.getpid()}/", f"/{process}/"),
        until=10.0,
        body={},
    )
    assert held.may_end(now) is may
