"""What a thread waits for is not abandoned by an operation on the thread, nor by an input that asks for one."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from langgraph_compaction.graph import (
    CompactionError,
    CompactionSettings,
    CompactionState,
    CompactionThread,
    RequestError,
    create_compaction_graph,
    view,
)
from langgraph_compaction.graph.middleware import one_run_at_a_time
from tests.fakes import ScriptedModel, calls
from tests.graph.harness import CONFIG, Drive, agent, rounds, said, values, verdicts
from tests.graph.middleware.agents import agent as middleware_agent

APPROVE = Command(resume={"decisions": [{"type": "approve"}]})
CHANGES: dict[str, Callable[[CompactionThread], Any]] = {
    "compact": lambda thread: thread.compact(),
    "undo": lambda thread: thread.undo(force=True),
    "release": lambda thread: thread.release(),
    "pin": lambda thread: thread.pin(text="no"),
    "unpin": lambda thread: thread.unpin(text="no"),
}


def pay() -> str:
    """Pay."""
    return "paid"


def ask() -> str:
    """Ask, then pay."""
    return f"paid after {interrupt('may I?')['decisions'][0]['type']}"


def model(tool: str) -> ScriptedModel:
    """Return a model that calls the tool once."""
    return ScriptedModel(replies=[calls((tool, {})), "done"])


def approved_call() -> Any:
    """LangChain's agent, in which a person approves each call."""
    return middleware_agent(model("pay"), tools=[pay], others=[HumanInTheLoopMiddleware({"pay": True})])


def parent_with_subgraph() -> Any:
    """A graph that compacts its own messages, and whose subgraph asks before it runs tools."""
    inside = StateGraph(CompactionState)
    inside.add_node("approve", lambda _: interrupt("may I?") and None)
    inside.add_node("run", ToolNode([pay]))
    inside.add_edge(START, "approve")
    inside.add_edge("approve", "run")
    called = model("pay")
    parent = StateGraph(CompactionState)
    parent.add_node("compact", create_compaction_graph(settings=CompactionSettings(context_window=10_000)))
    parent.add_node("model", lambda state: {"messages": [called.invoke(view(state))]})
    parent.add_node("work", inside.compile())
    parent.add_edge(START, "compact")
    parent.add_edge("compact", "model")
    parent.add_conditional_edges("model", tools_condition, {"tools": "work", "__end__": "__end__"})
    parent.add_edge("work", "compact")
    return parent.compile(checkpointer=InMemorySaver())


BUILDS: dict[str, Callable[[], Any]] = {
    "a call to approve": approved_call,
    "a tool that asks": lambda: agent(model("ask"), tools=[ask]),
    "a subgraph that asks": parent_with_subgraph,
}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("change", CHANGES)
def test_no_operation_abandons_a_question(build: str, change: str) -> None:
    """It raises an error that says what to do, and the answer still reaches what waits for it."""
    graph = BUILDS[build]()
    assert graph.invoke({"messages": [*rounds(4), *said("go")["messages"]]}, CONFIG)["__interrupt__"]
    with pytest.raises(CompactionError, match=r"Command\(resume=...\)"):
        CHANGES[change](CompactionThread(graph, CONFIG))
    assert graph.get_state(CONFIG).interrupts
    answered = graph.invoke(APPROVE, CONFIG)["messages"]
    assert (answered[-2].text[:4], answered[-1].text) == ("paid", "done")


@pytest.mark.parametrize("build", BUILDS)
async def test_no_request_of_an_input_abandons_a_question(go: Drive, build: str) -> None:
    """Where runs take turns, the run does not begin, unless the request says that it may."""
    graph = one_run_at_a_time(BUILDS[build]())
    await go.invoke(graph, {"messages": [*rounds(4), *said("go")["messages"]]})
    with pytest.raises(RequestError, match='"abandon": true'):
        await go.invoke(graph, {"messages": [], "compaction_request": {}})
    assert graph.get_state(CONFIG).interrupts
    await go.invoke(graph, APPROVE)
    assert values(graph)["messages"][-1].text == "done"


@pytest.mark.parametrize("build", BUILDS)
async def test_a_request_that_may_abandon_a_question_is_fulfilled(go: Drive, build: str) -> None:
    """The person who asks has said so."""
    graph = BUILDS[build]()
    await go.invoke(graph, {"messages": [*rounds(4), *said("go")["messages"]]})
    await go.invoke(graph, {"messages": [], "compaction_request": {"full": True, "abandon": True}})
    assert verdicts(graph) == ["committed"]
    assert not graph.get_state(CONFIG).interrupts


@pytest.mark.parametrize("build", ["a call to approve", "a subgraph that asks"])
async def test_a_question_that_a_run_has_left_can_be_answered_where_it_was_asked(go: Drive, build: str) -> None:
    """Where runs take no turns, LangGraph stores the input first; the run does nothing and says where to go on."""
    graph = BUILDS[build]()
    await go.invoke(graph, {"messages": [*rounds(4), *said("go")["messages"]]})
    asked = graph.get_state(CONFIG).config
    with pytest.raises(RequestError, match="resume the checkpoint before this input"):
        await go.invoke(graph, {"messages": [], "compaction_request": {}})
    assert verdicts(graph) == []
    await go.invoke(graph, APPROVE, asked)
    assert values(graph)["messages"][-1].text == "done"


def test_a_request_waits_for_no_turn_that_merely_died() -> None:
    """Nobody has to answer anything: the request is fulfilled."""
    graph = agent()
    graph.invoke({"messages": [*rounds(4), *said("go")["messages"]]}, CONFIG, interrupt_before=["model"])
    graph.invoke({"messages": [], "compaction_request": {"full": True}}, CONFIG)
    assert verdicts(graph) == ["committed"]


class Ending(InMemorySaver):
    """A checkpointer whose process ends after so many checkpoints."""

    left = 99

    def put(self, *given: Any) -> Any:
        """Write a checkpoint, or raise an error."""
        self.left -= 1
        if self.left < 0:
            raise ConnectionError("the process ends")
        return super().put(*given)


def test_a_thread_whose_last_node_is_in_no_checkpoint_is_left_alone() -> None:
    """The node's writes are stored, so that LangGraph names no next node, and the turn still has to go on."""
    saver = Ending()
    graph = agent(checkpointer=saver)
    saver.left = 2
    with pytest.raises(ConnectionError):
        graph.invoke(said("go"), CONFIG, durability="sync")
    saver.left = 99
    with pytest.raises(CompactionError, match=r"work to go on with \(token_check\)"):
        CompactionThread(graph, CONFIG).pin(text="no")
    graph.invoke(None, CONFIG)
    assert values(graph)["messages"][-1].text == "ok"
