"""How often a turn sends something to a database server: each time is a round trip, wherever the server stands."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from tests.checkpoint.wire import Wire, wire_to
from tests.fakes import ScriptedModel
from tests.graph.harness import said

WINDOW = CompactionSettings(context_window=128_000)
MOST = {
    "mariadb": {
        "first turn": 28,
        "turn of a node": 26,
        "turn of the agent": 38,
        "state": 6,
        "list": 9,
        "filtered list": 8,
    },
    "postgresql": {
        "first turn": 4,
        "turn of a node": 4,
        "turn of the agent": 7,
        "state": 1,
        "list": 2,
        "filtered list": 2,
    },
}
"""The most sends of a client, by server."""


@contextmanager
def opened(url: str) -> Generator[tuple[SQLAlchemySaver, Wire]]:
    """Open a saver that reaches its server through a proxy."""
    with wire_to(url) as (through, wire), SQLAlchemySaver.from_url(through) as saver:
        yield saver, wire


def least(wire: Wire, call: Callable[[], object], times: int = 6) -> int:
    """Return the fewest sends of a call: the first ones open connections, and one of them prepares statements."""
    counts: list[int] = []
    for _ in range(times):
        before = wire.sends
        call()
        counts.append(wire.sends - before)
    return min(counts)


@pytest.mark.parametrize("server", MOST)
def test_a_turn_takes_few_round_trips(server: str, session_url: Callable[[str], str], thread_id: str) -> None:
    """The first and a later turn of a graph with one node, a turn of the agent, whose runs take turns, and reads."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    of_agent: RunnableConfig = {"configurable": {"thread_id": f"agent {thread_id}"}}
    builder = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": AIMessage("fine")})
    builder.add_edge(START, "answer")
    with opened(session_url(server)) as (saver, wire):
        graph = builder.compile(checkpointer=saver)
        agent = create_compacting_agent(ScriptedModel(), settings=WINDOW, checkpointer=saver)
        others: Iterator[RunnableConfig] = ({"configurable": {"thread_id": f"{n} {thread_id}"}} for n in count())
        found = {
            "first turn": least(wire, lambda: graph.invoke(said("how?"), next(others), durability="sync")),
            "turn of a node": least(wire, lambda: graph.invoke(said("how?"), config, durability="sync")),
            "turn of the agent": least(wire, lambda: agent.invoke(said("how?"), of_agent)),
            "state": least(wire, lambda: graph.get_state(config), 2),
            "list": least(wire, lambda: list(saver.list(config, limit=5)), 2),
            "filtered list": least(wire, lambda: list(saver.list(config, filter={"source": "loop"}, limit=5)), 2),
        }
        assert len(agent.get_state(of_agent).values["messages"]) == 12
    assert {name: sends for name, sends in found.items() if sends > MOST[server][name]} == {}
