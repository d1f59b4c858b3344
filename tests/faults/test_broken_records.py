"""Records that fail where the conversation depends on them: a snapshot to restore, a message to archive."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.types import Overwrite

from langgraph_compaction.graph import CompactionThread, ContextExhaustedError, MessageRefusedError
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes import Redaction
from langgraph_compaction.nodes.conversation.message_marks import marks
from langgraph_compaction.nodes.testing import ScriptedModel, failing_records, texts, usage
from tests.graph.harness import (
    CONFIG,
    Drive,
    agent,
    calm,
    events,
    filler,
    frozen,
    full,
    ledger,
    rounds,
    said,
    standing,
    steps,
    tool_block,
    values,
    verdicts,
)

HUGE = HumanMessage(filler(1_200, "huge-"), id="huge")


async def damaged(go: Drive, graph: Any, given: dict[str, Any], *, ends: int = 1) -> list[AnyMessage]:
    """Run up to a rollback and let another writer drop the first messages; return the snapshot."""
    await go.invoke(graph, given, interrupt_before=["rollback"])
    held: list[AnyMessage] = values(graph)["messages"]
    left = [*held[4 * ends :], HumanMessage("meanwhile", id="new")]
    graph.update_state(CONFIG, {"messages": Overwrite(left)}, as_node="summarize")
    return held


async def test_a_snapshot_that_cannot_be_read_is_restored_by_the_next_turn(go: Drive) -> None:
    """The turn is answered and the draft stays open, told as unrestored; then the state is the snapshot."""
    graph = agent(calm(), ScriptedModel(replies=[""]))
    held = await damaged(go, graph, full())
    with failing_records(graph, "snapshot", times=None):
        chunks = await go.stream(graph, None, stream_mode=["updates", "custom"])
    assert steps(chunks) == ["rollback", "model"]
    assert standing(graph)["draft"]["unrestored"] is True
    last, (row,), (event,) = standing(graph)["last"], ledger(graph), events(chunks, "CompactionEvent")
    assert last["restored"] is False
    told = ("failed_permanent", "restore:OSError")
    assert (
        (last["verdict"], last["reason"]) == (row.verdict, row.reason) == (event["verdict"], event["reason"]) == told
    )
    assert standing(graph).get("streak", 0) == 0
    arrived = values(graph)["messages"][-2:]
    chunks = await go.stream(graph, said("again", "next"))
    assert steps(chunks)[:3] == ["token_check", "rollback", "model"]
    now = values(graph)["messages"]
    assert frozen(now[: len(held) + 2]) == frozen([*held, *arrived])
    assert now[len(held) + 2].id == "next"
    assert standing(graph)["draft"] is None
    assert (standing(graph)["last"]["verdict"], standing(graph)["last"]["restored"]) == ("rejected_empty", True)
    assert verdicts(graph) == ["rejected_empty"]
    assert standing(graph)["streak"] == 1


async def test_a_run_that_died_is_restored_as_soon_as_it_can_be(go: Drive) -> None:
    """A draft without a failure of its own is put off and recovered in the same way."""
    graph = agent(calm(), now=iter(range(1_000, 99_000, 1_000)).__next__)
    await go.invoke(graph, full(), interrupt_before=["summarize"])
    held = values(graph)["messages"]
    graph.update_state(CONFIG, {"messages": Overwrite(held[4:])}, as_node="model")
    with failing_records(graph, "snapshot", times=None):
        chunks = await go.stream(graph, said("hello", "first"))
    assert steps(chunks) == ["token_check", "rollback", "model"]
    await go.invoke(graph, said("again", "second"))
    names = [message.id for message in held]
    assert [message.id for message in CompactionThread(graph, CONFIG).transcript()][: len(names)] == names
    assert standing(graph)["draft"] is None
    assert "recovered" in verdicts(graph)


async def test_what_follows_a_rollback_is_decided_by_what_it_restored(go: Drive) -> None:
    """Another writer had made it small; the snapshot is over the limit, and the next level takes it on."""
    model = ScriptedModel()
    graph = agent(model, ScriptedModel(replies=[""]))
    await damaged(go, graph, {"messages": [*rounds(12), HumanMessage("and now?", id="q")]}, ends=5)
    chunks = await go.stream(graph, None)
    assert steps(chunks)[:4] == ["rollback", "selective_compaction", "summarize", "commit"]
    assert verdicts(graph) == ["rejected_empty", "degraded_deterministic"]
    assert len(model.received) == 1


async def test_an_overflow_before_the_snapshot_can_be_read_restores_it_first(go: Drive) -> None:
    """The provider's refusal begins no compaction on an unrestored conversation."""
    refusal = ValueError("prompt is too long: 700 tokens > 600 maximum")
    graph = agent(ScriptedModel(replies=[refusal, usage(AIMessage("answered"), 100)]), ScriptedModel(replies=[""]))
    held = await damaged(go, graph, full())
    with failing_records(graph, "snapshot", times=1):
        chunks = await go.stream(graph, None)
    assert steps(chunks)[:6] == [
        *("rollback", "model", "selective_compaction", "rollback"),
        *("selective_compaction", "summarize"),
    ]
    assert [message.id for message in CompactionThread(graph, CONFIG).transcript()][: len(held)] == [
        message.id for message in held
    ]
    assert verdicts(graph) == ["rejected_empty", "degraded_deterministic"]
    with failing_records(graph, "snapshot", times=None):
        graph = agent(ScriptedModel(replies=[refusal]), ScriptedModel(replies=[""]))
        await damaged(go, graph, full())
        with failing_records(graph, "snapshot", times=None), pytest.raises(ContextExhaustedError):
            await go.invoke(graph, None)


@pytest.mark.parametrize("on_refusal", ["message", "raise"])
async def test_a_refused_message_that_cannot_be_archived_stays(go: Drive, on_refusal: str) -> None:
    """An error names sizes and cause; the run goes on, or the next input does, once the database works."""
    model = ScriptedModel(replies=["answered"])
    graph = agent(model, on_refusal=on_refusal)
    await go.invoke(graph, said("hello", "first"))
    with failing_records(graph, "archive", times=None), pytest.raises(MessageRefusedError, match=r"1204.*OSError"):
        await go.invoke(graph, {"messages": [HUGE.model_copy()]})
    assert values(graph)["messages"][-1] == HUGE
    assert [(row.verdict, row.reason) for row in ledger(graph)] == [("failed_permanent", "archive:OSError")]
    await go.invoke(graph, said("a short one", "short"))
    assert values(graph)["messages"][-1].text == "answered"
    assert "a short one" in texts(model.received[-1])
    assert HUGE in CompactionThread(graph, CONFIG).transcript()


def hidden(text: str) -> str:
    """The application's redaction hook."""
    return text.replace("w7", "[redacted]")


async def test_handles_lead_to_what_the_archive_holds_where_that_is_redacted(go: Drive) -> None:
    """With `store=True` the line of a refused message, and a clipped result, name the redacted originals."""
    redaction = Redaction(hook=hidden, store=True)
    graph = agent(calm(), redact=redaction, tool_blocks_keep_recent=5)
    huge = HumanMessage(filler(1_200), id="huge")
    await go.invoke(graph, {"messages": [huge]})
    recall, line = records_of(graph).recall, values(graph)["messages"][-2]
    assert recall("thread", marks(line)["handle"]) == redaction.message(huge)
    graph = agent(calm(), redact=redaction, tool_blocks_keep_recent=5)
    call, result = tool_block(1, 900)
    long = result.model_copy(update={"content": filler(900)})
    await go.invoke(graph, {"messages": [HumanMessage("go"), call, long, AIMessage("seen"), HumanMessage("next")]})
    clipped = next(message for message in values(graph)["messages"] if message.id == long.id)
    recall = records_of(graph).recall
    assert marks(clipped)["clipped"]
    assert recall("thread", marks(clipped)["handle"]) == redaction.message(long)
