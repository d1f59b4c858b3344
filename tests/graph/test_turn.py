from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import InputTokenDetails
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Overwrite

from tests.fakes import ScriptedModel, usage
from tests.graph.harness import (
    CONFIG,
    SUMMARY,
    Drive,
    agent,
    events,
    filler,
    full,
    request_tokens,
    rounds,
    said,
    standing,
    steps,
    values,
)


async def test_the_check_after_an_answer_uses_the_real_usage(go: Drive) -> None:
    """The provider's figure decides after an answer, and a turn already answered is not answered twice."""
    model = ScriptedModel(replies=[usage(AIMessage("fine"), 900)])
    graph = agent(model)
    given = {"messages": [*rounds(6), HumanMessage("and now?")]}
    chunks = await go.stream(graph, given, stream_mode=["updates", "custom"])
    assert steps(chunks) == ["token_check", "model", "selective_compaction", "summarize", "commit"]
    (event,) = events(chunks, "PreCompactEvent")
    assert event == {"event": "PreCompactEvent", "trigger": "check", "current_tokens": 910, "threshold": 800}
    assert len(model.received) == 1


@pytest.mark.parametrize(("mode", "asked"), [("always", 1), ("if_needed", 0)])
async def test_the_summary_runs_although_selection_freed_enough(go: Drive, mode: str, asked: int) -> None:
    """By default always; the other mode asks nobody where the aim is reached without."""
    summarizer = ScriptedModel(replies=[SUMMARY])
    graph = agent(ScriptedModel(), summarizer, summary_mode=mode)
    await go.invoke(graph, full())
    last = standing(graph)["last"]
    assert last["verdict"] == "committed"
    assert last["text"] == (
        f"compacted: {last['tokens_before']} -> {last['tokens_after']} tokens; 14 messages left the view; "
        'undo with compaction_request {"undo": "last"}'
    )
    assert len(summarizer.received) == asked


@pytest.mark.parametrize(("size", "expected"), [(799, "model"), (800, "selective_compaction")])
async def test_the_trigger_itself_counts_as_reached(go: Drive, size: int, expected: str) -> None:
    """At 800 of 1,000 tokens a compaction starts; one token earlier it does not."""
    given = {"messages": [*rounds(3), HumanMessage(filler(size - 3 * 108 - 4))]}
    assert steps(await go.stream(agent(), given))[1] == expected


BEFORE = {"messages": [*rounds(2), HumanMessage("and now?")]}
ANCHOR = usage(AIMessage("fine", id="answer"), 2 * 108 + 6, 500)
"""An answer whose real usage lies far above what its text tells."""


@pytest.mark.parametrize(
    ("changed", "current"),
    [("nothing", [722 + 100]), ("model", []), ("prompt", []), ("message", []), ("earlier", []), ("order", [])],
)
async def test_usage_is_the_anchor_until_what_it_measured_changes(
    go: Drive, changed: str, current: list[int]
) -> None:
    """The next request is the last usage and what came since; another model, prompt, answer or history voids it."""
    saver = InMemorySaver()
    await go.invoke(agent(ScriptedModel(replies=[ANCHOR], name_="first"), checkpointer=saver), BEFORE)
    model = ScriptedModel(name_="second" if changed == "model" else "first")
    later = agent(model, checkpointer=saver, system_prompt="be brief" if changed == "prompt" else None)
    if changed == "message":
        later.update_state(CONFIG, {"messages": [AIMessage("edited", id="answer")]})
    if changed == "earlier":
        later.update_state(CONFIG, {"messages": [HumanMessage("edited", id="r-user-0")]})
    if changed == "order":
        first, *others, answer = values(later)["messages"]
        later.update_state(CONFIG, {"messages": Overwrite([*others, first, answer])})
    chunks = await go.stream(later, said(filler(96)), stream_mode=["updates", "custom"])
    assert [event["current_tokens"] for event in events(chunks, "PreCompactEvent")][:1] == current


@pytest.mark.parametrize(
    ("sent", "written", "details", "used"),
    [
        (150, 10, {"cache_read": 700}, False),  # what was read from the cache is left out
        (250, 10, {"cache_creation": 220}, False),
        (5_000, 900, {}, False),  # of the whole session
        (-300, 10, {}, False),
        (900, -5, {}, False),
        (900, 10, {"cache_read": -600}, False),
        (0, 10, {}, False),
        (450, 1, {"cache_read": 440}, True),
        (600, 1, {"cache_read": 400, "cache_creation": 200}, True),
    ],
)
async def test_a_usage_that_cannot_be_that_of_the_request_is_not_used(
    go: Drive, sent: int, written: int, details: dict[str, int], *, used: bool
) -> None:
    """The next request is measured by our own count, as if the provider had reported nothing."""
    answer = usage(AIMessage("fine"), sent, written)
    assert answer.usage_metadata
    answer.usage_metadata["input_token_details"] = InputTokenDetails(**details)
    graph = agent(ScriptedModel(replies=[answer, "more"]))
    await go.invoke(graph, {"messages": [*rounds(4), HumanMessage("and now?")]})
    chunks = await go.stream(graph, said(filler(400)), stream_mode=["updates", "custom"])
    assert (events(chunks, "PreCompactEvent")[0]["current_tokens"] != 4 * 108 + 6 + 5 + 404) == used


async def test_a_smaller_model_compacts_before_its_first_call(go: Drive) -> None:
    """The window follows the model of this call: a switch to a smaller one compacts first."""
    small = ScriptedModel(profile_window=400, name_="small")
    large = ScriptedModel(profile_window=2_000, name_="large")

    def choose(state: dict[str, Any], _: Any) -> ScriptedModel:
        return small if "small" in state["messages"][-1].text else large

    graph = agent(choose, context_window=None)
    await go.invoke(graph, {"messages": [*rounds(8), HumanMessage("go on")]})
    assert "selective_compaction" in steps(await go.stream(graph, said("now small")))
    assert len(small.received) == 1
    assert request_tokens(small.received[0]) <= 400
