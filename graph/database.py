"""Choose the database for snapshots, ledger and archive."""

import time
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import Engine

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.nodes import SettingsError


def records_for(database: str | Engine | Database | None, checkpointer: Any) -> CompactionRecords:
    """Return the records of a graph, whose missing tables are created at the first use.

    Without `database`, the records are in the database of a saver of this package, else in memory. A database that
    this function opens from a URL lives as long as the graph. Raise `SettingsError` for another package's durable
    checkpointer without `database`, because threads would outlive their snapshots, and `DatabaseError` for an
    unusable URL.
    """
    now = time.time
    if database is None and isinstance(own := getattr(checkpointer, "database", None), Database):
        database, now = own, checkpointer.now  # LangGraph's server wraps our saver, and passes attributes on
    elif database is None:
        database = _beside(checkpointer)
    opened = database if isinstance(database, Database) else Database.open(database)
    opened.put_off_setup()
    return CompactionRecords(opened, now)


def check_parent(checkpointer: Any) -> None:
    """Raise `SettingsError` if a parent graph's threads would outlive records in memory that nobody asked for."""
    if isinstance(getattr(checkpointer, "database", None), Database):
        raise SettingsError(
            "the parent graph keeps its threads in a database, but snapshots and archive end with this process: "
            'give the builder of the compaction graph database=saver.database, or database="memory" to lose them'
        )
    _beside(checkpointer)


def _beside(checkpointer: Any) -> str:
    """Return the database for the records beside another package's checkpointer if `database` is not given."""
    if checkpointer in (None, False, True) or isinstance(checkpointer, InMemorySaver):
        return "memory"
    if isinstance(checkpointer, str):
        raise SettingsError(
            "checkpointer is a text: give checkpointer=SQLAlchemySaver(url), or AsyncSQLAlchemySaver(url), from "
            "langgraph_compaction.checkpoint"
        )
    raise SettingsError(
        f"{type(checkpointer).__name__} keeps threads for good, but snapshots and archive would end with "
        'this process: give database="sqlite:///compaction.db" (or a PostgreSQL or MariaDB URL), or say '
        'database="memory" if that is what you want'
    )
