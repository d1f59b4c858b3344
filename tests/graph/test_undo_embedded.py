from pathlib import Path
from typing import Annotated, Any

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
from langgraph_compaction.nodes.compaction_request import Memory
from langgraph_compaction.nodes.errors import EmbeddingError
from langgraph_compaction.nodes.state import CompactionChannel, merge
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


@pytest.fixture
def parent() -> Any:
    """A parent whose state holds its compactions."""
    return parent_of()


def test_a_parent_can_be_asked_and_its_compaction_undone(parent: Any) -> None:
    """Every message back, in order, to the byte, with the answer behind them; what had left was found meanwhile."""
    given = full()["messages"]
    parent.invoke({"messages": given}, CONFIG)
    view = values(parent)["messages"]
    assert [row.verdict for row in CompactionThread(parent, CONFIG).history()] == ["committed"]
    assert len(view) < len(given)
    assert "ru0-7" in CompactionThread(parent, CONFIG).recall("ru0-7")
    whole = CompactionThread(parent, CONFIG).transcript()
    assert whole == CompactionThread(parent, CONFIG).transcript(namespace="compact")
    assert [message.id for message in whole[:-1]] == [message.id for message in given]
    undone = CompactionThread(parent, CONFIG).undo()
    assert undone.messages == len(given) + 1
    assert frozen(values(parent)["messages"][:-1]) == frozen(given)
    parent.invoke({"messages": [("user", "and now?")]}, CONFIG)
    assert len(values(parent)["messages"]) == len(given) + 3, "it is held"


class WithoutMemory(MessagesState):
    """This state has the channel `compaction`, but not the channel `memory`."""

    compaction: Annotated[CompactionChannel, merge]


class WithoutCompaction(MessagesState):
    """This state has the channel `memory`, but not the channel `compaction`."""

    memory: Annotated[Memory, merge]


@pytest.mark.parametrize(
    ("state", "lacks"),
    [(MessagesState, "compaction"), (WithoutCompaction, "compaction"), (WithoutMemory, "memory")],
)
async def test_a_parent_that_would_forget_its_compactions_is_refused(go: Drive, state: Any, lacks: str) -> None:
    """Before anything is compacted: LangGraph drops what a node writes to channels that the state lacks."""
    parent = parent_of(state)
    with pytest.raises(EmbeddingError) as raised:
        await go.invoke(parent, full())
    assert str(raised.value) == (
        f"the state of the parent graph has no channel {lacks!r}, so that it would forget its compactions: let it "
        "inherit CompactionState (class State(CompactionState): ...). If you cannot change it, use "
        'as_node(graph, persist="subgraph") and a checkpointer'
    )


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
        with pytest.raises(CompactionError) as raised:
            call()
        assert str(raised.value) == (
            "the node 'compact' keeps its compactions apart (persist=\"subgraph\"), so that this cannot be done on "
            "the parent's thread: let the parent's state inherit CompactionState and use as_node(graph). history, "
            "show, recall and branch_from work as they are"
        )
    assert [row.verdict for row in thread.history()] == ["committed"]
    assert "ru0-7" in thread.recall("ru0-7")


GOES_ON: dict[str, tuple[Any, int]] = {
    "the end alone follows": (lambda _: None, 1),
    "an edge goes on": (lambda builder: builder.add_edge("answer", "tools"), 2),
    "an edge of a list goes on": (lambda builder: builder.add_edge(["answer"], "tools"), 2),
    "a function chooses": (lambda builder: builder.add_conditional_edges("answer", lambda _: "tools", ["tools"]), 2),
}
"""Each case adds further edges, or none, after the node `answer`, which has an edge to the end.

The number is the number of checkpoints that a change of the thread writes.
"""


@pytest.mark.parametrize("case", GOES_ON)
def test_no_node_is_due_after_a_change(case: str) -> None:
    """The thread writes a change as the output of a node that only the end follows.

    If the graph has no such node, a second checkpoint removes the nodes that would run next.
    """
    go_on, checkpoints = GOES_ON[case]
    compaction = create_compaction_graph(settings=CompactionSettings(**SMALL), token_counter=WORDS)
    builder = StateGraph(CompactionState)
    builder.add_node("compact", as_node(compaction))
    for name in ("answer", "tools"):
        builder.add_node(name, lambda _: {"messages": []})
    for source, target in ((START, "compact"), ("compact", "answer"), ("answer", END)):
        builder.add_edge(source, target)
    go_on(builder)
    parent: Any = builder.compile(checkpointer=InMemorySaver())
    parent.invoke(full(), CONFIG)
    before = len(list(parent.get_state_history(CONFIG)))
    CompactionThread(parent, CONFIG).pin(text="Never ship on Sundays.")
    newest, *_ = states = list(parent.get_state_history(CONFIG))
    assert len(states) == before + checkpoints
    assert (newest.next, newest.values["messages"][-1].text) == ((), "Never ship on Sundays.")


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_no_function_of_the_parent_chooses_a_node_for_a_change(asynchronous: bool) -> None:
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
    if asynchronous:
        await parent.ainvoke({"messages": given}, CONFIG)
        await thread.apin(text="Never ship on Sundays.")
        await thread.aundo(force=True)
        await thread.arelease()
    else:
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
