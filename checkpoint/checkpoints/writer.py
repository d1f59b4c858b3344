"""Writes checkpoints and pending writes: each thread's row is locked or compared first, and then saved.

Writers that would wait for each other share a transaction: whoever gets the turn writes all that have come meanwhile.
On SQLite one writer at a time can write to the file, so all writers of a database take turns; on a server the writers
of one thread do. On PostgreSQL one statement writes everything, if the thread's row still has the stamp that this
process knows; otherwise, and on other databases, a transaction locks the row and writes the rows one by one.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cache, partial
from time import perf_counter
from typing import Any
from weakref import WeakValueDictionary

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from ..db import tables
from ..db.database import Database
from ..db.thread_row import SAVED, Thread, Threads, new_stamp, noted, saved
from ..db.transaction import SINGLE, WRITES, Transaction
from ..errors import DatabaseError
from ..messages import items
from ..messages.items import Batch
from . import checkpoint_rows, pending_writes
from .checkpoint_rows import CheckpointRow
from .pending_writes import TaskWrites

_MOST_JOBS = 16
_LONGEST_WAIT_S = 0.02


class NeedsTransactionError(Exception):
    """A write has to read rows, or to change rows that exist."""


@dataclass(slots=True)
class Change:
    """What one transaction changes in a thread."""

    thread: Thread
    batch: Batch
    transaction: Transaction | None = None
    """None if a single statement is to write the change: then nothing can be read."""
    checkpoints: list[CheckpointRow] = field(default_factory=list[CheckpointRow])
    writes: list[TaskWrites] = field(default_factory=list[TaskWrites])
    newest: dict[str, str] = field(default_factory=dict[str, str])
    """The id of the newest checkpoint that is new to the thread, by namespace."""

    def reading(self) -> Transaction:
        """Return the transaction, to read rows of the thread; raise NeedsTransactionError if there is none."""
        if self.transaction is None:
            raise NeedsTransactionError
        return self.transaction

    def add_checkpoint(self, row: CheckpointRow) -> None:
        """Add a checkpoint, which has the batch's next number."""
        self.checkpoints.append(row)
        self.batch.next_checkpoint += 1

    def newest_id(self, namespace: str) -> str | None:
        """Return the id of a namespace's newest checkpoint, or None if it is not known."""
        added = (one.id for one in reversed(self.checkpoints) if one.namespace == namespace)
        return next(added, None) or self.newest.get(namespace) or self.thread.newest.get(namespace)


Work = Callable[[Change], None]


class _Job:
    __slots__ = ("context", "done", "error", "key", "thread_id", "work")

    def __init__(self, thread_id: str, work: Work) -> None:
        self.thread_id = thread_id
        self.work = work
        # another OS thread may run the job, and the context tells which leases are held
        self.context = copy_context()
        self.key = 0
        self.done = False
        self.error: Exception | None = None


class _Turns:
    """The writers that take turns."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.jobs: list[_Job] = []
        """Each is here until the OS thread that added it removes it: an interrupt of another one cannot lose it."""
        self.has_come = threading.Event()

    def waiting(self) -> list[_Job]:
        """Return the jobs that have yet to be written, in the order in which they came."""
        return [one for one in self.jobs.copy() if not one.done]


class Writer:
    """Writes to the threads of one database. Every method can be called from any OS thread."""

    def __init__(self, database: Database, threads: Threads) -> None:
        self._database = database
        self._threads = threads
        self._write_s = 0.0
        """About how long a write takes, in seconds."""
        self._begin()

    def run(self, thread_id: str, work: Work, *, waits: bool = False) -> int:
        """Run `work`, which adds rows to a `Change`, and return the key of the thread's row after the commit.

        `waits` says that another write to the thread probably follows at once: on a server, `work` waits to be
        written together with it, but not longer than a write takes. Two runs of `work` must have the same effect as
        one, because a connection may be lost after the commit.
        """
        return self._database.retry(partial(self._take_turn, thread_id, work, waits=waits))

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._file = _Turns()
        self._by_thread: WeakValueDictionary[str, _Turns] = WeakValueDictionary()

    def _turns(self, thread_id: str) -> _Turns:
        if self._process != os.getpid():  # a forked child does not wait for OS threads of its parent
            self._begin()
        if self._database.is_sqlite:
            return self._file
        with self._lock:
            turns = self._by_thread.get(thread_id)
            if turns is None:
                self._by_thread[thread_id] = turns = _Turns()
            return turns

    def _take_turn(self, thread_id: str, work: Work, *, waits: bool) -> int:
        job, turns = _Job(thread_id, work), self._turns(thread_id)
        try:
            turns.jobs.append(job)
            if not self._database.is_sqlite:
                turns.has_come.set()
            with turns.lock:
                if not job.done and waits and not self._database.is_sqlite:
                    turns.has_come.clear()
                    if turns.waiting() == [job]:
                        turns.has_come.wait(self._write_s)
                while not job.done:
                    self._lead(turns.waiting()[:_MOST_JOBS])
        finally:  # after an interrupt such as Ctrl-C, nobody may store later what the caller took back
            with suppress(ValueError):
                turns.jobs.remove(job)
        if isinstance(job.error, DatabaseError):  # several OS threads may raise it
            raise type(job.error)(*job.error.args) from job.error.__cause__
        if job.error is not None:
            raise job.error
        return job.key

    def _lead(self, jobs: list[_Job]) -> None:
        """Write jobs together; if that fails, write each of them alone, so that an error reaches its own job only."""
        begun: list[Transaction] = []
        try:
            self._write(jobs, begun)
        except Exception as error:  # noqa: BLE001 - whose job it is raises it
            if len(jobs) == 1 or (not begun and isinstance(error, DatabaseError)):
                for one in jobs:  # each raises it: nobody reaches the database
                    one.error = error
            else:
                for one in jobs:
                    self._lead([one])
        for one in jobs:
            one.done = True

    def _write(self, jobs: list[_Job], begun: list[Transaction]) -> None:
        begun_s = perf_counter()
        if not (self._database.can_read_at_once and self._write_at_once(jobs)):
            self._write_by_transaction(jobs, begun)
        self._write_s = (self._write_s + min(perf_counter() - begun_s, _LONGEST_WAIT_S)) / 2

    def _write_by_transaction(self, jobs: list[_Job], begun: list[Transaction]) -> None:
        def work(transaction: Transaction) -> list[Change]:
            begun.append(transaction)
            return self._write_in_transaction(transaction, jobs)

        for change in self._database.run(WRITES, work):
            self._note_committed(change)

    def _write_in_transaction(self, transaction: Transaction, jobs: list[_Job]) -> list[Change]:
        changes: dict[str, Change] = {}
        for job in jobs:
            change = changes.get(job.thread_id)
            if change is None:
                thread = self._threads.lock(transaction, job.thread_id)
                if thread.seqs is None:
                    thread.seqs = items.read_hashes(transaction, thread)
                changes[job.thread_id] = change = Change(thread, Batch(thread), transaction)
            job.context.run(job.work, change)
            _store(transaction, change)
            job.key = change.thread.id
        for change in changes.values():
            change.batch.count()
            items.pack_old(transaction, change.thread)
            self._threads.save(transaction, change.thread)
        return list(changes.values())

    def _write_at_once(self, jobs: list[_Job]) -> bool:
        """Write jobs of one thread in one statement of PostgreSQL, if its row is as it is known, or absent.

        Return False if nothing was written, also after any error: a transaction then does the same work again, under
        the row's lock, where an error is certain.
        """
        known = self._threads.known.get(jobs[0].thread_id)
        if known is not None and (known.seqs is None or known.packed < items.packs_due(known.next_seq)):
            return False
        try:
            change = self._database.run(SINGLE, partial(self._try_at_once, jobs, known))
        except Exception:  # noqa: BLE001 - see above
            return False
        if change is not None:
            for job in jobs:
                job.key = change.thread.id
            self._note_committed(change)
        return change is not None

    def _try_at_once(self, jobs: list[_Job], known: Thread | None, transaction: Transaction) -> Change | None:
        """Return what was written, or None if nothing was."""
        row: dict[str, Any] = {}
        if known is None:
            thread, salt = self._threads.new(self._threads.known.reserved.take(transaction), jobs[0].thread_id)
            row |= {"thread_id": thread.thread_id, "salt": salt}
        else:
            thread = replace(known)
            row["before"] = known.stamp
        change = Change(thread, Batch(thread))
        for job in jobs:
            job.context.run(job.work, change)
        change.batch.count()
        thread.stamp, thread.updated_at = new_stamp(), self._threads.now()
        row |= {"key": thread.id, **saved(thread)}
        rows = _rows(change)
        counts = [*map(len, rows.values())]
        if max(counts) > _MOST_ROWS:
            return None
        for table, some in rows.items():
            row |= {
                f"{table.name}_{at}_{name}": one for at, columns in enumerate(some) for name, one in columns.items()
            }
        [written] = transaction.run(_at_once(*counts, is_new=known is None), row).fetchone()
        return change if written else None

    def _note_committed(self, change: Change) -> None:
        thread, batch = change.thread, change.batch
        if thread.seqs is not None:
            thread.seqs.update(batch.seqs)
        added = {one.namespace: one.id for one in change.checkpoints}
        thread.lists = noted(thread.lists, batch.lists)
        thread.newest = noted(thread.newest, change.newest | added)
        self._threads.known.keep(thread)


def _store(transaction: Transaction, change: Change) -> None:
    thread, batch = change.thread, change.batch
    if batch.items:
        items.insert(transaction, batch.items)
        batch.items = []
    for row in change.checkpoints:
        if checkpoint_rows.put(transaction, thread, row):
            change.newest[row.namespace] = row.id
        else:
            batch.next_checkpoint -= 1
    for one in change.writes:
        pending_writes.put(transaction, thread, one)
    change.checkpoints, change.writes = [], []


_MOST_ROWS = 6
"""Rows of a table that one statement writes: there is a statement for each number of rows of the three tables."""


def _rows(change: Change) -> dict[sa.Table, list[dict[str, Any]]]:
    thread = change.thread
    return {
        tables.item: change.batch.items,
        tables.checkpoint: [one.columns(thread) for one in change.checkpoints],
        tables.write: [pending_writes.columns(thread, one) for one in change.writes],
    }


@cache
def _at_once(*counts: int, is_new: bool) -> sa.Select[int]:
    """Return the statement that writes a change if the thread's row has the stamp `before`; it returns 1 or 0.

    `counts` are the numbers of rows of the tables. For a new thread it inserts the row, and writes the rest only if
    there was none. It raises an error and writes nothing if another row to insert exists already.
    """
    row = tables.thread.c
    values = {name: sa.bindparam(name, type_=row[name].type) for name in SAVED}
    key = sa.bindparam("key", type_=row.id.type)
    if is_new:
        own = {name: sa.bindparam(name, type_=row[name].type) for name in ("thread_id", "salt")}
        saving: Any = postgresql.insert(tables.thread).values({**values, **own, "id": key}).on_conflict_do_nothing()
    else:
        same = row.stamp == sa.bindparam("before", type_=row.stamp.type)
        saving = sa.update(tables.thread).where(row.id == key, same).values(values)
    done = saving.returning(row.id).cte("done")
    whole = sa.select(sa.func.count()).select_from(done)
    for table, count in zip((tables.item, tables.checkpoint, tables.write), counts, strict=True):
        names = [one.name for one in table.c if one.name != "thread"]
        rows = [
            sa.select(
                done.c.id, *(sa.cast(sa.bindparam(f"{table.name}_{at}_{name}"), table.c[name].type) for name in names)
            )
            for at in range(count)
        ]
        if rows:
            insert = sa.insert(table).from_select(["thread", *names], sa.union_all(*rows))
            whole = whole.add_cte(insert.cte(f"into_{table.name}"))
    return whole
