"""Worker threads of a database's own, on which asynchronous callers wait for it.

On the executor of the event loop they would queue behind the application's own work, with few threads (six on two
cores), and a database that does not answer would hold up all that the application runs there.
"""

import asyncio
import atexit
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakSet, finalize

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, QueuePool

from .urls import OwnEngine, is_memory

P = ParamSpec("P")
T = TypeVar("T")

EXIT_S = 5.0
"""Seconds for which a process that ends waits for what is under way, and no longer: a database may hang."""

_MOST = 64
"""Threads where the engine would open any number of connections."""
_BESIDE = 4
"""Threads for each connection: those of one conversation wait for each other and are written together."""
_numbers = count(1)


def threads_for(engine: sa.Engine | OwnEngine) -> int:
    """Return how many threads an engine can use: several for each connection that its pool opens at once.

    An engine of our own is not made for this, as the caller may be on an event loop: its URL says what its pool is.
    """
    if isinstance(engine, OwnEngine):
        return _BESIDE if is_memory(engine.url) else _MOST
    pool = engine.pool
    if isinstance(pool, QueuePool):
        overflow: int = pool._max_overflow  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - it has no other name
        return min(_BESIDE * (pool.size() + overflow), _MOST) if pool.size() and overflow >= 0 else _MOST
    return _MOST if isinstance(pool, NullPool) else _BESIDE


class Workers:
    """Runs blocking calls on at most so many daemon threads, which start when they are needed.

    For every event loop of the process, and after a fork anew in the child. `close` lets what was asked for be
    done and then ends the threads; a later call starts others.
    """

    def __init__(self, size: Callable[[], int]) -> None:
        self._size = size
        self._pools: dict[int, _Pool] = {}
        finalize(self, _stop_all, self._pools).atexit = False

    async def run(self, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Wait for a call, which sees the caller's context variables.

        Where the waiting task is cancelled, a call that has begun goes on to its end, one that has not is left out.
        """
        job = _Job(Future(), copy_context(), partial(call, *args, **options))
        self._pool().submit(job)
        result: T = await asyncio.wrap_future(job.future)
        return result

    def close(self) -> None:
        """End the threads, each when it has nothing more to do."""
        if (pool := self._pools.pop(os.getpid(), None)) is not None:
            pool.stop()

    def _pool(self) -> "_Pool":
        process = os.getpid()
        if (pool := self._pools.get(process)) is None:
            # without a lock, which a fork could leave locked: of two that are made at once one is kept
            pool = self._pools.setdefault(process, _Pool(self._size()))
        return pool


class _Job(NamedTuple):
    future: Future[Any]
    context: Context
    call: Callable[[], Any]

    def do(self) -> None:
        """Do it, unless nobody waits for it any more."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.context.run(self.call)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class _Pool:
    """The threads of one process. No method waits for a lock: they are called on the event loop."""

    def __init__(self, size: int) -> None:
        self.threads: list[Thread] = []
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()
        """An item for each thread that waits for a job."""
        self._startable: SimpleQueue[None] = SimpleQueue()
        """An item for each thread that may still be started."""
        for _ in range(size):
            self._startable.put(None)

    def submit(self, job: _Job) -> None:
        """Have a thread do it, a new one where all are busy and there may be more."""
        self._jobs.put(job)
        if not _taken(self._idle) and _taken(self._startable):
            thread = Thread(
                target=_work, args=(self._jobs, self._idle), name=f"compaction-database-{next(_numbers)}", daemon=True
            )
            _POOLS.add(self)
            self.threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Let every thread end after the jobs that are there."""
        for _ in self.threads:
            self._jobs.put(None)


def _taken(items: SimpleQueue[None]) -> bool:
    try:
        items.get_nowait()
    except Empty:
        return False
    return True


def _work(jobs: SimpleQueue[_Job | None], idle: SimpleQueue[None]) -> None:
    while True:
        try:
            job = jobs.get_nowait()
        except Empty:
            idle.put(None)
            job = jobs.get()
        if job is None:
            return
        job.do()
        del job  # with what its caller gave it, while the thread waits for the next


def _stop_all(pools: dict[int, _Pool]) -> None:
    if (pool := pools.pop(os.getpid(), None)) is not None:
        pool.stop()


_POOLS: WeakSet[_Pool] = WeakSet()


@atexit.register
def _finish() -> None:
    """Give what is under way a moment to end: killed in between, it would be undone as a whole."""
    ends = time.monotonic() + EXIT_S
    started = list(_POOLS)
    for pool in started:
        pool.stop()
    for thread in (thread for pool in started for thread in pool.threads):
        thread.join(max(0.0, ends - time.monotonic()))
