"""Where in a turn the triggers are asked, and what they compare there, at the graph."""

from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.fakes import ScriptedModel
from tests.graph.harness import (
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
    values,
    verdicts,
)

MODES = ["updates", "custom"]
COMPACTION = ["selective_compaction", "summarize", "commit"]
PRE, POST = ["token_check", *COMPACTION, "model"], ["token_check", "model", *COMPACTION]
NEVER = ["token_check", "model"]
ALL = ("pre_input", "pre_model", "post_model", "on_overflow")


def without(*hooks: str) -> tuple[str, ...]:
    """All hooks but these."""
    return tuple(hook for hook in ALL if hook not in hooks)


async def path(go: Drive, graph: Any, given: Any) -> tuple[list[str], list[str]]:
    """Steps of a turn, and the triggers that were told."""
    chunks = await go.stream(graph, given, stream_mode=MODES)
    return steps(chunks), [event["trigger"] for event in events(chunks, "PreCompactEvent")]


@pytest.mark.parametrize(
    ("hooks", "ran", "trigger"),
    [
        (("pre_input",), PRE, ["input"]),
        (ALL, PRE, ["input"]),
        (("pre_model",), PRE, ["precheck"]),
        (("post_model",), POST, ["check"]),
        (("on_overflow",), NEVER, []),
        ((), NEVER, []),
    ],
)
async def test_each_hook_is_asked_where_the_settings_name_it(
    go: Drive, hooks: tuple[str, ...], ran: list[str], trigger: list[str]
) -> None:
    """A conversation over the trigger before its new input: whichever hook comes first compacts."""
    graph = agent(hooks=hooks)
    assert await path(go, graph, full()) == (ran, trigger)
    assert [row.trigger for row in ledger(graph)] == trigger


@pytest.mark.parametrize(
    ("before", "hooks", "trigger"),
    [
        (800, ("pre_input",), ["input"]),
        (799, ("pre_input",), []),
        (799, ("pre_input", "pre_model"), ["precheck"]),
        (800, ("pre_input", "pre_model"), ["input"]),
    ],
)
async def test_before_an_input_it_is_not_counted(
    go: Drive, before: int, hooks: tuple[str, ...], trigger: list[str]
) -> None:
    """So many tokens stand there before a message of 104: alone they reach the trigger, or do not."""
    history = [*rounds(7), HumanMessage(filler(before - 7 * 108 - 9)), AIMessage("ok")]
    graph = agent(hooks=hooks)
    _, told = await path(go, graph, {"messages": [*history, HumanMessage(filler(100))]})
    assert told == trigger


@pytest.mark.parametrize("hooked", [True, False])
async def test_an_overflow_is_ours_where_its_hook_is_set(go: Drive, hooked: bool) -> None:
    """Otherwise the provider's error goes through, and nothing has changed."""
    model = ScriptedModel(replies=[ContextOverflowError("prompt is too long"), "ok"])
    graph = agent(model, hooks=ALL if hooked else without("on_overflow"))
    given = {"messages": [*rounds(4), *said("and now?")["messages"]]}
    if hooked:
        await go.invoke(graph, given)
        assert ledger(graph)[0].trigger == "overflow"
        return
    with pytest.raises(ContextOverflowError):
        await go.invoke(graph, given)
    assert verdicts(graph) == []
    assert values(graph)["messages"] == given["messages"]
    assert standing(graph).get("overflows", 0) == 0


@pytest.mark.parametrize(("unit", "limit"), [("rounds", 5), ("messages", 9), ("events", 9)])
@pytest.mark.parametrize("operator", [">=", ">"])
async def test_counts_fire_far_below_the_trigger(go: Drive, unit: str, limit: int, operator: str) -> None:
    """Five rounds of 8 tokens with the question: `>=` is reached, `>` is not; where messages count, most is held."""
    count = {"kind": "count", "unit": unit, "limit": limit, "operator": operator}
    graph = agent(triggers=(count,), hooks=("pre_model",))
    given = {"messages": [*rounds(4, words=20), HumanMessage("and now?")]}
    ran, told = await path(go, graph, given)
    if operator == ">":
        assert (ran, told) == (NEVER, [])
        return
    assert (ran, told) == (PRE, [unit])
    left = values(graph)["messages"][:-1]
    assert ledger(graph)[0].trigger == unit
    assert len(left) < len(given["messages"])
    assert unit == "rounds" or len(left) < limit


@pytest.mark.usefixtures("unbraked")
@pytest.mark.parametrize("unit", ["turns", "model_calls"])
async def test_turns_count_from_the_last_compaction_on(go: Drive, unit: str) -> None:
    """The third input since then goes straight to the full summary, again and again."""
    count = {"kind": "count", "unit": unit, "limit": 3, "full": True}
    graph = agent(triggers=(count,), hooks=("pre_model",), facts_beside_summary=False)
    ran = [(await path(go, graph, said(filler(40, f"t{n}-"))))[0] for n in range(7)]
    assert [step == PRE for step in ran] == [False, False, True, False, False, True, False]
    assert [row.trigger for row in ledger(graph)] == [unit, unit]
    assert sum(map(is_summary, values(graph)["messages"])) == 1


@pytest.mark.parametrize("unit", ["turns", "model_calls"])
async def test_a_count_that_finds_nothing_to_compact_begins_anew(go: Drive, unit: str) -> None:
    """It would fire at each turn from then on."""
    count = {"kind": "count", "unit": unit, "limit": 3, "full": True}
    graph = agent(preset="progressive", triggers=(count,), context_window=128_000)
    fired = [bool((await path(go, graph, said("x")))[1]) for _ in range(6)]
    assert fired == [False, False, True] * 2
    assert verdicts(graph) == ["noop", "noop"]
