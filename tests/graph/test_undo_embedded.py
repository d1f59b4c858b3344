from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langgraph_compaction.graph import (
    CompactionSettings,
    CompactionState,
    CompactionThread,
    as_node,
    create_compaction_graph,
)
from tests.graph.harness import CONFIG, SMALL, WORDS, frozen, full, values


@pytest.fixture
def parent() -> Any:
    """A graph of an application's own, with the compaction before its model."""
    compaction = create_compaction_graph(settings=CompactionSettings(**SMALL), token_counter=WORDS)
    builder = StateGraph(CompactionState)
    builder.add_node("compact", as_node(compaction))
    builder.add_node("answer", lambda _: {"messages": [AIMessage("noted")]})
    builder.add_edge(START, "compact")
    builder.add_edge("compact", "answer")
    return builder.compile(checkpointer=InMemorySaver())


def test_a_parent_can_be_asked_and_its_compaction_undone(parent: Any) -> None:
    """Every message back, in order, to the byte, with the answer behind them; what had left was found meanwhile."""
    given = full()["messages"]
    parent.invoke({"messages": given}, CONFIG)
    view = values(parent)["messages"]
    assert [row.verdict for row in CompactionThread(parent, CONFIG).history()] == ["committed"]
    assert len(view) < len(given)
    assert "ru0-7" in CompactionThread(parent, CONFIG).recall("ru0-7")
    whole = CompactionThread(parent, CONFIG).transcript(namespace="compact")
    assert [message.id for message in whole[:-1]] == [message.id for message in given]
    undone = CompactionThread(parent, CONFIG).undo()
    assert undone.messages == len(given) + 1
    assert frozen(values(parent)["messages"][:-1]) == frozen(given)
    parent.invoke({"messages": [("user", "and now?")]}, CONFIG)
    assert len(values(parent)["messages"]) == len(given) + 3, "it is held"
