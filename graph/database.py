"""Where a graph keeps snapshots, ledger and archive."""

import time
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import Engine

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.nodes import SettingsError


def records_for(database: str | Engine | Database | None, checkpointer: Any) -> CompactionRecords:
    """The records of a graph. Nothing is opened yet: tables that are missing are made at the first use.

    Without `database` they go where a saver of this package keeps its checkpoints, else into memory. Raises
    `SettingsError` where threads would outlive their snapshots, `DatabaseError` for a URL that cannot be used.
    A database opened here from a URL lives as long as the graph.
    """
    now = time.time
    if database is None and isinstance(own := getattr(checkpointer, "database", None), Database):
        database, now = own, checkpointer.now  # LangGraph's server wraps our saver, and passes attributes on
    elif database is None:
        database = _beside(checkpointer)
    opened = database if isinstance(database, Database) else Database.open(database)
    opened.put_off_setup()
    return CompactionRecords(opened, now)


def _beside(checkpointer: Any) -> str:
    """The database that goes with a checkpointer of another package."""
    if checkpointer in (None, False, True) or isinstance(checkpointer, InMemorySaver):
        return "memory"
    raise SettingsError(
        f"{type(checkpointer).__name__} keeps threads for good, but snapshots and archive would end with "
        'this process: give database="sqlite:///compaction.db" (or a PostgreSQL or MariaDB URL), or say '
        'database="memory" if that is what you want'
    )
