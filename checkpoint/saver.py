"""LangGraph's checkpointer on SQL. A thread grows with its messages, not with the square of their number.

The synchronous methods do the work. The asynchronous methods run the synchronous ones on worker threads of the
database. For SQLite these worker threads are twice as fast as an asynchronous driver, which changes OS threads for
each statement.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal, Self

import sqlalchemy as sa
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from .checkpoints.checkpoint_store import CheckpointStore, next_version
from .checkpoints.write_guards import ErasureGuard
from .checkpoints.writer import Writer
from .db.database import Database
from .db.row_codec import Keyring
from .db.thread_row import Threads, holding_lease
from .db.urls import MEMORY
from .maintenance.maintenance import ThreadMaintenance, held_by_another, new_lease
from .maintenance.stats import ThreadStats
from .messages.message_store import MessageStore
from .messages.strict_serde import StrictSerializer

_LEASE_PAUSE_S = 0.05
# aliases, because `list` names a method inside the class
_Names = list[str]
_Stats = list[ThreadStats]


class _Saver(BaseCheckpointSaver[Any]):
    """The methods that both savers have in common. Every method may be called from any OS thread."""

    def __init__(
        self,
        database: str | sa.Engine | Database = MEMORY,
        *,
        serde: SerializerProtocol | None = None,
        allow: Iterable[Any] = (),
        on_conflict: Literal["fork", "raise"] = "fork",
        keys: Keyring | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        if isinstance(serde, EncryptedSerializer):
            raise ValueError(  # noqa: TRY004 - the type is right, but messages would not be encrypted
                "an EncryptedSerializer would leave messages in plain text; encrypt everything with keys=Keyring(...)"
            )
        super().__init__(serde=serde or StrictSerializer(allow=allow))
        if on_conflict not in {"fork", "raise"}:
            raise ValueError(f"on_conflict is 'fork' or 'raise', not {on_conflict!r}")
        if isinstance(database, Database) and keys is not None:
            raise ValueError("this Database has its keys already; give them to Database.open")
        self._owns_database = not isinstance(database, Database)
        self.database = database if isinstance(database, Database) else Database.open(database, keys=keys)
        self.now = now
        threads = Threads(self.database.keys, now, self.database.known_threads)
        self.store = MessageStore(threads)
        self.checkpoints = CheckpointStore(
            self.database, threads, Writer(self.database, threads), ErasureGuard(self.database, now), on_conflict
        )
        self.maintenance = ThreadMaintenance(self.database, self.store, now)

    def close(self) -> None:
        """Close the connections, unless the database was given as a `Database`."""
        if self._owns_database:
            self.database.close()

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002 - LangGraph's signature
        """Return the channel version after `current`: a number after a number, a text after another saver's text."""
        return next_version(current)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the newest of the config's thread and namespace; or None.

        Raise RowError, which names the row, if a stored row is missing or damaged.
        """
        return self.checkpoints.get(self.serde, config)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Run `get_tuple` on a worker thread."""
        return await self.database.workers.run(self.get_tuple, config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's signature
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first: of a thread and namespace, of all namespaces, or of all threads.

        `filter` holds metadata keys and the values they must equal. No lock and no transaction is held between two
        items. A message that several of the yielded checkpoints hold is one object in all of these checkpoints.
        """
        for page in self.checkpoints.pages(self.serde, config, filter or {}, before, limit):
            yield from page

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's signature
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Run `list` on a worker thread, a page at a time."""
        pages = self.checkpoints.pages(self.serde, config, filter or {}, before, limit)
        while page := await self.database.workers.run(next, pages, None):
            for found in page:
                yield found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - changed values are found by comparing them
    ) -> RunnableConfig:
        """Store a checkpoint and return its config. A stored checkpoint with the same id is replaced.

        Raise ConflictError (with `on_conflict="raise"`) if the run builds on a checkpoint that is no longer the
        newest, LeaseError if another writer holds the thread's lease, ErasedThreadError if the thread was erased
        since the run began, and ValueTypeError for a value of a type that is not allowed. After each of these errors
        nothing has been written.
        """
        return self.checkpoints.put(self.serde, config, checkpoint, metadata)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Run `put` on a worker thread."""
        return await self.database.workers.run(self.put, config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's pending writes at a checkpoint: all of them or, with an error, none.

        The checkpoint itself may be stored later. Raise the same errors as `put`.
        """
        self.checkpoints.put_writes(self.serde, config, writes, task_id, task_path)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Run `put_writes` on a worker thread."""
        await self.database.workers.run(self.put_writes, config, writes, task_id, task_path)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return for each delta channel its first value, and the later writes of a checkpoint's ancestors."""
        return self.checkpoints.delta_history(self.serde, config, channels)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Run `get_delta_channel_history` on a worker thread."""
        return await self.database.workers.run(self.get_delta_channel_history, config=config, channels=channels)

    def delete_thread(self, thread_id: str) -> None:
        """Erase everything stored about a thread, including snapshots, ledger and archive, in one transaction."""
        self.maintenance.erase([thread_id])

    async def adelete_thread(self, thread_id: str) -> None:
        """Run `delete_thread` on a worker thread."""
        await self.database.workers.run(self.delete_thread, thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase the checkpoints and pending writes of these runs, and everything that only these rows refer to."""
        self.maintenance.delete_for_runs(run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Run `delete_for_runs` on a worker thread."""
        await self.database.workers.run(self.delete_for_runs, run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything stored about a thread; raise ValueError if the target thread already holds anything."""
        self.maintenance.copy_thread(self.serde, source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Run `copy_thread` on a worker thread."""
        await self.database.workers.run(self.copy_thread, source_thread_id, target_thread_id)

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

        "keep_latest" keeps the newest checkpoint of each namespace (with `keep_last`, that many of them; with
        `older_than`, also those of the last `older_than` seconds), their pending writes, and the ancestors from which
        delta channels are rebuilt. Checkpoints of a finished subgraph call are erased with the checkpoint that made
        the call. "delete" (LangGraph's server says "delete_all") erases the threads. Snapshots and archive keep their
        messages, unless `archive="drop"`.
        """
        self.maintenance.prune(
            self.serde, thread_ids, strategy=strategy, keep_last=keep_last, older_than=older_than, archive=archive
        )

    async def aprune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep_last: int | None = None,
        older_than: float | None = None,
        archive: Literal["keep", "drop"] = "keep",
    ) -> None:
        """Run `prune` on a worker thread."""
        await self.database.workers.run(
            self.prune, thread_ids, strategy=strategy, keep_last=keep_last, older_than=older_than, archive=archive
        )

    def sweep(self, older_than: float) -> _Names:
        """Erase every thread that was not written to for `older_than` seconds and is not leased; return their ids.

        Each thread is erased in a transaction of its own, which checks both again: several processes may sweep at
        once, while others write.
        """
        return self.maintenance.sweep(older_than)

    async def asweep(self, older_than: float) -> _Names:
        """Run `sweep` on a worker thread."""
        return await self.database.workers.run(self.sweep, older_than)

    def reclaim(self) -> None:
        """Rewrite the tables, so that erased data leaves neither bytes nor free space behind.

        Erased data cannot be read through the database, but until `reclaim` runs, the bytes of erased data stay in
        free pages and in the write-ahead log. While `reclaim` runs, writers wait (on PostgreSQL readers, too), and
        SQLite needs free disk space for a copy of the file. Raise DatabaseError if another connection keeps an
        older transaction open for too long, on SQLite and PostgreSQL (there also one that writes to another database
        of the server): then call `reclaim` again. A server's own logs, replicas and backups are not changed.
        """
        self.database.reclaim()

    async def areclaim(self) -> None:
        """Run `reclaim` on a worker thread."""
        await self.database.workers.run(self.reclaim)

    def stats(self, thread_id: str | None = None) -> _Stats:
        """Return statistics of one thread, or of every thread. Sizes in bytes count the bodies of the stored rows."""
        return self.maintenance.stats(thread_id)

    async def astats(self, thread_id: str | None = None) -> _Stats:
        """Run `stats` on a worker thread."""
        return await self.database.workers.run(self.stats, thread_id)

    def threads(self, prefix: str | None = None, metadata: Mapping[str, Any] | None = None) -> _Names:
        """Return the ids of all threads, or of some, in the order in which they were created.

        The ids begin with `prefix`, and a checkpoint of the thread has all items of `metadata`, compared as the
        `filter` of `list` is. Raise ValueError for an empty prefix and for empty metadata: they would mean all.
        """
        names = self.maintenance.threads(prefix, metadata)
        if metadata is None:
            return names
        wanted = dict(metadata)
        return [name for name in names if any(self.list(_thread(name), filter=wanted, limit=1))]

    async def athreads(self, prefix: str | None = None, metadata: Mapping[str, Any] | None = None) -> _Names:
        """Run `threads` on a worker thread."""
        return await self.database.workers.run(self.threads, prefix, metadata)

    def rotate(self) -> int:
        """Use the current key for all rows that another key encrypted; return the number of changed rows."""
        return self.maintenance.rotate()

    async def arotate(self) -> int:
        """Run `rotate` on a worker thread."""
        return await self.database.workers.run(self.rotate)

    @contextmanager
    def lease(self, thread_id: str, ttl: float = 60.0, *, wait: float = 0.0) -> Generator[None]:
        """Lease a conversation thread: inside the `with`, no other writer can write to the thread.

        Each write prolongs the lease to `ttl` seconds (at most a day) after the write; a lease without writes ends
        after `ttl` seconds. Raise LeaseError if another writer still holds the thread's lease after `wait` seconds.
        """
        lease = new_lease(ttl)
        deadline = time.monotonic() + wait
        while not self.maintenance.take_lease(thread_id, lease):
            if time.monotonic() >= deadline:
                raise held_by_another(thread_id)
            time.sleep(_LEASE_PAUSE_S)
        with holding_lease(thread_id, lease):
            try:
                yield
            finally:
                self.maintenance.release_lease(thread_id, lease)

    @asynccontextmanager
    async def alease(self, thread_id: str, ttl: float = 60.0, *, wait: float = 0.0) -> AsyncGenerator[None]:
        """Lease a conversation thread as `lease` does, for asynchronous code."""
        lease, run = new_lease(ttl), self.database.workers.run
        deadline = time.monotonic() + wait
        while not await run(self.maintenance.take_lease, thread_id, lease):
            if time.monotonic() >= deadline:
                raise held_by_another(thread_id)
            await asyncio.sleep(_LEASE_PAUSE_S)
        with holding_lease(thread_id, lease):
            try:
                yield
            finally:
                await run(self.maintenance.release_lease, thread_id, lease)


def _thread(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}


class SQLAlchemySaver(_Saver):
    """A LangGraph checkpointer on SQLite, PostgreSQL, MariaDB or MySQL.

        with SQLAlchemySaver.from_url("sqlite:///agent.db") as saver:
            saver.setup()
            graph = builder.compile(checkpointer=saver)

    Messages are stored once per thread, whatever checkpoint, pending write or fork refers to them. `database` is a
    URL, an `Engine`, a `Database` or "memory". All methods may be called from any OS thread, and their
    asynchronous twins from any event loop. `setup()` must have been called once on the database.

    - `serde`: serializer of values that are not messages; by default LangGraph's format, for LangGraph's safe types
      and the classes in `allow` only. Any other type raises ValueTypeError, which names it.
    - `on_conflict`: what happens to a run that builds on a checkpoint which is no longer the newest of its thread:
      "fork" stores the checkpoint, as every checkpointer does, and leaves the other run's checkpoints on a branch
      that nobody sees; "raise" raises ConflictError.
    - `keys`: the `Keyring` with which all stored messages, values, summaries and ledger texts are encrypted.
    """

    @classmethod
    @contextmanager
    def from_url(cls, url: str, **options: Any) -> Generator[Self]:
        """Open a database by its URL, and close the database at the end of the `with`."""
        saver = cls(url, **options)
        try:
            yield saver
        finally:
            saver.close()

    def setup(self) -> None:
        """Create the tables that are missing; several processes may call this method at once."""
        self.database.setup()


class AsyncSQLAlchemySaver(_Saver):
    """`SQLAlchemySaver` for asynchronous code: opened with `async with`, set up with `await saver.setup()`."""

    @classmethod
    @asynccontextmanager
    async def from_url(cls, url: str, **options: Any) -> AsyncGenerator[Self]:
        """Open a database by its URL, and close the database at the end of the `async with`."""
        saver = cls(url, **options)
        try:
            yield saver
        finally:
            await saver.database.workers.run(saver.close)

    async def setup(self) -> None:
        """Create the tables that are missing; several processes may call this method at once."""
        await self.database.workers.run(self.database.setup)
