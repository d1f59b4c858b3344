"""Worker threads on which asynchronous callers wait for a database, and the check whether an OS thread may block.

The event loop's own executor has few OS threads (six on two cores). In that executor, calls would queue behind the
application's work, and a database that does not answer would block that work.
"""

import asyncio
import atexit
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from functools import cache, partial
from itertools import count
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakSet, finalize

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, QueuePool

from ..telemetry import record
from .connections import OwnEngine
from .urls import is_memory

P = ParamSpec("P")
T = TypeVar("T")

EXIT_S = 5.0
"""Longest time in seconds that a process waits at its exit for running calls: a database may hang."""

_MAX_THREADS = 64
_THREADS_PER_CONNECTION = 4
"""OS threads per connection: several, because writers of one conversation can wait for a shared transaction."""
_numbers = count(1)


def threads_for(engine: sa.Engine | OwnEngine) -> int:
    """Return how many OS threads an engine can use: 4 for each connection that its pool opens at once, 64 at most.

    The URL of an `OwnEngine` determines its pool; this function does not make the engine, because the caller may run
    on an event loop.
    """
    if isinstance(engine, OwnEngine):
        return _THREADS_PER_CONNECTION if is_memory(engine.url) else _MAX_THREADS
    pool = engine.pool
    if isinstance(pool, QueuePool):
        overflow: int = pool._max_overflow  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the limit has no public name
        return (
            min(_THREADS_PER_CONNECTION * (pool.size() + overflow), _MAX_THREADS)
            if pool.size() and overflow >= 0
            else _MAX_THREADS
        )
    return _MAX_THREADS if isinstance(pool, NullPool) else _THREADS_PER_CONNECTION


def on_event_loop() -> bool:
    """Return whether an event loop runs in this OS thread, so that calls in this OS thread must not block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def off_event_loop(call: Callable[[], None]) -> None:
    """Run a blocking call at once or, if an event loop runs in this OS thread, in a new OS thread."""
    if on_event_loop():
        Thread(target=call, daemon=True).start()
    else:
        call()


class Workers:
    """Runs blocking calls on at most `size()` daemon threads, which start when they are needed.

    All event loops of a process share these daemon threads; a forked child starts its own. `close` ends the daemon
    threads once they have run the submitted calls; a later call starts new ones.
    """

    def __init__(self, size: Callable[[], int]) -> None:
        self._size = size
        self._pools: dict[int, _Pool] = {}
        finalize(self, _stop_all, self._pools).atexit = False

    async def run(self, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Run a call, which sees the caller's context variables, and return its result.

        If the waiting task is cancelled, a running call goes on to its end, but a queued call does not start.
        """
        job = _Job(Future(), copy_context(), partial(call, *args, **options), time.perf_counter())
        self._pool().submit(job)
        result: T = await asyncio.wrap_future(job.future)
        return result

    def close(self) -> None:
        """End each worker thread when the submitted calls are done."""
        if (pool := self._pools.pop(os.getpid(), None)) is not None:
            pool.stop()

    def _pool(self) -> "_Pool":
        process = os.getpid()
        if (pool := self._pools.get(process)) is None:
            # no lock, because a fork could leave it locked; of two pools made at the same time, one is kept
            pool = self._pools.setdefault(process, _Pool(self._size()))
        return pool


class _Job(NamedTuple):
    future: Future[Any]
    context: Context
    call: Callable[[], Any]
    queued_at: float
    """`time.perf_counter()` when the job was queued."""

    def do(self, done: Callable[[], object]) -> None:
        """Run the call, unless its caller no longer waits; call `done` before the caller gets the result."""
        if not self.future.set_running_or_notify_cancel():
            done()
            return
        record("database.wait", time.perf_counter() - self.queued_at)
        try:
            result = self.context.run(self.call)
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting caller
            done()
            self.future.set_exception(error)
        else:
            done()
            self.future.set_result(result)


class _Pool:
    """The worker threads of one process. Its methods are called on the event loop, so they never wait for a lock."""

    def __init__(self, size: int) -> None:
        self.threads: list[Thread] = []
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._unfinished: SimpleQueue[None] = SimpleQueue()
        """Queue with one item for each job that is queued or running."""
        self._startable: SimpleQueue[None] = SimpleQueue()
        """Queue with one item for each worker thread that can still be started below the limit."""
        for _ in range(size):
            self._startable.put(None)

    def submit(self, job: _Job) -> None:
        """Queue a job; start a worker thread if there are more jobs than threads and the limit is not reached."""
        self._unfinished.put(None)
        self._jobs.put(job)
        if self._unfinished.qsize() > len(self.threads) and _taken(self._startable):
            thread = Thread(
                target=_work,
                args=(self._jobs, self._unfinished.get_nowait),
                name=f"compaction-database-{next(_numbers)}",
                daemon=True,
            )
            _POOLS.add(self)
            _register_exit_hook()
            self.threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End every worker thread after the queued jobs."""
        for _ in self.threads:
            self._jobs.put(None)


def _taken(items: SimpleQueue[None]) -> bool:
    try:
        items.get_nowait()
    except Empty:
        return False
    return True


def _work(jobs: SimpleQueue[_Job | None], done: Callable[[], object]) -> None:
    while (job := jobs.get()) is not None:
        job.do(done)
        del job  # while this thread waits for the next job, the objects of the last job can be freed


def _stop_all(pools: dict[int, _Pool]) -> None:
    if (pool := pools.pop(os.getpid(), None)) is not None:
        pool.stop()


_POOLS: WeakSet[_Pool] = WeakSet()


@cache
def _register_exit_hook() -> None:
    """Register `_finish` once, when the first thread starts."""
    atexit.register(_finish)


def _finish() -> None:
    """Wait up to `EXIT_S` seconds for running calls, then let the process exit.

    A call that still runs ends with the process, and the database rolls back the transaction of this call.
    """
    ends = time.monotonic() + EXIT_S
    started = list(_POOLS)
    for pool in started:
        pool.stop()
    for thread in (thread for pool in started for thread in pool.threads):
        thread.join(max(0.0, ends - time.monotonic()))
