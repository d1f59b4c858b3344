"""Ways to use a real graph with a checkpointer. Each returns what the application saw."""

import operator
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Command, StateUpdate, interrupt

from tests.checkpoint.contract.steps import Saver
from tests.checkpoint.samples import EVERY_KIND


class State(TypedDict, total=False):
    """What the graphs of the stories hold."""

    messages: Annotated[list[AnyMessage], add_messages]
    log: Annotated[list[str], operator.add]
    number: int


@dataclass
class Run:
    """A thread on a saver, and what was seen on the way."""

    saver: Saver
    config: RunnableConfig
    durability: Any
    seen: list[Any] = field(default_factory=list[Any])

    def invoke(self, graph: Any, given: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run the graph and note the result."""
        result = graph.invoke(given, config or self.config, durability=self.durability, **options)
        if (
            isinstance(result, dict) and "__interrupt__" in result
        ):  # questions asked at the same time come in any order
            result["__interrupt__"] = sorted(result["__interrupt__"], key=lambda each: repr(each.value))
        self.seen.append(result)
        return result

    def states(self, graph: Any) -> list[Any]:
        """Return the states of the thread, newest first."""
        return list(graph.get_state_history(self.config))


def human(text: str) -> dict[str, Any]:
    """Return an input with one message, whose id is its text."""
    return {"messages": [HumanMessage(text, id=text)]}


def chat(run: Run) -> Any:
    """Turns with tool calls; messages replaced, removed and of every kind."""

    def model(state: State) -> Any:
        count, last = len(state["messages"]), state["messages"][-1]
        if isinstance(last, ToolMessage):
            return {"messages": [AIMessage(f"answer {count}", id=f"ai-{last.id}")], "number": count}
        call = {"name": "look", "args": {"at": count}, "id": f"call-{last.id}"}
        return {"messages": [AIMessage("", id=f"ai-{last.id}", tool_calls=[call])], "number": count}

    def tools(state: State) -> Any:
        [call] = state["messages"][-1].tool_calls
        return {"messages": [ToolMessage("seen", id=f"tool-{call['id']}", tool_call_id=call["id"], artifact=[1])]}

    def tidy(state: State) -> Any:
        if len(state["messages"]) < 12:
            return {}
        gone = [RemoveMessage(id=each.id) for each in state["messages"][1:5]]
        return {"messages": [*gone, HumanMessage("replaced", id=state["messages"][0].id)], "log": ["tidied"]}

    builder = StateGraph(State)
    builder.add_node("model", model)
    builder.add_node("tools", tools)
    builder.add_node("tidy", tidy)
    builder.add_edge(START, "model")
    builder.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else "tidy", ["tools", "tidy"]
    )
    builder.add_edge("tools", "model")
    builder.add_edge("tidy", END)
    graph = builder.compile(checkpointer=run.saver)
    kinds = [each for name, each in EVERY_KIND.items() if name not in {"remove", "chunk"}]
    graph.update_state(run.config, {"messages": kinds[:4]}, as_node="tidy")
    for number in range(4):
        run.invoke(graph, human(f"turn {number}"))
    graph.update_state(run.config, {"messages": kinds[4:]}, as_node="tidy")
    run.invoke(graph, human("last"))
    return graph


def questions(run: Run) -> Any:
    """Questions one after another, at the same time, and before a node; changes while they wait."""

    def ask(state: State) -> Any:
        first = interrupt({"ask": "first", "number": state.get("number")})
        return {"log": [first, interrupt("second")], "messages": [AIMessage(first, id=f"ask-{first}")]}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("also", lambda _state: {"log": [f"also {interrupt('also?')}"]})
    builder.add_node("quick", lambda _state: {"log": ["quick"]})
    builder.add_node("after", lambda state: {"number": len(state["log"])})
    for name in ("ask", "also", "quick"):
        builder.add_edge(START, name)
        builder.add_edge(name, "after")
    builder.add_edge("after", END)
    graph = builder.compile(checkpointer=run.saver, interrupt_before=["after"])
    run.invoke(graph, human("hello"))
    run.states(graph)
    ids = {
        each.value if isinstance(each.value, str) else "first": each.id
        for each in graph.get_state(run.config).interrupts
    }
    run.invoke(graph, Command(resume={ids["first"]: "A", ids["also?"]: "B"}))
    run.invoke(graph, Command(resume="C"))
    run.seen.append(graph.get_state(run.config).next)
    graph.update_state(run.config, {"log": ["changed"]}, as_node="quick")
    run.invoke(graph, None)
    run.invoke(graph, human("again"))
    run.invoke(graph, human("instead of an answer"))
    return graph


def travel(run: Run) -> Any:
    """Replays, forks from the past, several updates at once, copies."""
    builder = StateGraph(State)
    builder.add_node("one", lambda state: {"log": [f"one {len(state['log'])}"], "number": len(state["log"])})
    builder.add_node("two", lambda state: {"log": [f"two {state['number']}"], "messages": [AIMessage("x", id="x")]})
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    builder.add_edge("two", END)
    graph = builder.compile(checkpointer=run.saver)
    for number in range(3):
        run.invoke(graph, {**human(str(number)), "log": [f"input {number}"]})
    states = run.states(graph)
    run.invoke(graph, None, states[2].config)
    run.invoke(graph, {"log": ["branch"]}, states[-2].config)
    changed = {"log": ["in the past"], "messages": [HumanMessage("y", id="0")]}
    old = graph.update_state(states[1].config, changed, as_node="one")
    run.invoke(graph, None, old)
    graph.update_state(states[1].config, None, as_node="__copy__")
    graph.update_state(run.config, {"log": ["ended"]}, as_node="two")
    graph.bulk_update_state(
        run.config,
        [
            [StateUpdate({"log": ["a"]}, "one"), StateUpdate({"log": ["b"]}, "two")],
            [StateUpdate({"log": ["c"]}, "one")],
        ],
    )
    run.invoke(graph, None)
    graph.update_state(run.config, None, as_node=END)
    run.seen.append(
        [each.values.get("log") for each in graph.get_state_history(run.config, limit=3, filter={"source": "update"})]
    )
    run.seen.append([each.values.get("log") for each in graph.get_state_history(run.config, before=states[1].config)])
    return graph


def nested(run: Run) -> Any:
    """Subgraphs that share the thread, ask inside, and are looked into and changed from outside."""

    def inside(state: State) -> Any:
        return {
            "log": [f"inside {interrupt('deep?')}"],
            "messages": [AIMessage("deep", id=f"deep-{len(state['log'])}")],
        }

    inner = StateGraph(State)
    inner.add_node("first", lambda _state: {"log": ["first"]})
    inner.add_node("inside", inside)
    inner.add_edge(START, "first")
    inner.add_edge("first", "inside")
    inner.add_edge("inside", END)
    middle = StateGraph(State)
    middle.add_node("inner", inner.compile())
    middle.add_edge(START, "inner")
    middle.add_edge("inner", END)
    outer = StateGraph(State)
    outer.add_node("before", lambda _state: {"log": ["before"]})
    outer.add_node("middle", middle.compile())
    outer.add_node("after", lambda _state: {"log": ["after"]})
    outer.add_edge(START, "before")
    outer.add_edge("before", "middle")
    outer.add_edge("middle", "after")
    outer.add_edge("after", END)
    graph = outer.compile(checkpointer=run.saver)
    run.invoke(graph, {**human("one"), "log": []})
    [asked] = graph.get_state(run.config, subgraphs=True).tasks
    [deeper] = asked.state.tasks
    graph.update_state(deeper.state.config, {"log": ["from outside"]})
    run.invoke(graph, Command(resume="yes"))
    run.invoke(graph, {**human("two"), "log": []})
    waiting = next(each for each in run.states(graph) if each.next == ("middle",))
    run.invoke(graph, Command(resume="no"))
    run.invoke(graph, Command(resume="again"), waiting.config)
    return graph


def broken(run: Run) -> Any:
    """A node that fails beside one that does not, and a run that is taken up again."""
    failures = [ValueError("no"), ValueError("no again")]
    has_run = Event()

    def fail(_state: State) -> Any:
        has_run.wait(20)  # a node that has not run when another one fails is canceled
        time.sleep(0.01)
        if failures:
            raise failures.pop(0)
        return {"log": ["at last"]}

    def fine(_state: State) -> Any:
        has_run.set()
        return {"log": ["fine"], "messages": [AIMessage("fine", id="fine")]}

    builder = StateGraph(State)
    builder.add_node("fail", fail)
    builder.add_node("fine", fine)
    builder.add_node("after", lambda state: {"number": len(state["log"])})
    builder.add_edge(START, "fail")
    builder.add_edge(START, "fine")
    builder.add_edge(["fail", "fine"], "after")
    builder.add_edge("after", END)
    graph = builder.compile(checkpointer=run.saver)
    for given in (human("go"), None):
        with pytest.raises(ValueError, match="no"):
            run.invoke(graph, given)
        run.seen.append([each.error for each in graph.get_state(run.config).tasks])
    run.invoke(graph, None)
    return graph


STORIES: list[Callable[[Run], Any]] = [chat, questions, travel, nested, broken]
