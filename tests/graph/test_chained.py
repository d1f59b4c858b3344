import json
import re
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.checkpoint.messages.message_codec import handle
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.state import messages_in_view
from tests import fakes
from tests.fakes import ScriptedModel, texts
from tests.graph.harness import CONFIG, Drive, agent, filler, frozen, full, request_tokens, said, standing, values

copying = fakes.copying(r"SENTINEL-\d+")
"""A summarizer that keeps every sentinel it is shown and nothing else."""


def summaries(messages: list[Any]) -> list[AnyMessage]:
    """The summaries among messages."""
    return [message for message in messages if is_summary(message)]


async def test_facts_survive_three_compactions_in_one_summary(go: Drive) -> None:
    """Each compaction absorbs the summary before it, and what one kept the next does not lose."""
    model, summarizer = ScriptedModel(), ScriptedModel(replies=[copying])
    graph = agent(model, summarizer)
    spoken: list[str] = []
    while standing_epoch(graph) < 4:
        turn = len(spoken)
        spoken.append(f"SENTINEL-{turn} {filler(100, f'turn{turn}-')}")
        await go.invoke(graph, said(spoken[-1], f"user-{turn}"))
        held = values(graph)["messages"]
        assert len(summaries(held)) == min(1, standing_epoch(graph))
        whole = CompactionThread(graph, CONFIG).transcript()
        assert [message.text for message in whole if isinstance(message, HumanMessage)] == spoken
        assert [message.type for message in whole] == ["human", "ai"] * len(spoken)
    found = re.findall(r"SENTINEL-\d+", texts(model.received[-1]))
    assert sorted(set(found)) == sorted(f"SENTINEL-{n}" for n in range(len(spoken)))


def standing_epoch(graph: Any) -> int:
    """Commits so far; 0 before the first turn."""
    return int((values(graph).get("compaction") or {}).get("epoch", 0))


async def test_the_transcript_has_the_originals_byte_for_byte(go: Drive) -> None:
    """What left the view comes back as it was given: ids, metadata and order."""
    graph, given = agent(), full()
    given["messages"][1] = AIMessage("seen", id="r-answer-0", response_metadata={"a": {"b": [1]}}, name="ann")
    await go.invoke(graph, given)
    assert standing(graph)["epoch"] == 1
    assert frozen(CompactionThread(graph, CONFIG).transcript()[:-1]) == frozen(given["messages"])
    assert all(records_of(graph).recall("thread", name) for name in handles(graph))


def handles(graph: Any) -> list[str]:
    """Handles of all that a thread's compactions archived."""
    held = {message.id for message in values(graph)["messages"]}
    found = [handle(message) for message in CompactionThread(graph, CONFIG).transcript() if message.id not in held]
    assert found
    return found


def test_state_stays_small_over_three_hundred_turns() -> None:
    """However long a thread grows, what compaction keeps in its state stays under two kilobytes.

    Beside that there are six bytes for each hidden message.
    """
    replies = (["<summary>gist of all this</summary>"] * 3 + [""] * 3) * 50
    summarizer = ScriptedModel(replies=replies)
    graph = agent(ScriptedModel(replies=[filler(60)]), summarizer, checkpointer=None)
    state: dict[str, Any] = {"messages": [HumanMessage(filler(700, "第一个愿望"))]}
    for turn in range(300):
        state["messages"] = [*state["messages"], HumanMessage(filler(100, f"t{turn}-"))]
        state = graph.invoke(state)
    assert state["compaction"]["turns"] == 300
    assert state["compaction"]["epoch"] > 50
    assert len(json.dumps(state["compaction"], ensure_ascii=False).encode()) < 2_048
    view, seen = state["compaction_view"], messages_in_view(state)
    assert len(view["hidden"]) == 6 * (len(state["messages"]) - len(seen) + 1)
    assert view["shortened"] == {}
    assert request_tokens(seen) <= 1_000
