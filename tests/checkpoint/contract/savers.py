"""The savers that the contract is run against: ours on every database, the peers, and what the peers get wrong."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Generator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, Keyring, SQLAlchemySaver
from tests.full import FULL

Saver = BaseCheckpointSaver[Any]
Opens = Callable[..., AbstractContextManager[Any]]
PATIENCE_S = 8.0
"""A call that takes longer never ends."""


class Waiting(BaseCheckpointSaver[Any]):
    """The async methods of a saver under the sync names: each runs on an event loop in another thread."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(serde=inner.serde)
        self.inner = inner
        self.loop = loop

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=PATIENCE_S)

    def setup(self) -> None:
        """Wait for `setup`."""
        self._wait(self.inner.setup())

    def get_tuple(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for `aget_tuple`."""
        return self._wait(self.inner.aget_tuple(*args, **kwargs))

    def list(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Wait for each item of `alist` when it is asked for."""
        items = self.inner.alist(*args, **kwargs)

        async def close() -> None:
            await items.aclose()

        async def step() -> Any:
            return await anext(items, None)

        try:
            while (item := self._wait(step())) is not None:
                yield item
        finally:
            self._wait(close())

    def put(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for `aput`."""
        return self._wait(self.inner.aput(*args, **kwargs))

    def put_writes(self, config: RunnableConfig, writes: Any, task_id: str, task_path: str = "") -> None:
        """Wait for `aput_writes`; LangGraph reads from the signature that paths are taken."""
        self._wait(self.inner.aput_writes(config, writes, task_id, task_path))

    def delete_thread(self, *args: Any, **kwargs: Any) -> None:
        """Wait for `adelete_thread`."""
        self._wait(self.inner.adelete_thread(*args, **kwargs))

    def delete_for_runs(self, *args: Any, **kwargs: Any) -> None:
        """Wait for `adelete_for_runs`."""
        self._wait(self.inner.adelete_for_runs(*args, **kwargs))

    def copy_thread(self, *args: Any, **kwargs: Any) -> None:
        """Wait for `acopy_thread`."""
        self._wait(self.inner.acopy_thread(*args, **kwargs))

    def prune(self, *args: Any, **kwargs: Any) -> None:
        """Wait for `aprune`."""
        self._wait(self.inner.aprune(*args, **kwargs))

    def sweep(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for `asweep`."""
        return self._wait(self.inner.asweep(*args, **kwargs))

    def get_delta_channel_history(self, **kwargs: Any) -> Any:
        """Wait for `aget_delta_channel_history`."""
        return self._wait(self.inner.aget_delta_channel_history(**kwargs))

    def get_next_version(self, *args: Any) -> Any:
        """Ask the saver itself."""
        return self.inner.get_next_version(*args)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> "Waiting":
        """Clone the saver itself."""
        return Waiting(self.inner.with_allowlist(extra_allowlist), self.loop)


class Direct(BaseCheckpointSaver[Any]):
    """The sync methods of a saver under the async names, called in the caller's own thread."""

    def __init__(self, inner: Any) -> None:
        super().__init__(serde=inner.serde)
        self.inner = inner

    async def aget_tuple(self, *args: Any, **kwargs: Any) -> Any:
        """Call `get_tuple`."""
        return self.inner.get_tuple(*args, **kwargs)

    async def alist(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Go through `list`."""
        for item in self.inner.list(*args, **kwargs):
            yield item

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        """Call `put`."""
        return self.inner.put(*args, **kwargs)

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        """Call `put_writes`."""
        self.inner.put_writes(*args, **kwargs)

    async def adelete_thread(self, *args: Any, **kwargs: Any) -> None:
        """Call `delete_thread`."""
        self.inner.delete_thread(*args, **kwargs)

    async def adelete_for_runs(self, *args: Any, **kwargs: Any) -> None:
        """Call `delete_for_runs`."""
        self.inner.delete_for_runs(*args, **kwargs)

    async def acopy_thread(self, *args: Any, **kwargs: Any) -> None:
        """Call `copy_thread`."""
        self.inner.copy_thread(*args, **kwargs)

    async def aprune(self, *args: Any, **kwargs: Any) -> None:
        """Call `prune`."""
        self.inner.prune(*args, **kwargs)


@contextmanager
def waiting(opens: Callable[..., AbstractAsyncContextManager[Any]], *args: Any, **kwargs: Any) -> Generator[Waiting]:
    """Open an async saver on an event loop of its own, and close both at the end."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(timeout=PATIENCE_S)

    async def opened() -> tuple[Any, AbstractAsyncContextManager[Any]]:
        context = opens(*args, **kwargs)
        return await context.__aenter__(), context

    try:
        saver, context = wait(opened())
        try:
            yield Waiting(saver, loop)
        finally:
            wait(context.__aexit__(None, None, None))
            wait(loop.shutdown_default_executor())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


@contextmanager
def with_serde(opens: Opens, url: str, *, serde: Any = None) -> Generator[Any]:
    """Open a peer, with another serializer where one is named."""
    with opens(url) as saver:
        if serde is not None:
            getattr(saver, "inner", saver).serde = serde
        yield saver


@contextmanager
def in_memory(_url: str) -> Generator[InMemorySaver]:
    """Open LangGraph's saver without a database."""
    yield InMemorySaver()


def path_of(opens: Opens) -> Opens:
    """Make a peer that takes a file's path take an SQLite URL."""
    return lambda url: opens(url.removeprefix("sqlite:///"))


@dataclass(frozen=True)
class Kind:
    """A class of saver on a kind of database."""

    name: str
    database: str
    opens: Opens
    ours: bool = False
    prunes: bool = False
    encrypted: bool = False
    detects: bool = True
    """Whether a message that is changed in place has to be noticed."""

    @property
    def local(self) -> bool:
        """Whether no server is needed."""
        return self.database in {"memory", "sqlite"}

    def __str__(self) -> str:
        return f"{self.name}-{self.database}" if self.ours else self.name


KEYS = Keyring({"contract": bytes(32)}, current="contract")
ENCRYPTED = partial(SQLAlchemySaver.from_url, keys=KEYS)
TRUSTING = partial(SQLAlchemySaver.from_url, detect_mutation=False)
DATABASES = ("memory", "sqlite", "postgresql", "mariadb")
OURS = [
    *(Kind("SQLAlchemySaver", each, SQLAlchemySaver.from_url, ours=True, prunes=True) for each in DATABASES),
    *(
        Kind("AsyncSQLAlchemySaver", each, partial(waiting, AsyncSQLAlchemySaver.from_url), ours=True, prunes=True)
        for each in ("sqlite", "postgresql")  # the same core: one database with one writer, one with many
    ),
    *(
        Kind("Encrypted", each, ENCRYPTED, ours=True, prunes=True, encrypted=True)
        for each in ("sqlite", "postgresql")  # one database with a cache of rows, one with single statements
    ),
    Kind("Trusting", "memory", TRUSTING, ours=True, prunes=True, detects=False),
]
PEERS = [
    Kind("InMemorySaver", "memory", partial(with_serde, in_memory)),
    Kind("SqliteSaver", "sqlite", partial(with_serde, path_of(SqliteSaver.from_conn_string))),
    Kind(
        "AsyncSqliteSaver",
        "sqlite",
        partial(with_serde, path_of(partial(waiting, AsyncSqliteSaver.from_conn_string))),
    ),
    Kind("PostgresSaver", "postgresql", partial(with_serde, PostgresSaver.from_conn_string), prunes=True),
    Kind(
        "AsyncPostgresSaver",
        "postgresql",
        partial(with_serde, partial(waiting, AsyncPostgresSaver.from_conn_string)),
        prunes=True,
    ),
]
USUAL = (
    OURS
    if FULL
    else [each for each in OURS if str(each) in {"SQLAlchemySaver-sqlite", "AsyncSQLAlchemySaver-postgresql"}]
)
"""The savers that a default run tries: one of each class, on a database with one writer and on one with many."""
SAVERS = [*USUAL, *(PEERS if os.environ.get("COMPACTION_PEERS") else ())]
"""The savers that the contract is run against; LangGraph's own only where `make peers` asks for them."""
