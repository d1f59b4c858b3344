"""The leases that an application takes: `saver.lease` and `saver.alease`."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, CompactionRecords, Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.errors import LeaseError
from tests.checkpoint.contract.steps import where
from tests.checkpoint.samples import Clock, key_of, opening, talk


@pytest.fixture
def holder(database: Database, clock: Clock) -> SQLAlchemySaver:
    """Return a saver that takes leases."""
    return SQLAlchemySaver(database, now=clock)


@pytest.fixture
def other(database: Database, clock: Clock) -> SQLAlchemySaver:
    """Return the saver of another writer."""
    return SQLAlchemySaver(database, now=clock)


def put(saver: Any, thread_id: str) -> RunnableConfig:
    """Put an empty checkpoint."""
    return saver.put(where(thread_id), empty_checkpoint(), {"source": "loop", "step": 0, "parents": {}}, {})


WRITES: dict[str, Callable[[SQLAlchemySaver, str], object]] = {
    "put": put,
    "put_writes": lambda saver, name: saver.put_writes(where(name, "c"), [("channel", 1)], "task"),
    "delete_thread": lambda saver, name: saver.delete_thread(name),
    "prune": lambda saver, name: saver.prune([name]),
    "a compaction": lambda saver, name: CompactionRecords(saver.database, saver.now).begin(
        key_of(name, talk(3)), talk(3), now=1.0, **opening()
    ),
}


def test_only_the_holder_writes(holder: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str) -> None:
    """While a thread is leased, every write of another context is refused, before a summary is paid for too."""
    with holder.lease(thread_id):
        put(holder, thread_id)
        for name, write in WRITES.items():
            with pytest.raises(LeaseError, match="leased to another writer"):
                Context().run(write, other, thread_id)  # a context of its own, as another process has
            assert other.get_tuple(where(thread_id)) is not None, name
    put(other, thread_id)


def test_a_second_lease_waits_for_the_first(
    holder: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str, clock: Clock
) -> None:
    """A leased thread is refused to the next one, unless its lease has run out; each write prolongs it."""
    with holder.lease(thread_id, ttl=60):
        for _ in range(3):
            with pytest.raises(LeaseError), other.lease(thread_id, wait=0.1):
                pytest.fail("it was leased twice")
            clock.time += 50
            put(holder, thread_id)
        clock.time += 61
        with other.lease(thread_id):
            Context().run(put, other, f"{thread_id}-other")
            with pytest.raises(LeaseError):
                Context().run(put, holder, thread_id)


def test_who_lost_the_lease_is_told(
    holder: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str, clock: Clock
) -> None:
    """A holder whose lease ran out and was taken by another cannot write on what it no longer knows."""
    taken, another = other.lease(thread_id, ttl=60), Context()
    with holder.lease(thread_id, ttl=60):
        clock.time += 61
        another.run(taken.__enter__)
        with pytest.raises(LeaseError, match="has ended"):
            put(holder, thread_id)
    another.run(taken.__exit__, None, None, None)


def test_a_lease_of_a_wrong_clock_is_over(
    holder: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str, clock: Clock
) -> None:
    """A lease that would end later than any lease can was written by a clock that was wrong."""
    clock.time += 10 * 86_400
    with holder.lease(thread_id, ttl=60):
        clock.time -= 10 * 86_400
        with other.lease(thread_id):
            put(other, thread_id)


@pytest.mark.parametrize("ttl", [0, -1, 86_401])
def test_a_lease_has_a_length(holder: SQLAlchemySaver, thread_id: str, ttl: float) -> None:
    """A lease of no time, or of more than a day, is refused."""
    with pytest.raises(ValueError, match="a lease lasts"), holder.lease(thread_id, ttl=ttl):
        pytest.fail("it was leased")


async def test_a_lease_reaches_what_is_called_inside_it(database: Database, thread_id: str) -> None:
    """A graph run inside a lease writes from LangGraph's background tasks; one outside is refused, or waits."""
    saver = AsyncSQLAlchemySaver(database)
    builder = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": [("ai", "yes")]})
    graph = builder.add_edge(START, "answer").compile(checkpointer=saver)
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    asked: Any = {"messages": [("user", "well?")]}
    outside = Context()
    async with saver.alease(thread_id):
        await graph.ainvoke(asked, config)
        running = asyncio.create_task(graph.ainvoke(asked, config, durability="sync"), context=outside)
        with pytest.raises(LeaseError):
            await running

        async def wait() -> None:
            async with saver.alease(thread_id, wait=20):
                await graph.ainvoke(asked, config)

        waiting = asyncio.create_task(wait(), context=Context())
        await asyncio.sleep(0.1)
    await waiting
    assert len((await graph.aget_state(config)).values["messages"]) == 4
