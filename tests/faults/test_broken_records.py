"""Records that fail where an input depends on them: what is refused is archived first."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.graph import CompactionThread, MessageRefusedError
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes import Redaction
from langgraph_compaction.nodes.conversation.message_marks import marks
from langgraph_compaction.nodes.testing import ScriptedModel, failing_records, texts
from tests.graph.harness import (
    CONFIG,
    Drive,
    agent,
    calm,
    filler,
    ledger,
    said,
    tool_block,
    values,
)

HUGE = HumanMessage(filler(1_200, "huge-"), id="huge")


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
