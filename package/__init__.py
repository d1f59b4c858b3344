"""Compaction for long LangGraph conversations, as a transaction, with snapshots in SQL.

Each name below is imported on first use, so that importing the package itself is fast and opens no file.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

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
    from langgraph_compaction.graph import (
        Choice,
        CompactionError,
        CompactionResult,
        CompactionSettings,
        CompactionState,
        CompactionThread,
        ContextExhaustedError,
        Extensions,
        Faithful,
        GitDiff,
        InvalidMessagesError,
        LayeredDefence,
        Memories,
        MessageRefusedError,
        OverLimitError,
        Price,
        Progressive,
        ProgressiveChart,
        ProgressivePseudocode,
        RecentRounds,
        Redaction,
        Reply,
        RequestError,
        ReserveTokens,
        Selective,
        SettingsError,
        Tasks,
        ThreadBusyError,
        TypedRules,
        UnknownWindowError,
        acompact_messages,
        compact_messages,
        compaction_count,
        create_compacting_agent,
        create_compaction_graph,
        is_summary,
        load_settings,
        one_run_at_a_time,
        view,
    )
    from langgraph_compaction.graph.middleware import CompactionMiddleware

__all__ = [
    "AsyncSQLAlchemySaver",
    "Choice",
    "CompactionError",
    "CompactionMiddleware",
    "CompactionRecords",
    "CompactionResult",
    "CompactionSettings",
    "CompactionState",
    "CompactionThread",
    "ContextExhaustedError",
    "Database",
    "Extensions",
    "Faithful",
    "GitDiff",
    "InvalidMessagesError",
    "Keyring",
    "LayeredDefence",
    "Memories",
    "MessageRefusedError",
    "OverLimitError",
    "Price",
    "Progressive",
    "ProgressiveChart",
    "ProgressivePseudocode",
    "RecentRounds",
    "Redaction",
    "Reply",
    "RequestError",
    "ReserveTokens",
    "SQLAlchemySaver",
    "Selective",
    "SettingsError",
    "Tasks",
    "ThreadBusyError",
    "TypedRules",
    "UnknownAttemptError",
    "UnknownWindowError",
    "__version__",
    "acompact_messages",
    "compact_messages",
    "compaction_count",
    "create_compacting_agent",
    "create_compaction_graph",
    "is_summary",
    "load_settings",
    "one_run_at_a_time",
    "view",
]

_CHECKPOINT = dict.fromkeys(
    ("AsyncSQLAlchemySaver", "CompactionRecords", "Database", "Keyring", "SQLAlchemySaver", "UnknownAttemptError"),
    "langgraph_compaction.checkpoint",
)
_GRAPH = dict.fromkeys(set(__all__) - {"__version__", *_CHECKPOINT}, "langgraph_compaction.graph")

if not TYPE_CHECKING:  # type checkers would otherwise accept any name
    __getattr__, __dir__ = lazy_names(
        __name__, _GRAPH | _CHECKPOINT | {"CompactionMiddleware": "langgraph_compaction.graph.middleware"}
    )
