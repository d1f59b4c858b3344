"""A wish to compact, and a count, in windows of real models: they compact whenever there is something old."""

from typing import Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langgraph_compaction.graph import CompactionSettings, CompactionThread, create_compacting_agent
from langgraph_compaction.nodes.config.triggers import Count, Unit
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.fakes import ScriptedModel, claude, gpt, sized_as
from tests.graph.harness import (
    CONFIG,
    Asynchronous,
    Drive,
    agent,
    events,
    filler,
    ledger,
    rounds,
    said,
    standing,
    values,
    verdicts,
)

REAL = pytest.mark.parametrize("real", [gpt("gpt-4o"), claude(), gpt("gpt-5")], ids=["gpt-4o", "claude", "gpt-5"])
PRESETS = ("progressive", "progressive_chart", "progressive_pseudocode")
TOLD = "The user asked for many things and the assistant did them."


def progressive(real: Any, *replies: Any, preset: str = "progressive", **options: Any) -> Any:
    """An agent with the preset's own figures, the window of a real model, and the usual counter."""
    return create_compacting_agent(
        sized_as(real, *replies),
        settings=CompactionSettings.model_validate({"preset": preset}),
        summarizer=ScriptedModel(replies=[TOLD]),
        checkpointer=InMemorySaver(),
        **options,
    )


def talk(count: int = 40, words: int = 30) -> list[AnyMessage]:
    """A conversation of about 10,000 tokens by tiktoken: far below any trigger by tokens."""
    return [*rounds(count, words), HumanMessage("hi", id="question")]


async def wished(go: Drive, graph: Any, wish: str) -> None:
    """Ask for a compaction in one of the ways that there are."""
    if wish == "compact":
        if isinstance(go, Asynchronous):
            await CompactionThread(graph, CONFIG).acompact()
        else:
            CompactionThread(graph, CONFIG).compact()
    elif wish == "model_calls":
        graph.update_state(CONFIG, {"compaction": {"calls": 199}}, as_node="model")
        await go.invoke(graph, said("and now?"))
    else:
        await go.invoke(graph, said("/compact" if wish == "command" else "please sum up"))


@REAL
@pytest.mark.parametrize(
    ("wish", "strategy"),
    [("compact", "sliding_window"), ("command", "sliding_window"), ("marker", "full"), ("model_calls", "full")],
)
async def test_a_wish_compacts_in_a_large_window(go: Drive, real: Any, wish: str, strategy: str) -> None:
    """10,000 tokens of 128,000 and more: the goal beside the summary takes 20 tokens and not a tenth of the room."""
    replies = ["ok", "done !!!SUMMARY!!!"] if wish == "marker" else ["ok"]
    graph = progressive(real, *replies)
    await go.invoke(graph, {"messages": talk()})
    before = CompactionThread(graph, CONFIG).preview().tokens_before
    assert 9_000 < before < 11_000
    await wished(go, graph, wish)
    (row,) = ledger(graph)
    trigger = {"compact": "manual"}.get(wish, wish)
    assert (row.trigger, row.verdict, row.strategy) == (trigger, "committed", f"progressive/{strategy}+model")
    assert (row.tokens_after or 0) < before / 5
    summary = next(message for message in values(graph)["messages"] if is_summary(message))
    assert summary.text.startswith("What the user asked for at the beginning")
    assert TOLD in summary.text


@pytest.mark.parametrize("preset", PRESETS)
def test_a_second_wish_for_all_of_it_compacts_too(preset: str) -> None:
    """1,000 tokens of 128,000; where nothing is left that is old, the answer says so."""
    graph = progressive(gpt("gpt-4o"), preset=preset)
    graph.invoke({"messages": talk()}, CONFIG)
    for full in (False, True, True):
        CompactionThread(graph, CONFIG).compact(full=full)
    assert verdicts(graph) == ["committed", "committed", "noop"]
    assert standing(graph)["last"]["verdict"] == "noop"
    assert standing(graph)["last"]["reason"] in {"nothing_old", "no_selection_fits"}


async def told(go: Drive, graph: Any, text: str) -> list[Any]:
    """Say something; what is streamed."""
    return await go.stream(graph, said(text), stream_mode=["updates", "custom"])


async def fires(go: Drive, graph: Any, count: int) -> list[int]:
    """The turns, of so many, at which a trigger fires."""
    found: list[int] = []
    for turn in range(1, count + 1):
        found += [turn] * bool(events(await told(go, graph, "x"), "PreCompactEvent"))
    return found


@pytest.mark.parametrize("unit", ["turns", "model_calls"])
async def test_a_count_that_finds_nothing_to_compact_begins_anew(go: Drive, unit: Unit) -> None:
    """It would fire at each turn from then on."""
    graph = agent(preset="progressive", triggers=(Count(unit=unit, limit=3, full=True),), context_window=128_000)
    assert await fires(go, graph, 6) == [3, 6]
    assert verdicts(graph) == ["noop", "noop"]


async def test_the_question_counts_what_key_information_takes(go: Drive) -> None:
    """What is told beforehand is about what is left afterwards, without a provider being asked."""
    graph = agent(preset="progressive", require_confirmation=True)
    await go.invoke(graph, {"messages": [HumanMessage(filler(40, "goal")), *rounds(8)[1:], HumanMessage("and now?")]})
    (asked,) = graph.get_state(CONFIG).interrupts
    foreseen = asked.value["tokens_after_about"]
    await go.invoke(graph, Command(resume=True))
    assert abs(foreseen - (ledger(graph)[-1].tokens_after or 0)) < 60
