"""The threads on which asynchronous callers wait for a database."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, SQLAlchemySaver
from langgraph_compaction.checkpoint.db.workers import Workers
from tests.checkpoint.contract.steps import checkpoint, where
from tests.checkpoint.processes import forks, run_together


class Gate:
    """Calls that wait until they are let go, on at most `size` threads."""

    def __init__(self, size: int) -> None:
        self.workers = Workers(lambda: size)
        self.open = threading.Event()
        self.begun = threading.Semaphore(0)
        self.names: set[str] = set()

    def wait(self) -> None:
        """Be under way until the gate opens."""
        self.names.add(threading.current_thread().name)
        self.begun.release()
        assert self.open.wait(20)

    async def begin(self, count: int) -> None:
        """Wait until so many more are under way."""
        for _ in range(count):
            assert await asyncio.to_thread(self.begun.acquire, timeout=20)


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Return a gate with three threads, which end with the test."""
    made = Gate(3)
    yield made
    made.open.set()
    made.workers.close()


async def test_only_so_many_threads_are_started_and_only_when_needed(gate: Gate) -> None:
    """One call after another needs one; of many at once the rest wait for their turn."""
    for _ in range(5):
        gate.names.add(await gate.workers.run(lambda: threading.current_thread().name))
    assert len(gate.names) == 1
    waiting = [asyncio.create_task(gate.workers.run(gate.wait)) for _ in range(9)]
    await gate.begin(3)
    assert not gate.begun.acquire(blocking=False)
    gate.open.set()
    await asyncio.gather(*waiting)
    assert len(gate.names) <= 3


async def test_a_call_sees_the_callers_context_and_raises_to_it(gate: Gate) -> None:
    """As tracing and leases need; what a call sets stays its own."""
    seen: ContextVar[str] = ContextVar("seen")
    seen.set("mine")

    def call(extra: str, *, more: str) -> str:
        found = seen.get() + extra + more
        seen.set("other")
        return found

    assert await gate.workers.run(call, "+", more="+") == "mine++"
    assert seen.get() == "mine"
    with pytest.raises(ZeroDivisionError):
        await gate.workers.run(lambda: 1 // 0)


async def test_a_cancelled_call_that_has_begun_goes_on(gate: Gate) -> None:
    """One that waits for a thread is never made; the task that waited is cancelled at once, either way."""
    made: list[int] = []

    def begun() -> None:
        gate.wait()
        made.append(1)

    running = [asyncio.create_task(gate.workers.run(begun)) for _ in range(3)]
    await gate.begin(3)
    waiting = asyncio.create_task(gate.workers.run(lambda: made.append(2)))
    await asyncio.sleep(0)
    for one in (running[0], waiting):
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
    gate.open.set()
    await asyncio.gather(*running[1:])
    await gate.workers.run(lambda: None)
    while len(made) < 3:  # noqa: ASYNC110 - the thread of a cancelled call tells nobody
        await asyncio.sleep(0.001)
    assert made == [1, 1, 1]


def test_closing_ends_the_threads_after_what_was_asked_for() -> None:
    """And a later call starts others."""
    workers = Workers(lambda: 2)
    done: list[int] = []

    async def ask() -> None:
        asked = [asyncio.create_task(workers.run(done.append, number)) for number in range(5)]
        await asyncio.sleep(0)
        workers.close()
        await asyncio.gather(*asked)

    asyncio.run(ask())
    assert sorted(done) == [0, 1, 2, 3, 4]
    asyncio.run(ask())
    assert sorted(done) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_workers_that_nobody_has_any_more_end_their_threads() -> None:
    """A database that was never closed leaves none behind."""
    workers = Workers(lambda: 2)
    thread = asyncio.run(workers.run(threading.current_thread))
    del workers
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()


@forks
def test_a_forked_child_has_threads_of_its_own() -> None:
    """Those of the parent are not there; its calls are answered all the same."""
    workers = Workers(lambda: 2)
    assert asyncio.run(workers.run(os.getpid)) == os.getpid()

    def child(_number: int) -> None:
        assert asyncio.run(workers.run(os.getpid)) == os.getpid()
        workers.close()

    run_together(2, child)
    assert asyncio.run(workers.run(os.getpid)) == os.getpid()
    workers.close()


@pytest.mark.parametrize("kind", [AsyncSQLAlchemySaver, SQLAlchemySaver])
async def test_a_busy_executor_of_the_application_keeps_no_saver_waiting(
    kind: type[AsyncSQLAlchemySaver], session_url: Callable[[str], str], thread_id: str
) -> None:
    """And a saver that waits for its database takes no thread of it."""
    loop = asyncio.get_running_loop()
    free = threading.Event()
    executor = ThreadPoolExecutor(1)
    loop.set_default_executor(executor)
    busy = loop.run_in_executor(None, free.wait, 20)
    saver = kind(session_url("sqlite"))
    try:
        await saver.aput(where(thread_id), checkpoint({"x": 1}, {"x": 1}), {"step": 0}, {"x": 1})
        assert (found := await saver.aget_tuple(where(thread_id))) is not None
        assert found.checkpoint["channel_values"] == {"x": 1}
        assert len([one async for one in saver.alist(where(thread_id))]) == 1
        await saver.adelete_thread(thread_id)
        assert not busy.done()
    finally:
        free.set()
        assert await busy
        saver.close()
        executor.shutdown()


ENDS = """
import asyncio, sys, threading, time
from langgraph_compaction.checkpoint.db import workers

workers.EXIT_S = float(sys.argv[1])
mine, begun = workers.Workers(lambda: 2), threading.Event()

def write():
    begun.set()
    time.sleep(float(sys.argv[2]))
    print("written", flush=True)

async def main():
    task = asyncio.create_task(mine.run(write))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    task.cancel()

asyncio.run(main())
"""


@pytest.mark.parametrize(("waits", "takes", "said"), [(30.0, 0.3, "written\n"), (0.3, 600.0, "")])
def test_a_process_ends_with_its_writes_but_not_with_a_hung_database(waits: float, takes: float, said: str) -> None:
    """A write that is under way is finished at exit; one that does not come to an end is left after a moment."""
    command = [sys.executable, "-c", ENDS, str(waits), str(takes)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert (ended.stdout, ended.stderr) == (said, "")
