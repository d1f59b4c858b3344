import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction import prepared
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome
from langgraph_compaction.checkpoint.compaction.prepared import PREPARED, PREPARING, READY, SWAPPED, Preparation
from langgraph_compaction.checkpoint.db.owner import owner
from tests.checkpoint.samples import COMMITTED, opening

READY_NOW = Outcome(verdict=PREPARED, reason=READY, now=20.0, summary_calls=1, summary_input_tokens=9)


THREAD = uuid4().hex


@pytest.fixture(autouse=True)
def nothing_left(records: CompactionRecords) -> Iterator[None]:
    """Erase the thread behind each test."""
    yield
    records.forget(THREAD)


def key(number: int) -> AttemptKey:
    """The key of a preparation."""
    return AttemptKey(THREAD, "", f"base {number}", 0, -1)


def claim(records: CompactionRecords, number: int, now: float = 10.0, **changed: Any) -> str | None:
    """Begin a preparation."""
    given: dict[str, Any] = {"until": now + 60, "unused": 2, **changed}
    body = {"epoch": given.pop("epoch", 0), "drop": ["a"]}
    opened = opening(trigger=PREPARING, epoch=body["epoch"])
    return records.claim_preparation(key(number), body, now=now, **given, **opened)


def told(records: CompactionRecords) -> list[tuple[str | None, str]]:
    """What the ledger says of each preparation."""
    return [(row.verdict, row.reason) for row in records.history(THREAD)]


def test_a_thread_has_one_preparation(records: CompactionRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is under way, and when it is ready, no other begins; one whose process died makes room."""
    assert claim(records, 1) is None
    assert claim(records, 2) == "exists"
    found = records.preparation(THREAD, "")
    assert found is not None
    assert (found.is_under_way, found.body["drop"]) == (True, ["a"])
    monkeypatch.setattr(prepared, "may_run", lambda _: False)
    assert claim(records, 2) is None
    assert told(records) == [("abandoned", ""), (PREPARED, "under_way")]
    records.finish_preparation(key(2), READY_NOW, {"epoch": 0})
    assert claim(records, 3) == "exists"
    assert claim(records, 3, epoch=1, unused=9) is None  # a commit came since
    assert told(records)[1:] == [(PREPARED, "unused"), (PREPARED, "under_way")]


def test_what_ends_late_changes_nothing(records: CompactionRecords) -> None:
    """A preparation that another process has given up does not come back."""
    claim(records, 1)
    records.settle_preparation(THREAD, "", key(1).compaction_id, verdict="abandoned", reason="x", now=15.0)
    records.finish_preparation(key(1), READY_NOW, {"epoch": 0})
    assert told(records) == [("abandoned", "x")]
    assert records.preparation(THREAD, "") is None


def test_a_commit_takes_the_preparation_with_its_cost(records: CompactionRecords) -> None:
    """In one transaction the row is gone, the ledger says so, and the cost is told once."""
    claim(records, 1)
    records.finish_preparation(key(1), READY_NOW, {"epoch": 0})
    attempt = AttemptKey(THREAD, "", "base", 0, 0)
    records.begin(attempt, [], now=30.0, **opening())
    records.commit(attempt, COMMITTED, archived=[], used=key(1).compaction_id)
    assert told(records)[0] == (PREPARED, SWAPPED)
    assert records.history(THREAD)[0].summary_calls == 0
    assert records.preparation(THREAD, "") is None


@pytest.mark.parametrize(
    ("endings", "refused"),
    [
        ([("stale", "x"), ("stale", "y")], "stale"),
        ([("failed_transient", "x"), ("stale", "y")], "unused"),
        ([("stale", "x"), (PREPARED, SWAPPED)], None),
    ],
)
def test_preparations_that_are_not_used_end_the_preparing(
    records: CompactionRecords, endings: list[tuple[str, str]], refused: str | None
) -> None:
    """Two that went stale in a row end it for a compaction, two unused within an hour for that hour."""
    for number, (verdict, reason) in enumerate(endings):
        assert claim(records, number) is None
        name = key(number).compaction_id
        records.settle_preparation(THREAD, "", name, verdict=verdict, reason=reason, now=12.0)
    assert claim(records, 9) == refused
    later = claim(records, 8, now=10.0 + 3_601) if refused else None
    assert later == (refused if refused == "stale" else None)


def test_a_preparation_that_a_compaction_overtook_does_not_begin(records: CompactionRecords) -> None:
    """The compaction began after the messages were read, and removes them itself."""
    records.begin(AttemptKey(THREAD, "", "base", 0, 0), [], now=30.0, **opening())
    assert claim(records, 1, now=31.0, since=29.0) == "late"
    assert claim(records, 1, now=31.0, since=30.5) is None


def test_after_stale_preparations_one_compaction_is_not_prepared(records: CompactionRecords) -> None:
    """Then another one may begin; if it goes stale too, the next compaction is not prepared either."""

    def stale(number: int, epoch: int) -> None:
        assert claim(records, number, epoch=epoch, unused=99) is None
        name = key(number).compaction_id
        records.settle_preparation(THREAD, "", name, verdict="stale", reason="contradicted", now=12.0)

    stale(1, epoch=0)
    stale(2, epoch=1)
    assert [claim(records, 3, epoch=epoch, unused=99) for epoch in (1, 2)] == ["stale", "stale"]
    stale(3, epoch=3)
    assert claim(records, 4, epoch=4, unused=99) == "stale"
    assert claim(records, 4, epoch=5, unused=99) is None


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
