"""One body for `invoke` and `ainvoke`: what it waits for, where it computes, and how it is closed."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextvars import ContextVar
from threading import Event, current_thread, main_thread
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.graph import CompactionSettings, acompact_messages, create_compacting_agent
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.runtime.effects import Effects, arun, blocking, either, is_long, querying, run
from tests.fakes import ScriptedModel

Drive = Any
"""`run` or `arun`, as a function that waits."""


def drive_async(step: Effects[Any]) -> Any:
    """Drive a step on an event loop of its own."""
    return asyncio.run(arun(step))


def drive_off_loop(step: Effects[Any]) -> Any:
    """The same, with the step in a worker thread."""
    return asyncio.run(arun(step, off_loop=True))


drivers = pytest.mark.parametrize("drive", [run, drive_async, drive_off_loop], ids=["sync", "async", "off loop"])


async def value(given: Any) -> Any:
    """Wait a moment, then give or raise what was given."""
    await asyncio.sleep(0)
    if isinstance(given, BaseException):
        raise given
    return given


def give(given: Any) -> Any:
    """The same at once."""
    if isinstance(given, BaseException):
        raise given
    return given


def wait_for(given: Any) -> Effects[Any]:
    """Wait for a value or an exception."""
    return either(lambda: give(given), lambda: value(given))


@drivers
def test_a_step_receives_what_it_waits_for(drive: Drive) -> None:
    """Effects are waited for in order, and the step's own result is the driver's; it may wait for nothing."""

    def step() -> Effects[list[int]]:
        first = yield from wait_for(1)
        second = yield from wait_for(first + 1)
        return [first, second]

    def silent() -> Effects[str]:
        return "done"
        yield  # makes it a generator

    assert drive(step()) == [1, 2]
    assert drive(silent()) == "done"


@drivers
def test_what_is_no_exception_closes_the_step(drive: Drive) -> None:
    """It is not offered to the step as a failure: the step's cleanup runs, and it is over."""
    seen: list[str] = []

    def step() -> Effects[None]:
        try:
            yield from wait_for(KeyboardInterrupt())
        except Exception:  # noqa: BLE001 - must not be reached
            seen.append("caught")
        finally:
            seen.append("closed")

    kept = step()
    with pytest.raises(KeyboardInterrupt):
        drive(kept)
    assert seen == ["closed"]


@drivers
@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("odd")])
def test_a_failure_is_raised_inside_the_step(drive: Drive, error: Exception) -> None:
    """The step decides what it means, and may go on waiting; what it does not catch is the driver's."""

    def step() -> Effects[Any]:
        try:
            yield from wait_for(error)
        except Exception as caught:  # noqa: BLE001 - whatever it is, it is what is looked at
            after = yield from wait_for("after")
            return [type(caught), after]

    kind, after = drive(step())
    assert after == "after"
    assert kind in {type(error), RuntimeError}, "a StopIteration may not end the step quietly"
    with pytest.raises((type(error), RuntimeError)):
        drive(wait_for(error))


@pytest.fixture(autouse=True)
async def _no_task_left() -> AsyncIterator[None]:
    """A driver leaves no task behind."""
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_what_blocks_waits_on_another_thread_than_the_event_loops() -> None:
    """A database has threads of its own, so that the executor is left to the application; without a loop none."""

    def where() -> str:
        return current_thread().name

    with Database.open() as database:
        records = CompactionRecords(database)
        assert run(querying(records, where)) == run(blocking(where)) == current_thread().name
        assert asyncio.run(arun(querying(records, where))).startswith("compaction-database")
        assert asyncio.run(arun(blocking(where))).startswith("asyncio")


async def test_a_step_off_the_loop_computes_in_threads_and_waits_on_the_loop() -> None:
    """Only its calls run on the event loop, and context variables are those of the caller."""
    name: ContextVar[str] = ContextVar("name")
    name.set("caller's")

    async def on_loop() -> bool:
        return current_thread() is main_thread()

    def step() -> Effects[list[Any]]:
        computed = [current_thread() is main_thread(), name.get()]
        waited = yield from either(lambda: None, on_loop)
        return [*computed, waited, current_thread() is main_thread()]

    assert await arun(step(), off_loop=True) == [False, "caller's", True, False]
    assert await arun(step()) == [True, "caller's", True, True]


async def test_a_cancellation_waits_for_the_step_that_computes(caplog: pytest.LogCaptureFixture) -> None:
    """It is never closed while it runs, and what it raises afterwards is not logged as unseen."""
    began, go_on, closed = Event(), Event(), list[str]()

    def step() -> Effects[None]:
        try:
            began.set()
            if go_on.wait(60):
                raise ValueError("late")
            yield from wait_for(1)
        finally:
            closed.append("closed")

    task = asyncio.create_task(arun(step(), off_loop=True))
    await asyncio.to_thread(began.wait, 60)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert closed == []
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == ["closed"]
    del task
    gc.collect()  # when a future is collected, asyncio logs an exception that nobody retrieved
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("messages", "is_much"),
    [
        ([HumanMessage("hello")] * 100, False),
        ([HumanMessage("x" * 19_900)], False),
        ([HumanMessage("hello")] * 1_000, True),
        ([HumanMessage([{"type": "image", "source": {"data": "A" * 10**6}}])], True),
        ([AIMessage("", tool_calls=[{"name": "t", "args": {"x": "y" * 30_000}, "id": "c"}])], True),
    ],
)
def test_long_messages_are_told_from_short_ones(messages: list[Any], *, is_much: bool) -> None:
    """By their texts and media, wherever these are, and by their number."""
    assert is_long(messages) is is_much


@pytest.mark.parametrize("size", [10, 30_000])
@pytest.mark.parametrize("how", ["agent", "middleware", "list"])
async def test_a_conversation_is_counted_off_the_loop_if_it_is_long(size: int, how: str) -> None:
    """In the graph, in LangChain's agent, and for a plain list."""
    threads = set[Any]()

    def count(messages: list[Any]) -> int:
        if any(len(str(message.content)) >= size for message in messages):
            threads.add(current_thread())
        return sum(len(str(message.content)) for message in messages) // 4

    said = [HumanMessage("a" * size), AIMessage("ok"), HumanMessage("b" * size)]
    settings = CompactionSettings(context_window=100_000)
    if how == "list":
        await acompact_messages(said, max_tokens=12_000, token_counter=count, force=False)
    elif how == "agent":
        agent = create_compacting_agent(ScriptedModel(), settings=settings, token_counter=count)
        await agent.ainvoke({"messages": said})
    else:
        middleware: Any = CompactionMiddleware(settings=settings, token_counter=count)
        await create_agent(ScriptedModel(), middleware=[middleware]).ainvoke({"messages": said})
    assert threads
    assert (main_thread() in threads) is (size == 10)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_variable_that_a_step_sets_holds_until_it_resets_it(*, cancelled: bool) -> None:
    """As the span of a trace does: in the step, in its calls, and where the step is closed."""
    name: ContextVar[str] = ContextVar("name", default="")
    seen, waiting = list[str](), asyncio.Event()

    async def call() -> None:
        seen.append(name.get())
        waiting.set()
        if cancelled:
            await asyncio.sleep(60)

    def step() -> Effects[None]:
        token = name.set("span")
        try:
            yield from either(lambda: None, call)
        finally:
            seen.append(name.get())
            name.reset(token)  # raises in another context than that of the set
            seen.append("reset")

    task = asyncio.create_task(arun(step(), off_loop=True))
    await waiting.wait()
    if cancelled:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        await task
    assert seen == ["span", "span", "reset"]
