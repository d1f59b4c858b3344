from dataclasses import replace
from typing import Any

import pytest

from langgraph_compaction.checkpoint import LedgerRow
from langgraph_compaction.graph import undo
from langgraph_compaction.nodes.token_check import FORGOTTEN
from tests.graph.harness import (
    CONFIG,
    Clock,
    Drive,
    agent,
    calm,
    events,
    filler,
    frozen,
    full,
    ledger,
    said,
    standing,
    steps,
    tool_block,
    values,
    verdicts,
)


def wish(**request: Any) -> dict[str, Any]:
    """The input of a run by which a person asks for something."""
    return {"messages": [], "compaction": {"request": request}}


@pytest.mark.parametrize("named", [True, False])
async def test_a_run_takes_a_compaction_back(go: Drive, named: bool) -> None:
    """For who has only the server: the state is the one that `undo` leaves, and no model is called."""
    model, clock = calm(), Clock()
    by_hand, by_run = agent(calm(), now=clock), agent(model, now=clock)
    for graph in (by_hand, by_run):
        await go.invoke(graph, full())
    undo(by_hand, CONFIG, force=True)
    head, calls = standing(by_run)["head"], len(model.received)
    chunks = await go.stream(
        by_run, wish(undo=head if named else "last", force=True), stream_mode=["updates", "custom"]
    )
    assert steps(chunks) == ["token_check"]
    assert len(model.received) == calls
    assert frozen(values(by_run)["messages"]) == frozen(values(by_hand)["messages"])
    of_the_run = {"turns": 2, "overflows": 0, **FORGOTTEN}
    assert standing(by_run) == {**standing(by_hand), **of_the_run}
    assert [without_checkpoint(row) for row in ledger(by_run)] == [without_checkpoint(row) for row in ledger(by_hand)]
    assert verdicts(by_run) == ["committed", "undone"]
    (told,) = events(chunks, "CompactionEvent")
    assert (told["verdict"], told["strategy"], told["compaction_id"]) == ("undone", "undo", head)
    assert told["tokens_before"] < told["tokens_after"]
    await go.invoke(by_run, said("held"))
    assert standing(by_run)["epoch"] == 1
    await go.invoke(by_run, wish(release=True))
    assert not standing(by_run)["held"]
    await go.invoke(by_run, said(filler(720)))
    assert standing(by_run)["epoch"] == 2


def without_checkpoint(row: LedgerRow) -> LedgerRow:
    """A row of the ledger, alike on two threads where all was alike."""
    return replace(row, checkpoint_id=None)


@pytest.mark.parametrize(
    ("request_", "reason", "told"),
    [
        ({"undo": "last"}, "over_limit", '"force": true undoes it all the same'),
        ({"undo": "0" * 16, "force": True}, "nothing_to_undo", "it rests on "),
    ],
)
async def test_a_run_that_takes_nothing_back_says_why(
    go: Drive, request_: dict[str, Any], reason: str, told: str
) -> None:
    """In the state and as an event; the conversation stays, and the next input is answered."""
    graph = agent()
    await go.invoke(graph, {"messages": [*full(filler(200))["messages"]]})
    before = values(graph)["messages"]
    chunks = await go.stream(graph, wish(**request_), stream_mode=["updates", "custom"])
    assert steps(chunks) == ["token_check"]
    assert values(graph)["messages"] == before
    assert {**standing(graph)["last"], "detail": ""} == {"verdict": "noop", "reason": reason, "detail": ""}
    assert told in standing(graph)["last"]["detail"]
    assert [(one["verdict"], one["reason"]) for one in events(chunks, "CompactionEvent")] == [("noop", reason)]
    assert verdicts(graph) == ["committed"]
    await go.invoke(graph, said("next"))
    assert values(graph)["messages"][-1].type == "ai"


async def test_nothing_is_taken_back_without_a_thread_or_under_open_calls() -> None:
    """There is nothing kept; and results would find their calls gone."""
    threadless = agent(checkpointer=None).invoke(wish(undo="last"), {"configurable": {}})
    assert threadless["compaction"]["last"]["reason"] == "no_thread"
    graph = agent()
    graph.invoke(full(), CONFIG)
    graph.update_state(CONFIG, {"messages": tool_block(1, 5)[:1]}, as_node="token_check")
    assert graph.invoke(wish(undo="last", force=True), CONFIG)["compaction"]["last"]["reason"] == "calls_open"
    assert verdicts(graph) == ["committed"]
