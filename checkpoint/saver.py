"""LangGraph's checkpointer on SQL: a thread grows with what was said in it, not with its square.

One synchronous core. The asynchronous methods do the same on worker threads of the database's own (`workers`): for
SQLite that is twice as fast as an asynchronous driver, which changes threads at each statement.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from .db import leases
from .maintenance.maintenance import PAUSE_S, Upkeep, held_by_another, new_lease
from .maintenance.stats import ThreadStats


class _Saver(Upkeep):
    """The core, and each of its methods for asynchronous code too."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Do `get_tuple` on a worker thread."""
        return await self.database.workers.run(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's signature
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do `list` on a worker thread, a page at a time."""
        pages = self.pages(config, filter or {}, before, limit)
        while page := await self.database.workers.run(next, pages, None):
            for found in page:
                yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Do `put` on a worker thread."""
        return await self.database.workers.run(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Do `put_writes` on a worker thread."""
        await self.database.workers.run(self.put_writes, config, writes, task_id, task_path)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Do `get_delta_channel_history` on a worker thread."""
        return await self.database.workers.run(
            lambda: self.get_delta_channel_history(config=config, channels=channels)
        )

    async def adelete_thread(self, thread_id: str) -> None:
        """Do `delete_thread` on a worker thread."""
        await self.database.workers.run(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do `delete_for_runs` on a worker thread."""
        await self.database.workers.run(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do `copy_thread` on a worker thread."""
        await self.database.workers.run(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep_last: int | None = None,
        older_than: float | None = None,
        archive: Literal["keep", "drop"] = "keep",
    ) -> None:
        """Do `prune` on a worker thread."""
        await self.database.workers.run(
            self.prune, thread_ids, strategy=strategy, keep_last=keep_last, older_than=older_than, archive=archive
        )

    async def asweep(self, older_than: float) -> list[str]:
        """Do `sweep` on a worker thread."""
        return await self.database.workers.run(self.sweep, older_than)

    async def areclaim(self) -> None:
        """Do `reclaim` on a worker thread."""
        await self.database.workers.run(self.reclaim)

    async def astats(self, thread_id: str | None = None) -> list[ThreadStats]:
        """Do `stats` on a worker thread."""
        return await self.database.workers.run(self.stats, thread_id)

    async def arotate(self) -> int:
        """Do `rotate` on a worker thread."""
        return await self.database.workers.run(self.rotate)

    @asynccontextmanager
    async def alease(self, thread_id: str, ttl: float = 60.0, *, wait: float = 0.0) -> AsyncGenerator[None]:
        """Hold a thread as `lease` does."""
        lease = new_lease(ttl)
        deadline = time.monotonic() + wait
        while not await self.database.workers.run(self.take, thread_id, lease):
            if time.monotonic() >= deadline:
                raise held_by_another(thread_id)
            await asyncio.sleep(PAUSE_S)
        with leases.holding(thread_id, lease):
            try:
                yield
            finally:
                await self.database.workers.run(self.release, thread_id, lease)


class SQLAlchemySaver(_Saver):
    """A LangGraph checkpointer on SQLite, PostgreSQL, MariaDB or MySQL.

        with SQLAlchemySaver.from_url("sqlite:///agent.db") as saver:
            saver.setup()
            graph = builder.compile(checkpointer=saver)

    Messages are stored once per thread, whatever checkpoint, write or fork holds them. `database` is a URL, an
    `Engine`, a `Database` or "memory". All methods may be called from any thread, and their asynchronous twins
    from any event loop. `setup()` must have been called once on the database.

    - `serde`: how values that are not messages are written (messages are stored apart); by default LangGraph's
      format, for LangGraph's safe types and the classes in `allow` only. ValueTypeError names any other type.
    - `on_conflict`: what happens to a run that goes on from a checkpoint which is no longer the newest of its
      thread: "fork", as with every checkpointer, leaves the other run's checkpoints on a branch that nobody
      sees; "raise" refuses with ConflictError.
    - `cache`, `cache_bytes`: of how many threads (1,024), and in how many bytes (256 MB), the newest message lists
      are remembered, so that what is known is not serialized again; whichever is reached first. The threads used
      least recently are forgotten first, and none while its turn is running: where running turns alone need more,
      they get it. With `cache=0` nothing is remembered.
    - `detect_mutation`: whether a stored message that was changed in place is noticed, and stored again. It costs
      a look at every message of the state at each put. With False you promise that nobody, node, reducer,
      middleware or caller, changes a message that was put or read (`model_copy(update=...)` makes a new one): a
      change in place is then not stored.
    - `keys`: encrypts all that was said and stored. See `Keyring`.
    """

    @classmethod
    @contextmanager
    def from_url(cls, url: str, **options: Any) -> Generator[Self]:
        """Open a database by its URL, and close it at the end of the `with`."""
        saver = cls(url, **options)
        try:
            yield saver
        finally:
            saver.close()

    def setup(self) -> None:
        """Create the tables, or bring them up to date; safe when several do it at once."""
        self.database.setup()


class AsyncSQLAlchemySaver(_Saver):
    """`SQLAlchemySaver` for asynchronous code: opened with `async with`, set up with `await saver.setup()`."""

    @classmethod
    @asynccontextmanager
    async def from_url(cls, url: str, **options: Any) -> AsyncGenerator[Self]:
        """Open a database by its URL, and close it at the end of the `async with`."""
        saver = cls(url, **options)
        try:
            yield saver
        finally:
            await saver.database.workers.run(saver.close)

    async def setup(self) -> None:
        """Create the tables, or bring them up to date; safe when several do it at once."""
        await self.database.workers.run(self.database.setup)
