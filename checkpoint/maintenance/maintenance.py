"""Operations of a saver on whole threads: retention, copies, statistics, leases and the rotation of keys."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from uuid import uuid4

from langgraph.checkpoint.serde.base import SerializerProtocol

from ..checkpoints.metadata_hashes import hashes_for_database
from ..compaction.search_index import INDEXES
from ..db.database import Database
from ..db.thread_row import LONGEST_LEASE_S, Lease, Thread, check_lease, release_lease, take_lease
from ..db.transaction import Transaction
from ..errors import LeaseError
from ..messages.message_store import MessageStore
from . import retention, stats, thread_copies
from .stats import ThreadStats


@dataclass(frozen=True, slots=True)
class ThreadMaintenance:
    """The operations on whole threads of one database; `SQLAlchemySaver` documents the methods of the same names."""

    database: Database
    store: MessageStore
    now: Callable[[], float]

    def erase(self, thread_ids: Iterable[str]) -> None:
        """Erase threads, each in a transaction of its own."""
        for thread_id in map(str, thread_ids):
            self._change(thread_id, partial(retention.erase, now=self.now()))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase the checkpoints of runs, with everything that only these checkpoints refer to."""
        runs = [str(run) for run in run_ids]
        for thread_id in self.database.run_read(lambda transaction: retention.threads_of_runs(transaction, runs)):
            self._change(thread_id, lambda transaction, thread: retention.delete_runs(transaction, thread, runs))

    def copy_thread(self, serde: SerializerProtocol, source: str, target: str) -> None:
        """Copy a thread; raise ValueError if the target thread already holds anything."""
        copy = partial(thread_copies.copy, store=self.store, serde=serde)
        self.database.run_write(partial(copy, source_id=str(source), target_id=str(target)))
        self.database.known_threads.forget([str(target)])

    def prune(
        self,
        serde: SerializerProtocol,
        thread_ids: Sequence[str],
        *,
        strategy: str,
        keep_last: int | None,
        older_than: float | None,
        archive: Literal["keep", "drop"],
    ) -> None:
        """Erase old checkpoints of threads, each thread in a transaction of its own."""
        if isinstance(thread_ids, str):
            raise TypeError("thread_ids is a sequence of thread ids, not one str")
        if strategy not in {"keep_latest", "delete", "delete_all"}:
            raise ValueError(f"the strategies are 'keep_latest' and 'delete', not {strategy!r}")
        if keep_last is not None and keep_last < 1:
            raise ValueError(f"keep_last is at least 1, not {keep_last}; to keep nothing, delete the thread")
        if strategy != "keep_latest":
            self.erase(thread_ids)
            return
        since = None if older_than is None else self.now() - older_than
        keep = retention.Keep(last=1 if keep_last is None else keep_last, since=since, archive=archive == "keep")
        for thread_id in thread_ids:
            self._change(
                str(thread_id), lambda transaction, thread: retention.prune(transaction, thread, serde, keep)
            )

    def idle(self, until: float) -> list[str]:
        """Return the ids of the threads that were last written to before `until` (Unix seconds)."""
        return self.database.run_read(lambda transaction: retention.idle(transaction, until))

    def sweep(self, older_than: float) -> list[str]:
        """Erase every thread that was not written to for `older_than` seconds, and return their ids."""
        until = self.now() - older_than
        erase = partial(retention.erase_idle, store=self.store, until=until)
        swept = [name for name in self.idle(until) if self.database.run_write(partial(erase, thread_id=name))]
        self._forget_cached(swept)
        return swept

    def stats(self, thread_id: str | None) -> list[ThreadStats]:
        """Return the statistics of one thread, or of all threads."""
        return self.database.run_read(partial(stats.stats, thread_id=thread_id))

    def threads(self, prefix: str | None = None, metadata: Mapping[str, Any] | None = None) -> list[str]:
        """Return the ids of the threads that may be wanted: metadata are compared by their hashes only."""
        if prefix == "" or (metadata is not None and not metadata):
            raise ValueError("an empty prefix, and empty metadata, would mean every thread: leave them out")
        hashes = hashes_for_database(self.store.threads.keys, metadata or {})
        return self.database.run_read(lambda transaction: retention.names(transaction, prefix, hashes))

    def rotate(self) -> int:
        """Use the current key for all rows that another key encrypted; return the number of changed rows."""
        rotate = partial(thread_copies.rotate, store=self.store)
        return sum(self.database.run_write(partial(rotate, thread_id=name)) for name in self.threads())

    def take_lease(self, thread_id: str, lease: Lease) -> bool:
        """Take a thread's lease; return False if another writer holds the lease."""

        def work(transaction: Transaction) -> bool:
            thread = self.store.threads.lock(transaction, thread_id)
            taken = take_lease(thread, lease, self.now())
            self.store.threads.save(transaction, thread)
            return taken

        return self.database.run_write(work)

    def release_lease(self, thread_id: str, lease: Lease) -> None:
        """Give a thread's lease back."""

        def work(transaction: Transaction) -> None:
            thread = self.store.threads.find(transaction, thread_id)
            if thread is not None:
                release_lease(thread, lease)
                self.store.threads.save(transaction, thread)

        self.database.run_write(work)

    def _change(self, thread_id: str, change: Callable[[Transaction, Thread], None]) -> None:
        """Change a thread that exists, under the lock of its row, and remove its messages from the caches."""

        def work(transaction: Transaction) -> None:
            thread = self.store.threads.find(transaction, thread_id)
            if thread is not None:
                check_lease(thread, self.now())
                change(transaction, thread)

        self.database.run_write(work)
        self._forget_cached([thread_id])

    def _forget_cached(self, thread_ids: Sequence[str]) -> None:
        self.database.known_threads.forget(thread_ids)
        for thread_id in thread_ids:
            INDEXES.drop(self.database.engine.pool, thread_id)


def new_lease(ttl: float) -> Lease:
    """Return a lease of `ttl` seconds that nobody holds; raise ValueError unless 0 < `ttl` <= a day."""
    if not 0 < ttl <= LONGEST_LEASE_S:
        raise ValueError(f"a lease lasts more than 0 and at most {LONGEST_LEASE_S:.0f} s, not {ttl}")
    return Lease(uuid4().hex, ttl)


def held_by_another(thread_id: str) -> LeaseError:
    """Return the error for a lease that another writer holds."""
    return LeaseError(f"thread {thread_id!r} is leased to another writer; wait for it with wait=seconds")
