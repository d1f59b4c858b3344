"""Compaction for long LangGraph conversations, as a transaction, with snapshots in SQL.

Each name below is imported on first use, so that importing the package itself is fast and opens no file.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

from langgraph_compaction import graph
from langgraph_compaction.checkpoint.lazy_names import lazy_names

__version__ = version("langgraph-compaction")

if TYPE_CHECKING:
    from langgraph_compaction.checkpoint import (
        AsyncSQLAlchemySaver,
        CompactionRecords,
        Database,
        Keyring,
        SQLAlchemySaver,
        UnknownAttemptError,
    )
    from langgraph_compaction.graph import *  # noqa: F403 - its names are those here # pyright: ignore[reportWildcardImportFromLibrary]
    from langgraph_compaction.graph.middleware import CompactionMiddleware

__all__ = [
    "AsyncSQLAlchemySaver",
    "CompactionMiddleware",
    "CompactionRecords",
    "Database",
    "Keyring",
    "SQLAlchemySaver",
    "UnknownAttemptError",
    "__version__",
]
__all__ += graph.__all__

_CHECKPOINT = dict.fromkeys(
    ("AsyncSQLAlchemySaver", "CompactionRecords", "Database", "Keyring", "SQLAlchemySaver", "UnknownAttemptError"),
    "langgraph_compaction.checkpoint",
)
_GRAPH = dict.fromkeys(graph.__all__, "langgraph_compaction.graph")

if not TYPE_CHECKING:  # type checkers would otherwise accept any name
    __getattr__, __dir__ = lazy_names(
        __name__, _GRAPH | _CHECKPOINT | {"CompactionMiddleware": "langgraph_compaction.graph.middleware"}
    )
