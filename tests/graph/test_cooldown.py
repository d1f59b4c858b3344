"""When attempts wait: after failures."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from langgraph_compaction.graph.thread_state import records_of
from tests.fakes import ScriptedModel
from tests.graph.harness import (
    CONFIG,
    Clock,
    Drive,
    agent,
    events,
    filler,
    full,
    ledger,
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


def deferred(graph: Any) -> list[str | None]:
    """The reasons of the attempts that were put off."""
    return [row.reason for row in ledger(graph) if row.verdict == "deferred_cooldown"]


@pytest.mark.parametrize(("later", "skipped"), [(7.9, True), (8, False), (-0.001, False)])
async def test_after_two_failures_attempts_are_skipped_for_eight_seconds(
    go: Drive, clock: Clock, monkeypatch: pytest.MonkeyPatch, later: float, skipped: bool
) -> None:
    """By the wall clock; a clock that was set back ends it. The turn is answered, and told what was put off."""
    graph = broken(monkeypatch, agent(now=clock))
    await go.invoke(graph, full(), interrupt_after=["model"])
    assert verdicts(graph) == ["failed_permanent"]
    await go.invoke(graph, None)
    assert verdicts(graph) == ["failed_permanent"] * 2
    clock.time += later
    chunks = await go.stream(graph, said("more"), stream_mode=["custom"], interrupt_after=["token_check"])
    assert graph.get_state(CONFIG).next == (("model",) if skipped else ("selective_compaction",))
    assert events(chunks, "PreCompactEvent")
    assert deferred(graph) == (["failures"] if skipped else [])


async def test_over_the_limit_there_is_no_cool_down(go: Drive, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that could not be sent is compacted at once, and the commit ends the cool-down."""
    graph = agent(now=clock)
    with monkeypatch.context() as patched:
        broken(patched, graph)
        await go.invoke(graph, full())
    await go.invoke(graph, said(filler(200)))
    assert standing(graph)["epoch"] == 1
    await go.invoke(graph, {"messages": [*rounds(8, tag="x"), *said("more")["messages"]]})
    assert standing(graph)["epoch"] == 2
    assert deferred(graph) == []


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
        assert deferred(graph) == ["failures"]


async def test_failures_count_only_in_a_row(go: Drive, clock: Clock) -> None:
    """After a failure and a commit the next failure is the first again."""
    graph = agent(ScriptedModel(), ScriptedModel(replies=[ValueError("down")]), now=clock)
    for turn in range(3):
        await go.invoke(graph, {"messages": rounds(7, tag=f"t{turn}")})
        await go.invoke(graph, said("and now?"))
    assert verdicts(graph).count("failed_permanent") > 1
    assert deferred(graph) == []
