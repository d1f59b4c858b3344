from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import (
    CompactionError,
    CompactionSettings,
    CompactionState,
    CompactionThread,
    SettingsError,
    as_node,
    create_compaction_graph,
)
from langgraph_compaction.nodes.errors import EmbeddingError
from tests.graph.harness import CONFIG, SMALL, WORDS, Drive, frozen, full, values


def parent_of(
    state: Any = CompactionState, checkpointer: Any = None, *, persist: Any = "parent", **given: Any
) -> Any:
    """A graph of an application's own, with the compaction before its model."""
    compaction = create_compaction_graph(settings=CompactionSettings(**SMALL), token_counter=WORDS, **given)
    builder = StateGraph(state)
    builder.add_node("compact", as_node(compaction, persist=persist))
    builder.add_node("answer", lambda _: {"messages": [AIMessage("noted")]})
    builder.add_edge(START, "compact")
    builder.add_edge("compact", "answer")
    return builder.compile(checkpointer=checkpointer or InMemorySaver())


def test_a_parent_can_be_asked_and_its_compaction_undone() -> None:
    """Every message back, in order, to the byte, with the answer behind them; what had left was found meanwhile."""
    parent, given = parent_of(), full()["messages"]
    parent.invoke({"messages": given}, CONFIG)
    view, thread = values(parent)["messages"], CompactionThread(parent, CONFIG)
    assert [row.verdict for row in thread.history()] == ["committed"]
    assert len(view) < len(given)
    assert "ru0-7" in thread.recall("ru0-7")
    assert [message.id for message in thread.transcript()[:-1]] == [message.id for message in given]
    assert thread.undo().messages == len(given) + 1
    assert frozen(values(parent)["messages"][:-1]) == frozen(given)
    parent.invoke({"messages": [("user", "and now?")]}, CONFIG)
    assert len(values(parent)["messages"]) == len(given) + 3, "it is held"


async def test_a_parent_that_would_forget_its_compactions_is_refused(go: Drive) -> None:
    """Before anything is compacted: LangGraph drops what a node writes to channels that the state lacks."""
    with pytest.raises(EmbeddingError, match=r"has no channel 'compaction'.* let it inherit CompactionState"):
        await go.invoke(parent_of(MessagesState), full())


def test_a_parent_with_a_database_of_its_own_needs_one_for_its_compactions(tmp_path: Path) -> None:
    """Its threads would outlive their snapshots; memory has to be asked for."""
    with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'parent.db'}") as saver:
        saver.setup()
        with pytest.raises(SettingsError, match=r"database=saver\.database"):
            parent_of(checkpointer=saver).invoke(full(), CONFIG)
        for database in ("memory", saver.database):
            parent = parent_of(checkpointer=saver, database=database)
            config: Any = {"configurable": {"thread_id": str(database)}}
            parent.invoke(full(), config)
            assert [row.verdict for row in CompactionThread(parent, config).history()] == ["committed"]


def test_what_a_parent_cannot_do_without_the_channels_says_so() -> None:
    """Undo, a compaction on request and the transcript need the state; the ledger and the archive do not."""
    parent = parent_of(MessagesState, persist="subgraph")
    parent.invoke(full(), CONFIG)
    thread = CompactionThread(parent, CONFIG)
    for call in (thread.undo, thread.compact, thread.transcript):
        with pytest.raises(CompactionError, match="let the parent's state inherit CompactionState"):
            call()
    assert [row.verdict for row in thread.history()] == ["committed"]
    assert "ru0-7" in thread.recall("ru0-7")


def test_no_node_of_the_parent_is_due_after_a_change() -> None:
    """A change of the thread does not call the parent's routing functions, which expect a running turn."""
    seen: list[str] = []

    def route(state: CompactionState) -> str:
        last = state["messages"][-1]
        seen.append(last.type)
        return "tools" if last.tool_calls else END  # type: ignore[union-attr] # as users write it

    def onward(state: CompactionState) -> str:
        seen.append(state["messages"][-1].type)
        return "call_model"

    compaction = create_compaction_graph(settings=CompactionSettings(**SMALL), token_counter=WORDS)
    builder = StateGraph(CompactionState)
    builder.add_node("compact", as_node(compaction))
    builder.add_node("call_model", lambda _: {"messages": [AIMessage("noted")]})
    builder.add_node("tools", lambda _: {"messages": []})
    builder.add_edge(START, "compact")
    builder.add_conditional_edges("compact", onward)
    builder.add_conditional_edges("call_model", route)
    builder.add_edge("tools", "compact")
    parent = builder.compile(checkpointer=InMemorySaver())
    given = full()["messages"]
    thread = CompactionThread(parent, CONFIG)
    parent.invoke({"messages": given}, CONFIG)
    thread.pin(text="Never ship on Sundays.")
    thread.undo(force=True)
    thread.release()
    assert seen == ["human", "ai"]
    assert parent.get_state(CONFIG).next == ()
    assert [row.verdict for row in thread.history()] == ["committed", "undone"]
    held = values(parent)["messages"]
    assert frozen(held[: len(given)]) == frozen(given)
    assert [message.text for message in held[len(given) :]] == ["noted", "Never ship on Sundays."]
    parent.invoke({"messages": [("user", "and now?")]}, CONFIG)
    assert seen == ["human", "ai"] * 2
    assert values(parent)["messages"][-1].text == "noted"
