"""Databases of LangGraph's own savers, filled by real graphs, for the tests that import them."""

import operator
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

from tests.conftest import server_database

Saver = BaseCheckpointSaver[Any]


@contextmanager
def sqlite_saver(url: str) -> Iterator[SqliteSaver]:
    """Open an SQLite file with the official saver."""
    with SqliteSaver.from_conn_string(url.removeprefix("sqlite:///")) as saver:
        yield saver


@contextmanager
def postgres_saver(url: str) -> Iterator[PostgresSaver]:
    """Open a PostgreSQL database with the official saver."""
    with PostgresSaver.from_conn_string(url.replace("postgresql+psycopg", "postgresql")) as saver:
        saver.setup()
        yield saver


OFFICIAL: dict[str, Callable[[str], AbstractContextManager[Saver]]] = {
    "sqlite": sqlite_saver,
    "postgresql": postgres_saver,
}


def config(thread_id: str, **more: str) -> dict[str, Any]:
    """Return the config of a thread."""
    return {"configurable": {"thread_id": thread_id, **more}}


def agent() -> Any:
    """Build a graph of a model and a tool, in which LangGraph gives messages their ids."""
    numbers = count()

    def model(state: MessagesState) -> dict[str, Any]:
        number = next(numbers)
        if state["messages"][-1].type == "human":
            return {
                "messages": [AIMessage("", tool_calls=[{"name": "look", "args": {"n": number}, "id": f"c{number}"}])]
            }
        return {"messages": [AIMessage(f"answer {number} " * 20)]}

    def tools(state: MessagesState) -> dict[str, Any]:
        (call,) = state["messages"][-1].tool_calls
        return {"messages": [ToolMessage(f"found {call['args']} " * 20, tool_call_id=call["id"])]}

    def route(state: MessagesState) -> str:
        return "tools" if state["messages"][-1].tool_calls else END

    builder = StateGraph(MessagesState).add_node("model", model).add_node("tools", tools)
    return builder.add_edge(START, "model").add_conditional_edges("model", route).add_edge("tools", "model")


def asking() -> Any:
    """Build a graph whose subgraph interrupts to ask a person."""

    def ask(state: MessagesState) -> dict[str, Any]:
        return {
            "messages": [AIMessage(f"approved: {interrupt({'question': 'go on?', 'for': len(state['messages'])})}")]
        }

    inner = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile()
    return StateGraph(MessagesState).add_node("inner", inner).add_edge(START, "inner")


class Tally(TypedDict):
    """Numbers, and the results of the tasks for them."""

    numbers: list[int]
    squares: Annotated[list[int], operator.add]
    note: str | None


def fanning() -> Any:
    """Build a graph that sends a task for every number."""

    def square(number: int) -> dict[str, Any]:
        return {"squares": [number * number]}

    def spread(state: Tally) -> list[Send]:
        return [Send("square", number) for number in state["numbers"]]

    builder = StateGraph(Tally).add_node("plan", lambda _: {"note": "planned"}).add_node("square", square)
    return builder.add_edge(START, "plan").add_conditional_edges("plan", spread, ["square"])


def _appended(state: Sequence[Any], writes: Sequence[Any]) -> list[Any]:
    messages = list(state or [])
    for write in writes:
        messages = add_messages(messages, write)
    return messages


class DeltaState(TypedDict):
    """Messages in a delta channel, which only some checkpoints hold."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_appended, snapshot_frequency=5)]


def delta() -> Any:
    """Build a graph with a delta channel."""

    def answer(state: DeltaState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"answer to {state['messages'][-1].text}", id=f"a{len(state['messages'])}")]}

    return StateGraph(DeltaState).add_node("answer", answer).add_edge(START, "answer")


def failing() -> Any:
    """Build a graph with a failing node parallel to a working one."""

    def broken(_: Tally) -> dict[str, Any]:
        raise RuntimeError("broken for good")

    builder = StateGraph(Tally).add_node("good", lambda _: {"squares": [1]}).add_node("broken", broken)
    return builder.add_edge(START, "good").add_edge(START, "broken")


GRAPHS: dict[str, Callable[[], Any]] = {
    "talk": agent,
    "forked": agent,
    "asked": asking,
    "resumed": asking,
    "fanned": fanning,
    "delta": delta,
    "failed": failing,
}
"""The graph of each thread."""


def said(text: str) -> dict[str, Any]:
    """Return an input."""
    return {"messages": [HumanMessage(text)]}


def fill(saver: Saver, turns: int = 3) -> None:
    """Create a thread of every kind."""
    talk = agent().compile(checkpointer=saver)
    for turn in range(turns):
        talk.invoke(said(f"question {turn}"), config("talk"), durability="sync")
    for turn in range(2):
        talk.invoke(said(f"question {turn}"), config("forked"))
    old = list(talk.get_state_history(config("forked")))[5]
    edited = talk.update_state(old.config, {"messages": [AIMessage("from here on otherwise")]}, as_node="model")
    talk.invoke(said("and on the branch?"), edited)
    asks = asking().compile(checkpointer=saver)
    asks.invoke(said("please"), config("asked"))
    asks.invoke(said("please"), config("resumed"))
    asks.invoke(Command(resume="yes"), config("resumed"))
    fanning().compile(checkpointer=saver).invoke({"numbers": [3, 1, 4, 2, 6, 5], "squares": []}, config("fanned"))
    deltas = delta().compile(checkpointer=saver)
    for turn in range(2 * turns):
        deltas.invoke(said(f"question {turn}"), config("delta"))
    with pytest.raises(RuntimeError, match="broken for good"):
        failing().compile(checkpointer=saver).invoke({"numbers": [], "squares": []}, config("failed"))


def state_of(saver: Saver, thread_id: str) -> list[Any]:
    """Return the history of a thread as a graph reads it through a saver: values, next nodes and interrupts."""
    graph = GRAPHS[thread_id]().compile(checkpointer=saver)
    return [
        (
            state.values,
            state.next,
            state.metadata,
            state.created_at,
            state.interrupts,
            state.config,
            state.parent_config,
        )
        for state in graph.get_state_history(config(thread_id))
    ]


@dataclass
class Order:
    """A class of an application."""

    number: int


class Shop(TypedDict):
    """A state with a value of the application's class."""

    order: Order


def shop() -> Any:
    """Build a graph with an application's class in its state."""
    return StateGraph(Shop).add_node("take", lambda _: {"order": Order(7)}).add_edge(START, "take")


@contextmanager
def foreign_database(kind: str, folder: Path) -> Iterator[str]:
    """Return the URL of an empty database for an official saver."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'foreign.db'}"
    else:
        with server_database(kind) as url:
            yield url


def changed(url: str, statement: str, *values: object) -> list[Any]:
    """Run an SQL statement in an SQLite file, and return its rows."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as conn, conn:
        return conn.execute(statement, values).fetchall()
