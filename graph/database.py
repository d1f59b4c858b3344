"""Where a graph keeps snapshots, ledger and archive (DESIGN §11)."""

from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import Engine

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.nodes import SettingsError


def records_for(database: str | Engine | Database | None, checkpointer: Any) -> CompactionRecords:
    """The records of a graph; its tables are made if they are missing.

    Raises `SettingsError` where threads would outlive their snapshots, `DatabaseError` where the database
    cannot be reached. A database opened here from a URL lives as long as the graph.
    """
    if database is None:
        if checkpointer not in (None, False, True) and not isinstance(checkpointer, InMemorySaver):
            raise SettingsError(
                f"{type(checkpointer).__name__} keeps threads for good, but snapshots and archive would end with "
                'this process: give database="sqlite:///compaction.db" (or a PostgreSQL or MariaDB URL), or say '
                'database="memory" if that is what you want'
            )
        database = "memory"
    opened = database if isinstance(database, Database) else Database.open(database)
    opened.setup()
    return CompactionRecords(opened)
