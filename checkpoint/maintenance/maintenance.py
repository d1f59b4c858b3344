"""What a saver does with threads as a whole: retention, copies, figures, leases and keys."""

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal
from uuid import uuid4

import sqlalchemy as sa

from ..checkpoints.operations import SaverCore
from ..db import leases
from ..db.leases import LONGEST_S, Lease
from ..db.thread_row import Thread
from ..errors import LeaseError
from . import retention, stats, thread_copies
from .stats import ThreadStats

PAUSE_S = 0.05
"""Seconds between two looks at a lease that is waited for."""

# inside the class `list` is a method
_Names = list[str]
_Stats = list[ThreadStats]


class Upkeep(SaverCore):
    """The core, and what keeps its database in order."""

    def delete_thread(self, thread_id: str) -> None:
        """Erase all that is kept of a thread, snapshots, ledger and archive included; all of it or nothing."""
        self._erase([thread_id])

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase the checkpoints of these runs, with their writes; what they alone held goes too."""
        runs = [str(run) for run in run_ids]
        for thread_id in self.database.look(lambda conn: retention.threads_of_runs(conn, runs)):
            self._change(thread_id, lambda conn, thread: retention.delete_runs(conn, thread, runs))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all that is kept of a thread; ValueError where the target holds something already."""
        made = partial(thread_copies.copy, store=self.store, serde=self.serde)
        target = str(target_thread_id)
        self.database.run(partial(made, source_id=str(source_thread_id), target_id=target))
        self.memo.forget([target])

    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep_last: int | None = None,
        older_than: float | None = None,
        archive: Literal["keep", "drop"] = "keep",
    ) -> None:
        """Erase old checkpoints of threads, each thread in a transaction of its own, while writers may go on.

        "keep_latest" keeps the newest checkpoint of each namespace (with `keep_last` so many of them, with
        `older_than` also those of the last so many seconds), its pending writes, and the ancestors from which
        a delta channel is rebuilt; what a finished call of a subgraph left goes with the checkpoint it started
        from. "delete" (LangGraph's server says "delete_all") erases the threads. Snapshots and archive keep
        their messages, unless `archive="drop"`.
        """
        if isinstance(thread_ids, str):
            raise TypeError("thread_ids is a sequence of thread ids, not one str")
        if strategy not in {"keep_latest", "delete", "delete_all"}:
            raise ValueError(f"the strategies are 'keep_latest' and 'delete', not {strategy!r}")
        if keep_last is not None and keep_last < 1:
            raise ValueError(f"keep_last is at least 1, not {keep_last}; to keep nothing, delete the thread")
        if strategy != "keep_latest":
            self._erase(thread_ids)
            return
        since = None if older_than is None else self.now() - older_than
        keep = retention.Keep(last=1 if keep_last is None else keep_last, since=since, archive=archive == "keep")
        for thread_id in thread_ids:
            self._change(str(thread_id), lambda conn, thread: retention.prune(conn, thread, self.serde, keep))

    def sweep(self, older_than: float) -> _Names:
        """Erase every thread that nobody has written to for so many seconds, and return their ids."""
        until = self.now() - older_than
        names = self.database.look(lambda conn: retention.idle(conn, until))
        erase = partial(retention.erase_idle, store=self.store, until=until)
        swept = [name for name in names if self.database.run(partial(erase, thread_id=name))]
        self.memo.forget(swept)
        return swept

    def reclaim(self) -> None:
        """Write the tables anew, so that what was erased leaves neither bytes nor space behind.

        Erasing alone makes rows unreadable through the database; their bytes stay in free pages and in the
        write-ahead log until then. Writers wait meanwhile, on PostgreSQL readers too, and SQLite needs free disk
        space for a copy of the file. DatabaseError where another connection reads an old state for too long, on
        SQLite and PostgreSQL: call it again. A server's own logs, replicas and backups are not touched.
        """
        self.database.reclaim()

    def stats(self, thread_id: str | None = None) -> _Stats:
        """Return what each thread, or one, holds and takes. Bytes are those of the rows' bodies."""
        names = self.threads() if thread_id is None else [thread_id]
        found = [self.database.look(partial(stats.stats, store=self.store, thread_id=name)) for name in names]
        return [one for one in found if one is not None]

    def threads(self) -> _Names:
        """Return the ids of all threads, in the order in which they were first seen."""
        return self.database.look(retention.names)

    def rotate(self) -> int:
        """Encrypt anew, with the keyring's current key, all that another key encrypted; return the rows changed."""
        anew = partial(thread_copies.rotate, store=self.store)
        return sum(self.database.run(partial(anew, thread_id=name)) for name in self.threads())

    @contextmanager
    def lease(self, thread_id: str, ttl: float = 60.0, *, wait: float = 0.0) -> Generator[None]:
        """Hold a thread: inside the `with`, nobody else can write to it.

        Each write prolongs the lease to `ttl` seconds (at most a day) from then; without one it ends by itself.
        LeaseError where another holds the thread and has not let go within `wait` seconds.
        """
        lease = new_lease(ttl)
        deadline = time.monotonic() + wait
        while not self.take(thread_id, lease):
            if time.monotonic() >= deadline:
                raise held_by_another(thread_id)
            time.sleep(PAUSE_S)
        with leases.holding(thread_id, lease):
            try:
                yield
            finally:
                self.release(thread_id, lease)

    def _erase(self, thread_ids: Iterable[str]) -> None:
        for thread_id in map(str, thread_ids):
            self._change(thread_id, partial(retention.erase, now=self.now()))

    def _change(self, thread_id: str, change: Callable[[sa.Connection, Thread], None]) -> None:
        """Change a thread that exists, under its lock, and forget what is known of it."""

        def work(conn: sa.Connection) -> None:
            thread = self.store.find(conn, thread_id)
            if thread is not None:
                leases.check(thread, self.now())
                change(conn, thread)

        self.database.run(work)
        self.memo.forget([thread_id])

    def take(self, thread_id: str, lease: Lease) -> bool:
        """Take a thread's lease; False where another writer holds it."""

        def work(conn: sa.Connection) -> bool:
            thread = self.store.thread(conn, thread_id)
            taken = thread.lease == lease.token or leases.take(thread, lease, self.now())
            self.store.threads.save(conn, thread)
            return taken

        return self.database.run(work)

    def release(self, thread_id: str, lease: Lease) -> None:
        """Give a thread's lease back."""

        def work(conn: sa.Connection) -> None:
            thread = self.store.find(conn, thread_id)
            if thread is not None:
                leases.release(thread, lease)
                self.store.threads.save(conn, thread)

        self.database.run(work)


def new_lease(ttl: float) -> Lease:
    """Return a lease nobody has; ValueError for one of no length or of more than a day."""
    if not 0 < ttl <= LONGEST_S:
        raise ValueError(f"a lease lasts more than 0 and at most {LONGEST_S:.0f} s, not {ttl}")
    return Lease(uuid4().hex, ttl)


def held_by_another(thread_id: str) -> LeaseError:
    """Return the error for a lease that cannot be had."""
    return LeaseError(f"thread {thread_id!r} is leased to another writer; wait for it with wait=seconds")
