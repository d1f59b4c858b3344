from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, LedgerRow
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.messages.message_codec import (
    fingerprint_all,
)
from langgraph_compaction.graph import (
    CompactionSettings,
    CompactionState,
    CompactionThread,
    as_node,
    create_compaction_graph,
)
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes import RequestError
from langgraph_compaction.nodes.token_check import FORGOTTEN
from tests.fakes import ScriptedModel
from tests.graph.harness import (
    CONFIG,
    SMALL,
    SUMMARY,
    THREAD,
    WORDS,
    Clock,
    Drive,
    agent,
    calm,
    events,
    filler,
    frozen,
    full,
    ledger,
    request_tokens,
    said,
    standing,
    steps,
    tool_block,
    values,
    verdicts,
)


def wish(**request: Any) -> dict[str, Any]:
    """The input of a run by which a person asks for something."""
    return {"messages": [], "compaction_request": request}


@pytest.mark.parametrize("named", [True, False])
async def test_a_run_takes_a_compaction_back(go: Drive, named: bool) -> None:
    """For who has only the server: the state is the one that `undo` leaves, and no model is called."""
    model, clock = calm(), Clock()
    by_hand, by_run = agent(calm(), now=clock), agent(model, now=clock)
    for graph in (by_hand, by_run):
        await go.invoke(graph, full())
    CompactionThread(by_hand, CONFIG).undo(force=True)
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
    undone = ledger(by_run)[-1]  # counted alike: the model reported a usage of its own
    assert (told["tokens_before"], told["tokens_after"]) == (undone.tokens_before, undone.tokens_after)
    assert told["tokens_before"] < told["tokens_after"]
    assert (undone.level, undone.attempt) == (0, 0)  # an undo has one level and is tried once
    (replaced,) = events(chunks, "ContextEvent")
    assert replaced["event_type"] == "CONVERSATION_REPLACED"
    await go.invoke(by_run, said("held"))
    assert standing(by_run)["epoch"] == 1
    chunks = await go.stream(by_run, wish(release=True), stream_mode=["updates", "custom"])
    assert [event["held"] for event in events(chunks, "ReleaseEvent")] == [True]
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
        ({"undo": "0" * 16, "force": True}, "nothing_to_undo", "the ids are "),
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
    last = standing(graph)["last"]
    assert (last["verdict"], last["reason"], last["strategy"]) == ("noop", reason, "undo")
    assert last["tokens_after"] == last["tokens_before"]
    assert "id" not in last
    assert told in standing(graph)["last"]["detail"]
    (event,) = events(chunks, "CompactionEvent")
    assert (event["verdict"], event["reason"], told in event["detail"]) == ("noop", reason, True)
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
    with pytest.raises(RequestError, match='"abandon": true'):
        graph.invoke(wish(undo="last", force=True), CONFIG)
    assert verdicts(graph) == ["committed"]
    done = graph.invoke(wish(undo="last", force=True, abandon=True), CONFIG)
    assert done["compaction"]["last"]["verdict"] == "undone"


async def test_a_broken_database_undoes_nothing(go: Drive) -> None:
    """The run ends well, says what failed, and can be asked again once the database works."""
    database = Database.open("memory")
    graph = agent(database=database)
    await go.invoke(graph, full())
    before = values(graph)["messages"]
    rename(database, tables.snapshot.name, "away")
    await go.invoke(graph, wish(undo="last", force=True))
    assert values(graph)["messages"] == before
    last = standing(graph)["last"]
    assert (last["verdict"], last["reason"]) == ("failed_permanent", "undo:DatabaseError")
    rename(database, "away", tables.snapshot.name)
    await go.invoke(graph, wish(undo="last", force=True))
    assert standing(graph)["last"]["verdict"] == "undone"


def rename(database: Database, old: str, new: str) -> None:
    """Take a table away, or give it back."""
    with database.engine.begin() as conn:
        conn.execute(sa.text(f"ALTER TABLE {old} RENAME TO {new}"))


async def test_over_the_limit_a_run_can_be_forced(go: Drive) -> None:
    """What another run left open is closed: its draft was made for a conversation that is no more."""
    graph = agent()
    await go.invoke(graph, full(filler(200)))
    opening: dict[str, Any] = {"parent_id": None, "checkpoint_id": None, "epoch": 1, "trigger": "precheck"}
    opening |= {"strategy": "died", "tokens_before": 900, "counter": "words"}
    key = AttemptKey(THREAD, "", fingerprint_all(values(graph)["messages"]), 0, 0)
    records_of(graph).begin(key, values(graph)["messages"], now=1.0, **opening)
    await go.invoke(graph, wish(undo="last", force=True))
    assert standing(graph)["last"]["verdict"] == "undone"
    assert request_tokens(values(graph)["messages"]) > 1_000
    assert verdicts(graph) == ["committed", "abandoned", "undone"]


async def test_inside_another_graph_nothing_is_taken_back(go: Drive) -> None:
    """The messages are the parent's: it is told how they are brought back."""
    settings = CompactionSettings(**SMALL)
    inner = create_compaction_graph(
        settings=settings, database="memory", token_counter=WORDS, summarizer=ScriptedModel(replies=[SUMMARY])
    )
    builder = StateGraph(CompactionState)
    builder.add_node("compact", as_node(inner))
    builder.add_edge(START, "compact")
    parent = builder.compile(checkpointer=InMemorySaver())
    await go.invoke(parent, full())
    before = values(parent)["messages"]
    assert standing(parent)["epoch"] == 1
    await go.invoke(parent, wish(undo="last", force=True))
    assert (values(parent)["messages"], standing(parent)["last"]["reason"]) == (before, "embedded")


async def test_what_is_said_along_with_an_undo_is_answered_next(go: Drive) -> None:
    """The message stays behind what stands again; the run that undoes calls no model."""
    model = calm()
    graph = agent(model)
    await go.invoke(graph, full())
    calls = len(model.received)
    await go.invoke(graph, {**wish(undo="last", force=True), **said("along", "along")})
    assert values(graph)["messages"][-1].id == "along"
    assert standing(graph)["last"]["verdict"] == "undone"
    assert len(model.received) == calls
    await go.invoke(graph, said("next", "next"))
    assert [message.text for message in model.received[-1]][-2:] == ["along", "next"]
