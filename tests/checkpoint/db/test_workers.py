"""The threads on which asynchronous callers wait for a database."""

import asyncio
import atexit
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from weakref import WeakSet, ref

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.db import workers
from langgraph_compaction.checkpoint.db.connections import OwnEngine
from langgraph_compaction.checkpoint.db.workers import Workers, off_event_loop, threads_for
from tests.checkpoint.contract.steps import checkpoint, where
from tests.checkpoint.processes import forks, run_together

NAME = "compaction-database"


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
    assert all(name.startswith(NAME) for name in gate.names)


async def test_a_thread_that_has_just_answered_takes_the_next_call(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other thread is started, although the first one has not yet come back from handing over the result."""
    loop, hand_over = asyncio.get_running_loop(), asyncio.get_running_loop().call_soon_threadsafe

    def slowly(*args: Any, **options: Any) -> asyncio.Handle:
        handle = hand_over(*args, **options)
        if threading.current_thread().name.startswith(NAME):
            time.sleep(0.01)  # meanwhile the event loop makes the next call
        return handle

    monkeypatch.setattr(loop, "call_soon_threadsafe", slowly)
    names = {await gate.workers.run(lambda: threading.current_thread().name) for _ in range(5)}
    assert len(names) == 1


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


async def test_nothing_of_a_call_is_kept(gate: Gate) -> None:
    """A thread that waits for the next call does not keep what the last one was given."""

    class Given:
        pass

    given = Given()
    gone = ref(given)
    await gate.workers.run(lambda _one: None, given)
    del given
    for _ in range(1000):
        if gone() is None:
            break
        await asyncio.sleep(0.001)
    assert gone() is None


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


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"poolclass": QueuePool, "pool_size": 5, "max_overflow": 10}, 60),
        ({"poolclass": QueuePool, "pool_size": 2, "max_overflow": 0}, 8),
        ({"poolclass": QueuePool, "pool_size": 50, "max_overflow": 50}, 64),
        ({"poolclass": QueuePool, "pool_size": 5, "max_overflow": -1}, 64),
        ({"poolclass": QueuePool, "pool_size": 0}, 64),
        ({"poolclass": NullPool}, 64),
        ({"poolclass": StaticPool}, 4),
    ],
)
def test_there_are_four_threads_for_each_connection(options: dict[str, object], expected: int) -> None:
    """And 64 at most."""
    assert threads_for(sa.create_engine("sqlite:///unused.db", **options)) == expected


@pytest.mark.parametrize(("url", "expected"), [("sqlite:///unused.db", 64), ("sqlite://", 4)])
def test_the_url_tells_the_number_of_threads_before_the_engine_is_made(url: str, expected: int) -> None:
    """A database in memory has one connection, because each further one would open an empty database."""
    assert threads_for(OwnEngine(sa.make_url(url))) == expected


@pytest.mark.parametrize("kind", [AsyncSQLAlchemySaver, SQLAlchemySaver])
async def test_a_busy_executor_of_the_application_keeps_no_saver_waiting(
    kind: type[AsyncSQLAlchemySaver], database_url: str, thread_id: str
) -> None:
    """And a saver that waits for its database takes no thread of it."""
    loop = asyncio.get_running_loop()
    free = threading.Event()
    executor = ThreadPoolExecutor(1)
    loop.set_default_executor(executor)
    busy = loop.run_in_executor(None, free.wait, 20)
    saver = kind(database_url)
    try:
        await saver.database.workers.run(saver.database.setup)
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


async def test_savers_of_one_database_share_its_threads() -> None:
    """They end with it."""
    with Database.open() as database:
        savers = AsyncSQLAlchemySaver(database), SQLAlchemySaver(database)
        assert savers[0].database.workers is savers[1].database.workers
        await database.workers.run(database.setup)
        [pool] = database.workers._pools.values()
    for thread in pool.threads:
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()


async def test_a_call_under_way_is_finished_before_the_process_exits(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first worker thread registers a function, which the interpreter calls at exit and which awaits the call."""
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    workers._register_exit_hook.cache_clear()
    monkeypatch.setattr(workers, "_POOLS", WeakSet[Any]())
    try:
        under_way = asyncio.create_task(gate.workers.run(gate.wait))
        await gate.begin(1)
        (finish,) = at_exit
        exiting = asyncio.create_task(asyncio.to_thread(finish))
        done, _ = await asyncio.wait({exiting}, timeout=0.05)
        assert not done
        gate.open.set()
        await exiting
        (pool,) = workers._POOLS
        assert not any(thread.is_alive() for thread in pool.threads)
        await under_way
    finally:
        workers._register_exit_hook.cache_clear()


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


def test_a_process_ends_with_a_database_that_hangs(tmp_path: Path) -> None:
    """Another process holds the SQLite file locked while a saver writes: the process ends nevertheless."""
    file = tmp_path / "held.db"
    with Database.open(f"sqlite:///{file}") as database:
        database.setup()
        hung = f"""
import asyncio
from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver
from langgraph_compaction.checkpoint.db import workers
workers.EXIT_S = 0.3
saver = AsyncSQLAlchemySaver("sqlite:///{file}")

async def main():
    task = asyncio.create_task(saver.adelete_thread("t"))
    await asyncio.sleep(0.5)
    task.cancel()

asyncio.run(main())
print("ended", flush=True)
"""
        engine = sa.create_engine(f"sqlite:///{file}", poolclass=NullPool)
        with engine.connect() as conn:
            conn.exec_driver_sql("BEGIN IMMEDIATE")
            command = [sys.executable, "-c", hung]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=25, check=True)
    assert ended.stdout == "ended\n"


def test_a_call_off_the_event_loop_does_not_keep_its_process() -> None:
    """Without an event loop, the call runs in the calling thread. With a loop, it runs in a new daemon thread."""
    ran: list[threading.Thread] = []

    async def on_a_loop() -> None:
        done = threading.Event()
        off_event_loop(lambda: (ran.append(threading.current_thread()), done.set())[-1])
        assert await asyncio.to_thread(done.wait, 20)

    off_event_loop(lambda: ran.append(threading.current_thread()))
    assert ran.pop() is threading.current_thread()
    asyncio.run(on_a_loop())
    (worker,) = ran
    assert worker is not threading.current_thread()
    assert worker.daemon
