"""Where a command keeps checkpoints and records: in the database that is named, or nowhere for long."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.checkpoint.urls import is_memory, sync_url
from langgraph_compaction.nodes import SettingsError


@dataclass(frozen=True)
class Storage:
    """Two halves of what a thread leaves behind."""

    checkpointer: BaseCheckpointSaver[Any]
    database: Database
    """Snapshots, ledger and archive."""


@contextmanager
def storage(db: str | None) -> Generator[Storage]:
    """Open the storage that `--db` names; without it, one in a temporary folder that ends with the block.

    Raises `SettingsError` for a URL other than SQLite's: checkpoints go into an SQLite file beside it, by
    langgraph-checkpoint-sqlite, until the package's own saver takes its place.
    """
    with TemporaryDirectory(prefix="langgraph-compaction-") as folder:
        target = db or f"sqlite:///{Path(folder, 'demo.db').as_posix()}"
        file = _beside(target) or Path(folder, "checkpoints.db")
        with Database.open(target) as database:
            database.setup()
            with SqliteSaver.from_conn_string(str(file)) as saver:
                yield Storage(saver, database)


def _beside(target: str) -> Path | None:
    """The checkpoints' file for a database's: agent.db -> agent.checkpoints.db; none for memory."""
    url = sync_url(target)
    if url.get_backend_name() != "sqlite":
        raise SettingsError("--db takes an SQLite file here for now: sqlite:///agent.db")
    return None if is_memory(url) or not url.database else Path(url.database).with_suffix(".checkpoints.db")
