import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import Context
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, CompactionRecords, Database, SQLAlchemySaver
from langgraph_compaction.checkpoint import saver as saver_module
from langgraph_compaction.checkpoint.db.thread_row import Lease
from langgraph_compaction.checkpoint.errors import LeaseError
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
    config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    return saver.put(config, empty_checkpoint(), {"source": "loop", "step": 0, "parents": {}}, {})


def writes(saver: Any, thread_id: str) -> dict[str, Callable[[], object]]:
    """Return every call that changes a thread."""
    at: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": "c"}}
    return {
        "put": lambda: put(saver, thread_id),
        "put_writes": lambda: saver.put_writes(at, [("channel", 1)], "task"),
        "delete_thread": lambda: saver.delete_thread(thread_id),
        "prune": lambda: saver.prune([thread_id]),
    }


def test_only_the_holder_writes(holder: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str) -> None:
    """While a thread is leased, every write of another context is refused; afterwards all may write again."""
    with holder.lease(thread_id):
        put(holder, thread_id)
        for name, write in writes(other, thread_id).items():
            with pytest.raises(LeaseError, match="leased to another writer"):
                Context().run(write)  # a context of its own, as another process has
            assert other.get_tuple({"configurable": {"thread_id": thread_id}}) is not None, name
    put(other, thread_id)


def test_a_second_lease_waits_for_the_first(
    holder: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str, clock: Clock
) -> None:
    """A leased thread is refused to the next one, unless its lease has run out by itself."""
    with holder.lease(thread_id, ttl=60):
        with pytest.raises(LeaseError), other.lease(thread_id, wait=0.1):
            pytest.fail("it was leased twice")
        clock.time += 61
        with other.lease(thread_id):
            put(other, thread_id)


async def test_between_two_tries_a_writer_that_waits_sleeps(
    holder: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a pause, a waiting writer would send queries all the time. Here the lease ends during the pause."""
    asleep: list[float] = []

    def sleep(seconds: float) -> None:
        asleep.append(seconds)
        held.close()

    async def asleep_later(seconds: float) -> None:
        sleep(seconds)

    monkeypatch.setattr(saver_module, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    monkeypatch.setattr(saver_module, "asyncio", SimpleNamespace(sleep=asleep_later))
    with ExitStack() as held:
        held.enter_context(holder.lease(thread_id))
        with other.lease(thread_id, wait=2):
            assert asleep == [0.05]
        held.enter_context(holder.lease(thread_id))
        async with AsyncSQLAlchemySaver(other.database, now=clock).alease(thread_id, wait=2):
            assert asleep == [0.05, 0.05]


def test_who_lost_the_lease_is_told(
    holder: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str, clock: Clock
) -> None:
    """A holder whose lease ran out and was taken by another cannot write on what it no longer knows."""
    with holder.lease(thread_id, ttl=60):
        clock.time += 61
        assert other.maintenance.take_lease(thread_id, Lease("another", 60.0))
        with pytest.raises(LeaseError, match="has ended"):
            put(holder, thread_id)


def test_each_write_prolongs_the_lease(
    holder: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str, clock: Clock
) -> None:
    """A holder at work keeps its lease for as long as it works."""
    with holder.lease(thread_id, ttl=60):
        for _ in range(3):
            clock.time += 50
            put(holder, thread_id)
        with pytest.raises(LeaseError), other.lease(thread_id):
            pytest.fail("it was leased twice")


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


@pytest.mark.parametrize("ttl", [0.5, 86_400])
def test_the_shortest_and_the_longest_lease_hold_until_their_end(
    holder: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str, ttl: float, clock: Clock
) -> None:
    """A lease of half a second and one of a day are accepted, and no other writer gets the thread before they end."""
    with holder.lease(thread_id, ttl=ttl):
        clock.time += 0.9 * ttl
        with pytest.raises(LeaseError), other.lease(thread_id):
            pytest.fail("it was leased twice")


async def test_a_lease_reaches_what_is_called_inside_it(database: Database, thread_id: str) -> None:
    """A graph run inside a lease writes from LangGraph's background tasks; one outside is refused."""
    saver = AsyncSQLAlchemySaver(database)
    builder = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": [("ai", "yes")]})
    graph = builder.add_edge(START, "answer").compile(checkpointer=saver)
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    asked: Any = {"messages": [("user", "well?")]}
    outside = asyncio.create_task(_later(graph.ainvoke, asked, config))
    async with saver.alease(thread_id):
        await graph.ainvoke(asked, config)
        with pytest.raises(LeaseError):
            await outside
    assert len((await graph.aget_state(config)).values["messages"]) == 2
    assert await graph.ainvoke(asked, config)


async def _later(call: Callable[..., Any], *arguments: Any) -> object:
    """Call in the context in which the task was made, once the lease has been taken."""
    await asyncio.sleep(0.5)
    return await call(*arguments, durability="sync")


def test_no_attempt_begins_on_a_thread_leased_to_another(
    holder: SQLAlchemySaver, database: Database, thread_id: str, clock: Clock
) -> None:
    """A compaction of a writer that may not write is refused before a summary is paid for."""
    records = CompactionRecords(database, clock)
    assert holder.maintenance.take_lease(thread_id, Lease("another", 60.0))
    with pytest.raises(LeaseError):
        records.begin(key_of(thread_id, talk(3)), talk(3), now=1.0, **opening())
    assert records.history(thread_id) == []
