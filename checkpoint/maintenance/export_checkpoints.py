"""Exports threads to LangGraph's own savers, by the import's means: each checkpoint is read back and compared."""

import sqlite3
from collections.abc import Collection, Generator, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointTuple

from ..checkpoints import pending_writes
from ..db import tables, urls
from ..db.database import Database
from ..db.transaction import Transaction
from ..errors import DatabaseURLError
from ..extras import how_to_install
from ..messages.message_store import MessageStore
from .import_checkpoints import ImportedCheckpoint, import_checkpoints
from .import_sources import PendingWrite, SourceCheckpoint, SourceError, configurable, translated

_EXAMPLES = "sqlite:///FILE (for a SqliteSaver) or postgresql://user@host/name (for a PostgresSaver)"
_FRACTION = 10**16


class OwnSaver(Protocol):
    """A saver of this package, as the export uses it."""

    database: Database
    store: MessageStore

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names."""
        ...


def export_checkpoints(
    saver: OwnSaver, target: BaseCheckpointSaver[Any], threads: Collection[str] | None = None
) -> Iterator[ImportedCheckpoint]:
    """Copy all threads, or the named threads, to another saver, and yield the result for each checkpoint.

    The copies have the same ids, so the export can be stopped and run again: see `import_checkpoints`. What stands
    beside the checkpoints is not copied: ledger, snapshots, and messages that have moved to the archive.
    """
    return import_checkpoints(SaverSource(saver), target, threads=threads)


class SaverSource:
    """The checkpoints of a saver of this package."""

    def __init__(self, saver: OwnSaver) -> None:
        self.place = urls.place(saver.database.engine.url)
        self._saver = saver

    def threads(self) -> dict[str, int]:
        """Return the number of checkpoints of every thread, by its id, the oldest thread first."""
        row = tables.thread.c
        query = sa.select(row.thread_id, sa.func.count()).join(
            tables.checkpoint, tables.checkpoint.c.thread == row.id
        )
        query = query.group_by(row.id, row.thread_id).order_by(row.id)
        rows = self._saver.database.run_read(lambda transaction: transaction.execute(query).all())
        return {thread_id: int(count) for thread_id, count in rows}

    def ids(self, thread_id: str) -> list[tuple[str, str]]:
        """Return (namespace, checkpoint id) of a thread's checkpoints, in the order in which they were stored."""
        one, row = tables.checkpoint.c, tables.thread.c
        query = sa.select(one.namespace, one.id).join(tables.thread, row.id == one.thread)
        query = query.where(row.thread_id == thread_id).order_by(one.number)
        rows = self._saver.database.run_read(lambda transaction: transaction.execute(query).all())
        return [(namespace, checkpoint_id) for namespace, checkpoint_id in rows]

    def read(self, thread_id: str, namespace: str, checkpoint_id: str) -> SourceCheckpoint:
        """Read one checkpoint with its pending writes; raise SourceError if it changes meanwhile."""
        place = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
        found = self._saver.get_tuple({"configurable": place})
        if found is None:
            raise SourceError("the checkpoint was deleted while it was copied")

        def writes(transaction: Transaction) -> list[pending_writes.Write]:
            thread = self._saver.store.threads.find(transaction, thread_id, lock=False)
            at = {} if thread is None else pending_writes.of(transaction, thread, namespace, [checkpoint_id])
            return at.get(checkpoint_id, [])

        stored, pending = self._saver.database.run_read(writes), found.pending_writes or []
        if [(one.task, one.channel) for one in stored] != [write[:2] for write in pending]:
            raise SourceError("the checkpoint was written to while it was read: run the command again")
        return SourceCheckpoint(
            checkpoint=_with_text_versions(found.checkpoint),
            metadata=found.metadata,
            parent_id=configurable(found.parent_config).get("checkpoint_id"),
            writes=[
                PendingWrite(one.task, one.path, one.index, one.channel, write[2])
                for one, write in zip(stored, pending, strict=True)
            ],
        )


def _with_text_versions(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint with whole numbers as the official savers' versions ("%032d.fraction").

    The fraction belongs to the checkpoint: PostgresSaver stores a value once for each version of its channel, and two
    branches of a thread have the same numbers.
    """
    digest = blake2b(checkpoint["id"].encode(), digest_size=8).digest()
    fraction = f"0.{int.from_bytes(digest, 'big') % _FRACTION:016}"

    def texts(versions: ChannelVersions) -> ChannelVersions:
        return {
            channel: f"{version:032}.{fraction}" if isinstance(version, int) else version
            for channel, version in versions.items()
        }

    seen = {node: texts(versions) for node, versions in checkpoint["versions_seen"].items()}
    return {**checkpoint, "channel_versions": texts(checkpoint["channel_versions"]), "versions_seen": seen}


@contextmanager
def open_target(target: str) -> Generator[BaseCheckpointSaver[str]]:
    """Open the database of a SqliteSaver or PostgresSaver until the block ends, and create what is missing.

    Raise DatabaseURLError for another kind of database or a missing package, and DatabaseError if it does not answer.
    """
    url = urls.sync_url(target)
    opened = {"sqlite": _sqlite, "postgresql": _postgres}.get(url.get_backend_name())
    if opened is None or urls.is_memory(url):
        raise DatabaseURLError(f"threads cannot be exported to {urls.place(url)}; give {_EXAMPLES}")
    try:
        manager = opened(url)
    except ModuleNotFoundError as error:
        raise DatabaseURLError(
            f"to write to {urls.place(url)} the Python package {error.name!r} is missing; {how_to_install('import')}"
        ) from error
    with manager as saver:
        yield saver


@contextmanager
def _sqlite(url: sa.URL) -> Generator[BaseCheckpointSaver[str]]:
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 - an optional package

    with (
        translated(urls.place(url), sqlite3.Error),
        closing(
            sqlite3.connect(Path(url.database or ""), timeout=urls.BUSY_TIMEOUT_S, check_same_thread=False)
        ) as conn,
    ):
        saver = SqliteSaver(conn)
        saver.setup()
        yield saver


@contextmanager
def _postgres(url: sa.URL) -> Generator[BaseCheckpointSaver[str]]:
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 - an optional package
    from psycopg import Error  # noqa: PLC0415 - an optional package

    where = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with translated(urls.place(url), Error), PostgresSaver.from_conn_string(where) as saver:
        saver.setup()
        yield saver
