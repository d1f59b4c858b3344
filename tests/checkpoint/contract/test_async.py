"""The asynchronous methods of both classes on an event loop of the application's own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, Database, SQLAlchemySaver
from tests.checkpoint.contract.steps import checkpoint, where
from tests.checkpoint.contract.stories import State, human
from tests.checkpoint.samples import talk


@pytest.fixture(params=[AsyncSQLAlchemySaver, SQLAlchemySaver])
def asaver(request: pytest.FixtureRequest, database: Database) -> Any:
    """Return a saver of each class."""
    return request.param(database)


def graph_of(saver: Any) -> Any:
    """Build a graph that waits for an answer between two steps."""

    async def ask(state: State) -> Any:
        return {"log": [f"{interrupt('go on?')} {len(state['messages'])}"]}

    builder = StateGraph(State)
    builder.add_node("first", lambda _state: {"log": ["first"], "messages": talk(2)})
    builder.add_node("ask", ask)
    return builder.add_edge(START, "first").add_edge("first", "ask").compile(checkpointer=saver)


async def conversation(graph: Any, thread_id: str, durability: str) -> list[Any]:
    """Run a thread to its end and return all that can be seen of it."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    for number in range(2):
        await graph.ainvoke(human(str(number)), config, durability=durability)
        await graph.aupdate_state(config, {"log": ["changed"]}, as_node="first")
        async for _ in graph.astream(Command(resume="yes"), config, durability=durability):
            pass
    states = [each async for each in graph.aget_state_history(config)]
    return [(each.values, each.next, each.metadata["source"], each.metadata["step"]) for each in states]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_threads_that_run_at_once_see_what_each_sees_alone(
    asaver: Any, thread_id: str, durability: str
) -> None:
    """Eight conversations on one event loop have the states that LangGraph's saver in memory gives to one."""
    graph = graph_of(asaver)
    found = await asyncio.gather(*(conversation(graph, f"{thread_id}-{n}", durability) for n in range(8)))
    expected = await conversation(graph_of(InMemorySaver()), thread_id, durability)
    assert found == [expected] * 8


async def test_the_event_loop_goes_on_while_a_put_waits(asaver: Any, thread_id: str) -> None:
    """While another writer holds the thread, other work on the loop is done; then the put is, too."""
    versions = {"x": 1}
    head = await asaver.aput(where(thread_id), checkpoint({"x": 1}, versions), {"step": 0}, versions)
    held, let_go = Event(), Event()

    def hold() -> None:
        with asaver.database.write() as conn:
            asaver.store.threads.lock(conn, thread_id)
            held.set()
            assert let_go.wait(20)

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        await asyncio.to_thread(held.wait, 20)
        putting = asyncio.create_task(asaver.aput(head, checkpoint({"x": 2}, versions), {"step": 1}, versions))
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert not putting.done()
        let_go.set()
        later = await putting
        holding.result()
    found = await asaver.aget_tuple(where(thread_id))
    assert (found.config, found.parent_config) == (later, head)


async def test_a_put_that_is_cancelled_is_stored_whole_or_not_at_all(asaver: Any, thread_id: str) -> None:
    """A task that is cancelled in a put leaves a saver that works, and no half of a checkpoint."""
    values = {"messages": talk(5), "x": 1}
    versions = dict.fromkeys(values, 1)
    putting = asyncio.create_task(asaver.aput(where(thread_id), checkpoint(values, versions), {"step": 0}, versions))
    await asyncio.sleep(0)
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    head = await asaver.aput(where(thread_id), checkpoint({"x": 2}, {"x": 2}), {"step": 1}, {"x": 2})
    found = [each async for each in asaver.alist(where(thread_id))]
    assert [each.checkpoint["channel_values"] for each in found if each.config != head] in ([], [values])


def test_one_saver_serves_one_event_loop_after_another(session_url: Callable[[str], str], thread_id: str) -> None:
    """A saver that was opened outside of any loop is used by several loops in turn."""
    saver = AsyncSQLAlchemySaver(session_url("sqlite"))
    versions = {"x": 1}

    async def step(number: int) -> Any:
        await saver.aput(where(thread_id), checkpoint({"x": number}, versions), {"step": number}, versions)
        return [each.checkpoint["channel_values"]["x"] async for each in saver.alist(where(thread_id))]

    assert [asyncio.run(step(number)) for number in range(3)] == [[0], [1, 0], [2, 1, 0]]
    saver.close()
