"""The threads on which asynchronous callers wait for a database."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, SQLAlchemySaver
from langgraph_compaction.checkpoint.db.workers import Workers
from tests.checkpoint.contract.steps import checkpoint, where
from tests.checkpoint.processes import forks, run_together


async def test_a_call_sees_the_callers_context_and_raises_to_it() -> None:
    """As tracing and leases need; what a call sets stays its own."""
    workers = Workers(lambda: 2)
    seen: ContextVar[str] = ContextVar("seen")
    seen.set("mine")

    def call(extra: str, *, more: str) -> str:
        found = seen.get() + extra + more
        seen.set("other")
        return found

    assert await workers.run(call, "+", more="+") == "mine++"
    assert seen.get() == "mine"
    with pytest.raises(ZeroDivisionError):
        await workers.run(lambda: 1 // 0)
    workers.close()


async def test_a_cancelled_call_that_has_begun_goes_on() -> None:
    """One that waits for a thread is never made; the task that waited is cancelled at once, either way."""
    workers, made = Workers(lambda: 1), list[int]()
    begun, proceed, ended = threading.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def call() -> None:
        begun.set()
        assert proceed.wait(20)
        made.append(1)
        loop.call_soon_threadsafe(ended.set)

    running = asyncio.create_task(workers.run(call))
    assert await asyncio.to_thread(begun.wait, 20)
    waiting = asyncio.create_task(workers.run(made.append, 2))
    await asyncio.sleep(0)
    for one in (running, waiting):
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
    proceed.set()
    async with asyncio.timeout(20):
        await ended.wait()
        await workers.run(made.append, 3)
    assert made == [1, 3]
    workers.close()


def test_workers_that_are_closed_or_dropped_end_their_threads() -> None:
    """After what was asked for; a later call starts others."""
    workers, done = Workers(lambda: 2), list[int]()

    async def ask(workers: Workers) -> None:
        asked = [asyncio.create_task(workers.run(done.append, number)) for number in range(5)]
        await asyncio.sleep(0)
        workers.close()
        await asyncio.gather(*asked)

    for _ in range(2):
        asyncio.run(ask(workers))
    assert sorted(done) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
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
