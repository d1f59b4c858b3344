"""Group commit: who would write while another writes is written with it, as a commit costs the same for all."""

import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.pool import Pool

from ..db.database import Database
from ..db.thread_row import Thread
from ..db.thread_row_cache import Left, leave, left
from ..errors import DatabaseError
from .message_store import MessageStore

T = TypeVar("T")
Work = Callable[[sa.Connection, Thread], T]
_MOST = 16


class _Job(Generic[T]):
    """Something to write. Its `turn` comes once it is written, has failed, or may be written by who brought it."""

    __slots__ = ("alone", "context", "error", "leads", "left", "result", "thread_id", "turn", "work")

    def __init__(self, thread_id: str, work: Work[T]) -> None:
        self.thread_id = thread_id
        self.work = work
        self.context = copy_context()  # who holds a lease is known by it
        self.alone = self.leads = self.left = False
        self.result: list[T] = []
        self.error: DatabaseError | None = None
        self.turn = threading.Lock()
        self.turn.acquire()


class _Queue:
    """Those who wait while somebody writes. Every method is called under the lock."""

    def __init__(self) -> None:
        self._jobs: deque[_Job[Any]] = deque()

    def add(self, job: _Job[Any]) -> None:
        self._jobs.append(job)

    def take(self) -> list[_Job[Any]]:
        """Take the first of them, up to one who must be written alone."""
        taken: list[_Job[Any]] = []
        while self._jobs and len(taken) < _MOST and not self._jobs[0].alone:
            taken.append(self._jobs.popleft())
        return taken

    def give_back(self, jobs: list[_Job[Any]]) -> None:
        """Let jobs that were taken be written each alone, before all others."""
        for one in jobs:
            one.alone, one.result = True, []
        self._jobs.extendleft(one for one in reversed(jobs) if not one.left)

    def leave(self, job: _Job[Any]) -> None:
        """Wait no longer: also who is interrupted is waited for by nobody."""
        job.left = True
        if job in self._jobs:
            self._jobs.remove(job)

    def fail(self, error: DatabaseError) -> None:
        """Let all fail: they would wait as long again for the same, one after another."""
        while self._jobs:
            job = self._jobs.popleft()
            job.error = error
            job.turn.release()

    def pass_on(self) -> bool:
        """Let the next write; False where nobody waits."""
        if not self._jobs:
            return False
        job = self._jobs.popleft()
        job.leads = True
        job.turn.release()
        return True


class Together:
    """Transactions that several threads share where they would wait for each other.

    On SQLite, where one writes at a time, all of a saver wait for each other, elsewhere those of one
    conversation. The first to come writes; who comes while it does is written by it before it commits. Where one
    of them fails nothing stays, and each is done again by itself: an error reaches only who caused it.
    """

    def __init__(self, database: Database, store: MessageStore) -> None:
        self._database = database
        self._store = store
        self._all = database.is_sqlite
        self._lock = threading.Lock()
        # after a fork the engine has another pool, and nobody of the parent's is waited for
        self._queues: WeakKeyDictionary[Pool, dict[str, _Queue]] = WeakKeyDictionary()

    def run(self, thread_id: str, work: Work[T]) -> T:
        """Do `work` with the locked row of its conversation, which is created if needed and saved afterwards.

        As with `Database.run`, work must come to the same when it is done twice.
        """
        return self._database.again(partial(self._in_turn, "" if self._all else thread_id, thread_id, work))

    def _in_turn(self, name: str, thread_id: str, work: Work[T]) -> T:
        job = _Job(thread_id, work)
        with self._lock:
            queues = self._queues.setdefault(self._database.engine.pool, {})
            job.leads = name not in queues
            queue = queues.setdefault(name, _Queue())
            if not job.leads:
                queue.add(job)
        try:
            if not job.leads:
                job.turn.acquire()
            if job.leads:
                self._lead(queue, job)
        finally:  # also where Ctrl-C comes in between: the turn is passed on
            with self._lock:
                queue.leave(job)
                if job.leads and not queue.pass_on():
                    del queues[name]
        if job.error is not None:
            raise DatabaseError(*job.error.args) from job.error.__cause__
        return job.result[0]

    def _lead(self, queue: _Queue, job: _Job[Any]) -> None:
        """Write a job, and those who wait by then unless one of them failed before."""
        others: list[_Job[Any]] = []
        begun = False
        last: Left | None = None
        threads: dict[str, Thread] = {}
        try:
            with self._database.write() as conn:
                begun = True
                known = left(conn, self._database.stamp(conn)) if self._database.keeps else {}
                self._do(conn, job, threads, known)
                with self._lock:
                    others = [] if job.alone else queue.take()
                for one in others:
                    self._do(conn, one, threads, known)
                for thread in threads.values():
                    self._store.threads.save(conn, thread)
                if self._database.keeps:
                    # a job changes the row of its own thread alone
                    last = leave(conn, self._database.stamp(conn), {**known, **threads})
        except BaseException as error:
            with self._lock:
                queue.give_back(others)
                if not begun and isinstance(error, DatabaseError):
                    queue.fail(error)
            if not (others and isinstance(error, Exception)):
                raise
        else:
            if last is not None:
                last.committed = True
            for one in others:
                one.turn.release()
            return
        job.alone = True
        self._lead(queue, job)

    def _do(self, conn: sa.Connection, job: _Job[Any], threads: dict[str, Thread], known: dict[str, Thread]) -> None:
        if (thread := threads.get(job.thread_id)) is None:
            thread = known.pop(job.thread_id, None) or self._store.thread(conn, job.thread_id)
            threads[job.thread_id] = thread
        job.result = [job.context.run(job.work, conn, thread)]
