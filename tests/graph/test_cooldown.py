import logging
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.selection import breaker
from tests.fakes import ScriptedModel
from tests.graph.harness import (
    CONFIG,
    Clock,
    Drive,
    agent,
    events,
    filler,
    full,
    rounds,
    said,
    standing,
    steps,
    verdicts,
)


def broken(monkeypatch: pytest.MonkeyPatch, graph: Any) -> Any:
    """Let the archive fail, so that no attempt on any level can commit."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("read-only")

    monkeypatch.setattr(records_of(graph), "commit", refuse)
    return graph


async def test_two_failures_in_a_row_start_the_cool_down(
    go: Drive, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One failure does not stop the next attempt; the second does, for eight seconds."""
    graph = broken(monkeypatch, agent(now=clock))
    await go.invoke(graph, full(), interrupt_after=["model"])
    assert standing(graph)["streak"] == 1
    assert not standing(graph).get("cooldown_until")
    await go.invoke(graph, None)
    assert standing(graph)["streak"] == 2
    assert standing(graph)["cooldown_until"] == clock.time + 8


@pytest.mark.parametrize(
    ("later", "skipped"), [(0, True), (7.9, True), (8, False), (3_600, False), (-60, False), (-0.001, False)]
)
async def test_attempts_are_skipped_while_the_cool_down_runs(  # noqa: PLR0917 - fixtures
    go: Drive,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    later: float,
    skipped: bool,
) -> None:
    """Within eight seconds of the wall clock attempts are skipped; after that, and after a clock set back, not."""
    graph = broken(monkeypatch, agent(now=clock))
    await go.invoke(graph, full())
    clock.time += later
    with caplog.at_level(logging.INFO, "langgraph_compaction"):
        chunks = await go.stream(graph, said("more"), stream_mode=["custom"], interrupt_after=["token_check"])
    assert graph.get_state(CONFIG).next == (("model",) if skipped else ("selective_compaction",))
    assert ("冷却中，跳过压缩" in caplog.text) == skipped
    assert events(chunks, "PreCompactEvent"), "the event is written also when the attempt is skipped"
    assert (verdicts(graph)[-1] == "deferred_cooldown") == skipped


async def test_a_skipped_attempt_is_no_failure(go: Drive, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rung, streak and the end of the cool-down stay as they are while attempts are skipped."""
    graph = broken(monkeypatch, agent(now=clock))
    await go.invoke(graph, full())
    before = standing(graph)
    clock.time += 4
    await go.invoke(graph, said("more"))
    assert {key: standing(graph)[key] for key in ("level", "streak", "cooldown_until", "epoch") if key in before} == {
        key: before[key] for key in ("level", "streak", "cooldown_until", "epoch") if key in before
    }


async def test_over_the_limit_there_is_no_cool_down(go: Drive, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that could not be sent is compacted at once."""
    graph = agent(now=clock)
    with monkeypatch.context() as patched:
        broken(patched, graph)
        await go.invoke(graph, full())
    await go.invoke(graph, said(filler(200)))
    assert standing(graph)["epoch"] == 1
    assert standing(graph)["streak"] == 0
    assert standing(graph)["cooldown_until"] == 0


async def test_it_begins_after_so_many_failures(go: Drive, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """And lasts eight seconds."""
    monkeypatch.setattr(breaker, "COOLDOWN_AFTER", 1)
    graph = broken(monkeypatch, agent(now=clock))
    await go.invoke(graph, full())
    assert standing(graph)["streak"] == 1
    assert standing(graph)["cooldown_until"] == clock.time + 8


def test_the_cool_down_survives_a_restart(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept in the thread's state as a wall-clock time, not in the process."""

    def opened(saver: SqliteSaver) -> Any:
        return broken(monkeypatch, agent(checkpointer=saver, database=f"sqlite:///{tmp_path / 'our.db'}", now=clock))

    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        opened(saver).invoke(full(), CONFIG)
    clock.time += 5
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        graph = opened(saver)
        assert steps(list(graph.stream(said("more"), CONFIG))) == ["token_check", "model"]
        assert verdicts(graph)[2:] == ["deferred_cooldown"]


async def test_a_commit_ends_the_streak(go: Drive, clock: Clock) -> None:
    """After a failure and a commit the next failure is the first again."""
    graph = agent(ScriptedModel(), ScriptedModel(replies=[ValueError("down")]), now=clock)
    for turn in range(3):
        await go.invoke(graph, {"messages": rounds(7, tag=f"t{turn}")})
        await go.invoke(graph, said("and now?"))
    assert verdicts(graph).count("failed_permanent") > 1
    assert not standing(graph).get("cooldown_until")
    assert "deferred_cooldown" not in verdicts(graph)
