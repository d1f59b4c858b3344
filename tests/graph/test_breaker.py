"""The breaker's other dimension in a running thread: compactions that serve nobody."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.nodes.selection import breaker
from tests.fakes import ScriptedModel, calls, usage
from tests.graph.harness import (
    CONFIG,
    Clock,
    Drive,
    Synchronous,
    agent,
    events,
    filler,
    full,
    ledger,
    rounds,
    said,
    standing,
    verdicts,
)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow two compactions within ten calls of the model."""
    monkeypatch.setattr(breaker, "COMPACTIONS", 2)
    monkeypatch.setattr(breaker, "CALLS", 10)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the cool-down after one failure, or one useless compaction."""
    monkeypatch.setattr(breaker, "COOLDOWN_AFTER", 1)


def reporting(*tokens: int) -> ScriptedModel:
    """A model whose provider counts so many tokens of input, call by call."""
    return ScriptedModel(replies=[usage(AIMessage(f"answer {n}"), count, 1) for n, count in enumerate(tokens)])


def judged(graph: Any) -> list[tuple[str | None, str | None]]:
    """Verdict and reason of each attempt."""
    return [(row.verdict, row.reason) for row in ledger(graph)]


async def grow(go: Drive, graph: Any, turn: int, count: int = 8) -> list[Any]:
    """A turn that brings so many rounds with it."""
    given = {"messages": [*rounds(count, tag=f"t{turn}"), *said(f"and now {turn}?")["messages"]]}
    return await go.stream(graph, given, stream_mode=["updates", "custom"])


@pytest.mark.parametrize(("reported", "times"), [(799, 0), (800, 1), (900, 1)])
async def test_a_compaction_is_judged_on_the_next_real_usage(go: Drive, reported: int, times: int) -> None:
    """Where the provider still counts the trigger or more it was ineffective, and the next level is the next."""
    graph = agent(reporting(reported))
    await go.invoke(graph, full(), interrupt_after=["model"])
    assert verdicts(graph)[0] == "committed"
    assert (standing(graph)["ineffective"], standing(graph)["level"]) == (times, times)
    assert standing(graph)["unproven"] is False


async def test_without_usage_nothing_is_judged(go: Drive) -> None:
    """Where the provider reports nothing, the compaction stays unproven."""
    graph = agent(ScriptedModel())
    await go.invoke(graph, full())
    assert standing(graph)["unproven"] is True
    assert standing(graph).get("ineffective", 0) == 0


def look() -> str:
    """Look."""
    return "nothing new"


def calling(*tokens: int) -> ScriptedModel:
    """A model that first looks, then answers; its provider counts so many tokens of input, call by call."""
    answers = [calls(("look", {})), *(AIMessage("answered") for _ in tokens[1:])]
    return ScriptedModel(replies=[usage(answer, count, 1) for answer, count in zip(answers, tokens, strict=True)])


@pytest.mark.usefixtures("unbraked", "at_once")
async def test_ineffective_compactions_start_the_cool_down(go: Drive, clock: Clock) -> None:
    """After so many in a row attempts are deferred, for that reason; then one is let through, on the next level."""
    graph = agent(calling(900, 100), tools=[look], now=clock)
    await go.invoke(graph, full())
    assert judged(graph)[1:] == [("deferred_cooldown", "ineffective")]
    assert standing(graph)["cooldown_until"] == clock.time + 8
    clock.time += 8
    given = {"messages": [*rounds(8, tag="x"), *said("more")["messages"]]}
    await go.invoke(graph, given, interrupt_after=["token_check"])
    assert standing(graph)["step"] == "selective_compaction"


@pytest.mark.usefixtures("unbraked")
async def test_a_compaction_that_helps_ends_the_count(go: Drive, clock: Clock) -> None:
    """Ineffective ones count only in a row."""
    graph = agent(reporting(900, 100), now=clock)
    await go.invoke(graph, full(), interrupt_after=["model"])
    assert standing(graph)["ineffective"] == 1
    await go.invoke(graph, None)
    await go.invoke(graph, {"messages": [*rounds(8, tag="s"), HumanMessage("again")]})
    assert standing(graph)["ineffective"] == 0
    assert not standing(graph).get("cooldown_until")


@pytest.mark.usefixtures("often")
async def test_too_frequent_compactions_wait(go: Drive) -> None:
    """Two within ten calls of the model: the third is deferred for that reason, and the turn is answered."""
    graph = agent(ScriptedModel(), facts_beside_summary=False)
    for turn in range(2):
        await grow(go, graph, turn)
    assert verdicts(graph) == ["committed"] * 2
    chunks = await grow(go, graph, 2, 6)
    assert judged(graph)[2:3] == [("deferred_cooldown", "frequency")]
    assert events(chunks, "PreCompactEvent")
    assert events(chunks, "CompactionEvent") == []
    assert standing(graph)["epoch"] == 2


@pytest.mark.usefixtures("often")
async def test_over_the_limit_a_frequent_compaction_goes_ahead(go: Drive) -> None:
    """A request that could not be sent is compacted, whatever went before; deferred is never exhausted."""
    graph = agent(ScriptedModel())
    for turn in range(2):
        await grow(go, graph, turn)
    await go.invoke(graph, {"messages": [*rounds(9, tag="x"), *said(filler(60))["messages"]]})
    assert standing(graph)["epoch"] == 3
    assert "exhausted" not in verdicts(graph)


@pytest.mark.usefixtures("at_once")
def test_a_person_may_compact_as_often_as_they_like(clock: Clock) -> None:
    """The cool-down does not defer a wish."""
    graph = agent(calling(900, 100), tools=[look], now=clock)
    graph.invoke(full(), CONFIG)
    assert verdicts(graph)[-1] == "deferred_cooldown"
    CompactionThread(graph, CONFIG).compact()
    assert ledger(graph)[-1].trigger == "manual"
    assert verdicts(graph)[-1] != "deferred_cooldown"


@pytest.mark.usefixtures("often")
async def test_the_frequency_outlasts_a_restart(tmp_path: Path) -> None:
    """It stands in the thread's state, not in the process."""
    go = Synchronous()
    for turn in range(3):
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
            database = f"sqlite:///{tmp_path / 'our.db'}"
            graph = agent(ScriptedModel(), checkpointer=saver, database=database, facts_beside_summary=False)
            await grow(go, graph, turn, 8 if turn < 2 else 6)
    assert judged(graph)[2:3] == [("deferred_cooldown", "frequency")]
