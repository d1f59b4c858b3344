"""Group commit: waiting writers share one transaction, because a commit costs the same for one write as for many."""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.pool import Pool

from ..db.database import Database
from ..db.guarded_write import ExpectedRow, RememberedThreads, ReservedKeys, absent, statement, unchanged
from ..db.thread_row import CachedThreads, Thread, cache_threads, new_stamp, take_cached_threads
from ..db.write_recorder import WriteRecorder
from ..errors import DatabaseError
from .message_store import MessageStore

T = TypeVar("T")
Work = Callable[[sa.Connection, Thread], T]
_MAX_JOBS = 16
_LONGEST_WAIT_S = 0.02


class _Job(Generic[T]):
    """A write that waits for its turn.

    The OS thread of the job waits for the lock `turn`. The lock is released once another job has written this job,
    this job has failed, or this job becomes the leader: the job that writes the next transaction.
    """

    __slots__ = ("alone", "context", "error", "leads", "left", "result", "thread_id", "turn", "waits", "work")

    def __init__(self, thread_id: str, work: Work[T], *, waits: bool = False) -> None:
        self.thread_id = thread_id
        self.work = work
        self.waits = waits
        # the caller's lease is in a context variable, and another OS thread can run the job
        self.context = copy_context()
        self.alone = self.leads = self.left = False
        self.result: list[T] = []
        self.error: DatabaseError | None = None
        self.turn = threading.Lock()
        self.turn.acquire()


class _Queue:
    """The jobs that wait for the current writer. Every method is called with the lock of `GroupCommit` held."""

    def __init__(self) -> None:
        self._jobs: deque[_Job[Any]] = deque()
        self.has_jobs = threading.Event()

    def add(self, job: _Job[Any]) -> None:
        self._jobs.append(job)
        self.has_jobs.set()

    def take(self) -> list[_Job[Any]]:
        """Remove and return the first jobs, 16 at most, up to but not including a job that must be written alone."""
        taken: list[_Job[Any]] = []
        while self._jobs and len(taken) < _MAX_JOBS and not self._jobs[0].alone:
            taken.append(self._jobs.popleft())
        if not self._jobs:
            self.has_jobs.clear()
        return taken

    def give_back(self, jobs: list[_Job[Any]], *, alone: bool = True) -> None:
        """Put taken jobs back to the front of the queue; with `alone`, mark each to be written alone."""
        for one in jobs:
            one.alone, one.result = alone, []
        self._jobs.extendleft(one for one in reversed(jobs) if not one.left)

    def leave(self, job: _Job[Any]) -> None:
        """Remove a job whose caller no longer waits, for example after an interrupt."""
        job.left = True
        if job in self._jobs:
            self._jobs.remove(job)

    def fail(self, error: DatabaseError) -> None:
        """Fail all queued jobs: the database is unreachable, so each job would only wait for the same error."""
        while self._jobs:
            job = self._jobs.popleft()
            job.error = error
            job.turn.release()

    def pass_on(self) -> bool:
        """Make the next job the leader and return True; return False if no job waits."""
        if not self._jobs:
            return False
        job = self._jobs.popleft()
        if not self._jobs:
            self.has_jobs.clear()
        job.leads = True
        job.turn.release()
        return True


class GroupCommit:
    """Runs writes in transactions that several OS threads share if they would otherwise wait for each other.

    SQLite has one writer at a time, so there all writers of a saver share one queue; on other databases each
    conversation has its own queue. The first writer leads: it writes its own job and the jobs that have arrived
    meanwhile, and commits. If one job fails, nothing is committed, and each job is written again in a transaction of
    its own, so that an error reaches only the job that caused it.
    """

    def __init__(self, database: Database, store: MessageStore) -> None:
        self._database = database
        self._store = store
        self._one_queue = database.is_sqlite
        self._lock = threading.Lock()
        self.remembered = RememberedThreads()
        """Rows of threads that PostgreSQL can compare with, so that one statement writes a group of jobs."""
        self._keys = ReservedKeys()
        self._statement_s = 0.0
        """About how long such a statement takes, in seconds."""
        # one entry per pool: a forked child process has its own pool, and so does not wait for jobs of its parent
        self._queues: WeakKeyDictionary[Pool, dict[str, _Queue]] = WeakKeyDictionary()

    def run(self, thread_id: str, work: Work[T], *, waits: bool = False) -> T:
        """Call `work` with the locked row of a conversation; the row is created if needed and saved afterwards.

        `waits` says that another write to the conversation probably follows at once: if one statement can write both,
        `work` waits for the other write, but not longer than such a statement takes.

        Two calls of `work` must have the same effect as one, because a connection may be lost after the commit.
        """
        name = "" if self._one_queue else thread_id
        return self._database.retry(partial(self._queue_up, name, thread_id, work, waits=waits))

    def _queue_up(self, name: str, thread_id: str, work: Work[T], *, waits: bool) -> T:
        job = _Job(thread_id, work, waits=waits)
        with self._lock:
            queues = self._queues.setdefault(self._database.engine.pool, {})
            job.leads = name not in queues
            queue = queues.setdefault(name, _Queue())
            if not job.leads:
                queue.add(job)
        try:
            if not job.leads:
                job.turn.acquire()
            if job.leads and not self._lead_guarded(queue, job):
                self._lead(queue, job)
        finally:  # the next job becomes the leader, also after an interrupt such as Ctrl-C
            with self._lock:
                queue.leave(job)
                if job.leads and not queue.pass_on():
                    del queues[name]
        if job.error is not None:
            raise DatabaseError(*job.error.args) from job.error.__cause__
        return job.result[0]

    def _lead_guarded(self, queue: _Queue, job: _Job[Any]) -> bool:
        """Write a job and the waiting jobs in one statement, if the thread's row is as it is remembered, or absent.

        Return False if nothing was written: because the row has changed, because the jobs must read rows, or after
        any error. `_lead` then writes the jobs under the row's lock, where an error is certain.
        """
        if job.alone or not self._database.is_postgresql:
            return False
        others: list[_Job[Any]] = []
        try:
            if (known := self._expected(job.thread_id)) is None:
                return False
            thread, expected = known
            recorder, threads = WriteRecorder(), {job.thread_id: thread}
            self._do(recorder, job, threads, {})
            if job.waits:
                queue.has_jobs.wait(self._statement_s)
            with self._lock:
                others = queue.take()
            for one in others:
                self._do(recorder, one, threads, {})
            before, thread.stamp, thread.updated_at = thread.stamp, new_stamp(), self._store.threads.now()
            query, values = statement(recorder.changes, expected, thread)
            begun_s = time.perf_counter()
            with self._database.single_statements() as conn:
                written = conn.execute(query, values).scalar_one()
            if written:
                thread.note_new_stamp(before)
                self.remembered.keep(thread)
            taken_s = min(time.perf_counter() - begun_s, _LONGEST_WAIT_S)
            self._statement_s = (self._statement_s + taken_s) / 2
        except Exception:  # noqa: BLE001 - `_lead` does the same work again, and raises its error
            written = False
        except BaseException:
            with self._lock:
                queue.give_back(others, alone=False)
            raise
        if written:
            for one in others:
                one.turn.release()
        else:
            with self._lock:
                queue.give_back(others, alone=False)
        return bool(written)

    def _expected(self, thread_id: str) -> tuple[Thread, ExpectedRow] | None:
        """Return a thread as it is remembered, or a new thread, with its row; None if the row is not remembered."""
        if (thread := self.remembered.take(thread_id)) is not None:
            return thread, unchanged(thread)
        if not self.remembered.take_absent(thread_id):
            return None
        key = self._keys.take(self._database.single_statements)
        thread, salt = self._store.threads.new(key, thread_id)
        return thread, absent(thread, salt)

    def _lead(self, queue: _Queue, job: _Job[Any]) -> None:
        """Write a job together with the waiting jobs; if one of these jobs fails, write the first job alone."""
        others: list[_Job[Any]] = []
        begun = False
        cached: CachedThreads | None = None
        threads: dict[str, Thread] = {}
        uses_cache = self._database.caches_thread_rows
        try:
            with self._database.write() as conn:
                begun = True
                known = take_cached_threads(conn, self._database.change_stamp(conn)) if uses_cache else {}
                self._do(conn, job, threads, known)
                with self._lock:
                    others = [] if job.alone else queue.take()
                for one in others:
                    self._do(conn, one, threads, known)
                for thread in threads.values():
                    self._store.threads.save(conn, thread)
                if uses_cache:
                    # jobs change only the rows of their own conversations, so the other cached rows are still valid
                    cached = cache_threads(conn, self._database.change_stamp(conn), {**known, **threads})
            if cached is not None:
                cached.committed = True
        except BaseException as error:
            with self._lock:
                queue.give_back(others)
                if not begun and isinstance(error, DatabaseError):
                    queue.fail(error)
            if not (others and isinstance(error, Exception)):
                raise
        else:
            self._remember(threads)
            for one in others:
                one.turn.release()
            return
        job.alone = True
        self._lead(queue, job)

    def _remember(self, threads: dict[str, Thread]) -> None:
        """Remember threads for `_lead_guarded`; the caller calls this method after the commit."""
        if self._database.is_postgresql:
            for thread in threads.values():
                self.remembered.keep(thread)

    def _do(self, conn: sa.Connection, job: _Job[Any], threads: dict[str, Thread], known: dict[str, Thread]) -> None:
        if (thread := threads.get(job.thread_id)) is None:
            thread = known.pop(job.thread_id, None) or self._store.thread(conn, job.thread_id)
            threads[job.thread_id] = thread
        job.result = [job.context.run(job.work, conn, thread)]
