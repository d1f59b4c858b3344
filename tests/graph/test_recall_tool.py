from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.messages.message_codec import handle
from langgraph_compaction.graph import CompactionThread, SettingsError
from langgraph_compaction.nodes import Redaction
from langgraph_compaction.nodes.conversation.message_marks import MARK
from langgraph_compaction.nodes.summary.recall_answer import NOTHING
from tests.fakes import ScriptedModel
from tests.graph.harness import (
    CONFIG,
    WORDS,
    Asynchronous,
    Drive,
    agent,
    filler,
    full,
    ledger,
    said,
    tool_block,
    values,
)

FACT = HumanMessage(f"My booking is ZK-4471, seat 12C. {filler(60, 'b')}", id="fact")


def compacted(**options: Any) -> Any:
    """An agent out of whose view a fact has left."""
    graph = agent(**options)
    graph.invoke({"messages": [FACT, AIMessage("noted", id="noted"), *full()["messages"]]}, CONFIG)
    assert "fact" not in [message.id for message in values(graph)["messages"]]
    return graph


async def asked(go: Drive, graph: Any, *words: str, **wanted: Any) -> str:
    """Recall, by the twin that belongs to the drive."""
    if isinstance(go, Asynchronous):
        return await CompactionThread(graph, CONFIG).arecall(*words, **wanted)
    return CompactionThread(graph, CONFIG).recall(*words, **wanted)


async def test_what_left_the_view_comes_back_in_its_words(go: Drive) -> None:
    """With its handle, who said it, and which compaction took it."""
    graph = compacted()
    found = await asked(go, graph, "booking ZK-4471")
    assert FACT.text in found
    head = found.splitlines()[0]
    assert handle(FACT) in head
    assert "human" in head
    assert ledger(graph)[0].compaction_id in head
    assert FACT.text in await asked(go, graph, handle=handle(FACT))
    assert await asked(go, graph, "xylophone") == NOTHING
    assert await asked(go, graph, handle="0" * 12) == NOTHING


async def test_an_answer_keeps_its_size(go: Drive) -> None:
    """The parts with the words asked for are what is shown."""
    graph = compacted()
    for most in (30, 60, 200, 1_000):
        found = await asked(go, graph, "seat 12C", max_tokens=most)
        assert WORDS.text(found) <= most
    for most in (26, 30, 40, 60):
        assert "12C" in await asked(go, graph, "seat 12C", max_tokens=most)


async def test_a_compaction_is_recalled_whole_or_searched(go: Drive) -> None:
    """By its id: its messages in order, or those of them that hold the words and those beside them."""
    graph = compacted()
    name = ledger(graph)[0].compaction_id
    whole = await asked(go, graph, handle=name, max_tokens=5_000)
    assert whole.index("ZK-4471") < whole.index("noted") < whole.index("ru0-0")
    searched = await asked(go, graph, "ZK-4471", handle=name, max_tokens=5_000)
    assert searched.index("ZK-4471") < searched.index("noted")
    assert "ru9-0" not in searched


async def test_a_speaker_narrows_what_is_found(go: Drive) -> None:
    """As an argument of the thread's method and of the tool."""
    graph = compacted()
    assert FACT.text in await asked(go, graph, "booking", speaker="user")
    answers = await asked(go, graph, "booking", speaker="assistant")
    assert "noted" in answers
    assert FACT.text not in answers
    call = {"name": "recall", "args": {"query": "booking", "speaker": "assistant"}, "id": "r1"}
    graph = compacted(model=ScriptedModel(replies=["first", AIMessage("", tool_calls=[call]), "done"]), recall="tool")
    await go.invoke(graph, said("what did you say?"))
    (result,) = [m for m in values(graph)["messages"] if isinstance(m, ToolMessage)]
    assert result.text == answers


def test_nothing_asked_is_an_error() -> None:
    """It says what to give."""
    with pytest.raises(SettingsError, match="'human' is none of"):
        CompactionThread(compacted(), CONFIG).recall("x", speaker="human")
    with pytest.raises(SettingsError, match="give a query"):
        CompactionThread(compacted(), CONFIG).recall("  ")
    with pytest.raises(SettingsError, match="no room"):
        CompactionThread(compacted(), CONFIG).recall("x", max_tokens=0)


async def test_without_a_thread_the_tool_says_so(go: Drive) -> None:
    """Nothing is kept, and nothing is raised through the turn."""
    call = {"name": "recall", "args": {"query": "x"}, "id": "r1"}
    graph = agent(ScriptedModel(replies=[AIMessage("", tool_calls=[call]), "done"]), recall="tool", checkpointer=None)
    result = await go.invoke(graph, said("hello"), {"configurable": {}})
    assert result["messages"][-2].text.startswith("this conversation has no thread_id")
    assert result["messages"][-2].status == "error"


@pytest.mark.parametrize("redact", [None, Redaction(hook=lambda text: text.replace("t1-7", "***"), store=True)])
def test_a_clipped_result_names_its_handle(redact: Any) -> None:
    """With `recall`, the text of the result ends with a handle, and this handle returns the whole result.

    Without `recall`, only the mark of the message contains the handle.
    """
    options: dict[str, Any] = {"tool_result_threshold": 60, "preview_tokens": 20, "tool_blocks_keep_unread": False}
    graph = agent(recall="tool", redact=redact, **options)
    given = [HumanMessage("first", id="q0"), *tool_block(1, 800), HumanMessage("go on", id="q1")]
    graph.invoke({"messages": given}, CONFIG)
    (clipped,) = [m for m in values(graph)["messages"] if m.id == "result-1"]
    name = clipped.additional_kwargs[MARK]["handle"]
    assert clipped.text.endswith(f" tokens]\n[recall: {name}]")
    assert "t1-699" in CompactionThread(graph, CONFIG).recall(handle=name, max_tokens=2_000)
    plain = agent(redact=redact, **options)
    plain.invoke({"messages": given}, CONFIG)
    (unnamed,) = [m for m in values(plain)["messages"] if m.id == "result-1"]
    assert "recall" not in unnamed.text
    assert unnamed.additional_kwargs[MARK]["handle"] == name
