"""Choose the database for snapshots, ledger and archive."""

import time
from collections import OrderedDict
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import Engine

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.nodes import SettingsError

NONE_OF_ITS_OWN = (None, False, True)
"""Values of the argument `checkpointer` of a graph that has no saver of its own."""
_MOST_DATABASES = 16
"""Number of databases whose records are kept by `RecordsOfCheckpointers`; those of others are made again."""


class RecordsOfCheckpointers:
    """The records of several agents that share a middleware: for each checkpointer, those in its database."""

    def __init__(self) -> None:
        self._in_databases = OrderedDict[Database, CompactionRecords]()
        self._in_memory = WeakKeyDictionary[Any, CompactionRecords]()
        self._lock = Lock()

    def of(self, checkpointer: Any) -> CompactionRecords:
        """Return the records for a checkpointer, the same ones as long as it lives; raise as `records_for` does."""
        database = getattr(checkpointer, "database", None)
        with self._lock:
            if not isinstance(database, Database):
                if checkpointer not in self._in_memory:
                    self._in_memory[checkpointer] = records_for(None, checkpointer)
                return self._in_memory[checkpointer]
            known = self._in_databases.pop(database, None) or records_for(None, checkpointer)
            self._in_databases[database] = known
            if len(self._in_databases) > _MOST_DATABASES:
                self._in_databases.popitem(last=False)
            return known


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
    if checkpointer in NONE_OF_ITS_OWN or isinstance(checkpointer, InMemorySaver):
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
