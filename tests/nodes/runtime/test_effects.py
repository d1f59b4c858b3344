import asyncio
from collections.abc import AsyncIterator
from threading import current_thread, main_thread
from typing import Any

import pytest

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.nodes.runtime.effects import Effects, arun, blocking, either, querying, run

Drive = Any
"""`run` or `arun`, as a function that waits."""


def drive_async(step: Effects[Any]) -> Any:
    """Drive a step on an event loop of its own."""
    return asyncio.run(arun(step))


drivers = pytest.mark.parametrize("drive", [run, drive_async], ids=["sync", "async"])


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
    """Effects are waited for in order, and the step's own result is the driver's."""

    def step() -> Effects[list[int]]:
        first = yield from wait_for(1)
        second = yield from wait_for(first + 1)
        return [first, second]

    assert drive(step()) == [1, 2]


@drivers
def test_a_step_may_wait_for_nothing(drive: Drive) -> None:
    """It is a plain function then."""

    def step() -> Effects[str]:
        return "done"
        yield  # type: ignore[unreachable] # makes it a generator

    assert drive(step()) == "done"


@drivers
@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("late"), StopIteration("odd")])
def test_a_failure_is_raised_inside_the_step(drive: Drive, error: Exception) -> None:
    """The step decides what it means, and may go on waiting."""

    def step() -> Effects[Any]:
        try:
            yield from wait_for(error)
        except Exception as caught:  # noqa: BLE001 - whatever it is, it is what is looked at
            after = yield from wait_for("after")
            return [type(caught), after]

    kind, after = drive(step())
    assert after == "after"
    assert kind in {type(error), RuntimeError}, "a StopIteration may not end the step quietly"


@drivers
def test_what_a_step_does_not_catch_is_the_drivers(drive: Drive) -> None:
    """Failures of an effect and of the step itself go up."""

    def raising() -> Effects[None]:
        yield from wait_for(1)
        raise KeyError("own")

    with pytest.raises(ValueError, match="of the effect"):
        drive(wait_for(ValueError("of the effect")))
    with pytest.raises(KeyError, match="own"):
        drive(raising())


@drivers
def test_an_interrupt_closes_the_step(drive: Drive) -> None:
    """What is no Exception is not offered to the step as a failure: its cleanup runs, and it is over."""
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


async def test_cancellation_closes_the_step_at_once() -> None:
    """Nobody has to wait for a garbage collection."""
    seen: list[str] = []
    started = asyncio.Event()

    async def forever() -> None:
        started.set()
        await asyncio.Event().wait()

    def step() -> Effects[None]:
        try:
            yield from either(lambda: None, forever)
        finally:
            seen.append("closed")

    kept = step()
    task = asyncio.create_task(arun(kept))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["closed"]


def test_a_blocking_call_stays_on_the_thread_of_a_sync_driver() -> None:
    """There is no event loop to protect."""
    assert run(blocking(current_thread)) is current_thread()


async def test_a_blocking_call_leaves_the_event_loop_alone() -> None:
    """Under the async driver it runs on a worker thread."""
    assert await arun(blocking(current_thread)) is not main_thread()


@pytest.fixture(autouse=True)
async def _no_task_left() -> AsyncIterator[None]:
    """A driver leaves no task behind."""
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_what_waits_for_a_database_waits_on_a_thread_of_it() -> None:
    """The executor of the event loop is left to the application; without an event loop it is a plain call."""

    def where() -> str:
        return current_thread().name

    with Database.open() as database:
        records = CompactionRecords(database)
        assert run(querying(records, where)) == current_thread().name
        assert asyncio.run(arun(querying(records, where))).startswith("compaction-database")
        assert asyncio.run(arun(blocking(where))).startswith("asyncio")
