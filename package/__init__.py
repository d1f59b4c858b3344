"""Compaction for long LangGraph conversations, as a transaction, with snapshots in SQL.

Each name below is imported on first use, so that importing the package itself is fast and opens no file.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

__version__ = version("langgraph-compaction")

if TYPE_CHECKING:
    from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, CompactionRecords, SQLAlchemySaver
    from langgraph_compaction.graph import (
        CompactionSettings,
        CompactionState,
        CompactionThread,
        acompact_messages,
        as_node,
        compact_messages,
        create_compacting_agent,
        create_compaction_graph,
        load_settings,
    )
    from langgraph_compaction.graph.middleware import CompactionMiddleware

__all__ = [
    "AsyncSQLAlchemySaver",
    "CompactionMiddleware",
    "CompactionRecords",
    "CompactionSettings",
    "CompactionState",
    "CompactionThread",
    "SQLAlchemySaver",
    "__version__",
    "acompact_messages",
    "as_node",
    "compact_messages",
    "create_compacting_agent",
    "create_compaction_graph",
    "load_settings",
]

_CHECKPOINT = {"AsyncSQLAlchemySaver", "CompactionRecords", "SQLAlchemySaver"}


def _module_of(name: str) -> str:
    if name == "CompactionMiddleware":
        return f"{__name__}.graph.middleware"
    return f"{__name__}.checkpoint" if name in _CHECKPOINT else f"{__name__}.graph"


if not TYPE_CHECKING:  # type checkers would otherwise accept any name

    def __getattr__(name: str) -> Any:
        """Return the object with a public name, from its module; raise AttributeError for any other name."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_module_of(name)), name)

    def __dir__() -> list[str]:
        """Return the public names, so that completion shows them."""
        return sorted({*globals(), *__all__})
