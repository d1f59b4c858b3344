from typing import Any

import pytest

from langgraph_compaction.graph import CompactionThread, view
from tests.fakes import ScriptedModel, texts
from tests.graph.harness import (
    CONFIG,
    SUMMARY,
    Asynchronous,
    Clock,
    Drive,
    agent,
    filler,
    full,
    ledger,
    rounds,
    said,
    standing,
    steps,
    values,
    verdicts,
)


async def compact(go: Drive, graph: Any, **options: Any) -> dict[str, Any]:
    """Compact now, in the way of the drive."""
    if isinstance(go, Asynchronous):
        return await CompactionThread(graph, CONFIG).acompact(**options)
    return CompactionThread(graph, CONFIG).compact(**options)


async def test_a_thread_is_compacted_whatever_its_size(go: Drive) -> None:
    """A person's wish compacts far below the trigger, and calls no model."""
    model, summarizer = ScriptedModel(), ScriptedModel(replies=[SUMMARY])
    graph = agent(model, summarizer)
    await go.invoke(graph, {"messages": rounds(5)})
    result = await compact(go, graph, focus="the price of eggs")
    assert len(model.received) == 1
    assert verdicts(graph) == ["committed"]
    assert ledger(graph)[0].trigger == "manual"
    assert "the price of eggs" in texts(summarizer.received[0])
    assert result["messages"] == graph.get_state(CONFIG).values["messages"]
    assert len(result["messages"]) == 11
    assert len(view(result)) < 11


@pytest.mark.parametrize("full", [True, False])
async def test_all_of_it_can_be_summarized(go: Drive, full: bool) -> None:
    """With `full` the newest rounds leave too, and only the answer that was just given stays."""
    graph = agent()
    await go.invoke(graph, {"messages": rounds(5)})
    result = await compact(go, graph, full=full)
    assert len(view(result)) == (2 if full else 6)
    assert verdicts(graph) == ["committed"]


async def test_a_wish_holds_for_one_run(go: Drive) -> None:
    """The next turn is a turn like any other, without the focus."""
    summarizer = ScriptedModel(replies=[SUMMARY])
    graph = agent(ScriptedModel(), summarizer)
    await go.invoke(graph, said("hello"))
    await compact(go, graph, focus="the price of eggs")
    assert steps(await go.stream(graph, said("more"))) == ["token_check", "model"]
    await go.invoke(graph, full())
    assert verdicts(graph) == ["noop", "committed"]
    assert "the price of eggs" not in texts(summarizer.received[0])


async def test_nobody_is_asked_and_nothing_is_deferred(go: Drive, clock: Clock) -> None:
    """Who wishes it has confirmed it, and does not wait for a cool-down."""
    graph = agent(require_confirmation=True, now=clock)
    await go.invoke(graph, {"messages": rounds(5)})
    graph.update_state(
        CONFIG, {"compaction": {"breaker": {"failures": 3, "cooldown_until": clock.time + 5}}}, as_node="model"
    )
    await compact(go, graph)
    assert verdicts(graph) == ["committed"]
    assert "failures" not in standing(graph)["breaker"]


async def test_an_unanswered_question_stays_last(go: Drive) -> None:
    """A wish between a failed call of the model and its retry keeps the question word for word."""
    graph = agent(ScriptedModel(replies=[RuntimeError("down"), "here"]))
    with pytest.raises(RuntimeError, match="down"):
        await go.invoke(graph, {"messages": [*rounds(4), *said(filler(30), "question")["messages"]]})
    await compact(go, graph)
    assert verdicts(graph) == ["committed"]
    assert values(graph)["messages"][-1].text == filler(30)
