"""Agents and graphs that compact their conversation, and `CompactionThread`, which shows and undoes compactions.

Each name below is imported on first use: a module of this package that needs no graph, such as the command line's
`--help`, does not wait for LangGraph.
"""

from typing import TYPE_CHECKING

from langgraph_compaction.checkpoint.lazy_names import lazy_names

if TYPE_CHECKING:
    from langgraph_compaction.nodes import (
        Choice,
        CompactionError,
        CompactionResult,
        CompactionSettings,
        CompactionState,
        ContextExhaustedError,
        Faithful,
        InvalidMessagesError,
        LayeredDefence,
        MessageRefusedError,
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
        ThreadBusyError,
        TypedRules,
        UnknownWindowError,
        acompact_messages,
        compact_messages,
        compaction_count,
        is_summary,
        load_settings,
        view,
    )
    from langgraph_compaction.nodes.config.prices import Price
    from langgraph_compaction.nodes.summary.key_information import GitDiff, Memories, Tasks

    from .build_dependencies import Extensions
    from .builder import create_compacting_agent, create_compaction_graph
    from .exclusive_runs import one_run_at_a_time
    from .thread import CompactionThread
    from .undo import OverLimitError

__all__ = [
    "Choice",
    "CompactionError",
    "CompactionResult",
    "CompactionSettings",
    "CompactionState",
    "CompactionThread",
    "ContextExhaustedError",
    "Extensions",
    "Faithful",
    "GitDiff",
    "InvalidMessagesError",
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
    "Selective",
    "SettingsError",
    "Tasks",
    "ThreadBusyError",
    "TypedRules",
    "UnknownWindowError",
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

_SHARED = dict.fromkeys(__all__, "langgraph_compaction.nodes")
_KEY_INFORMATION = dict.fromkeys(
    ("GitDiff", "Memories", "Tasks"), "langgraph_compaction.nodes.summary.key_information"
)
_OWN = {
    "CompactionThread": ".thread",
    "Extensions": ".build_dependencies",
    "OverLimitError": ".undo",
    "Price": "langgraph_compaction.nodes.config.prices",
    "create_compacting_agent": ".builder",
    "create_compaction_graph": ".builder",
    "one_run_at_a_time": ".exclusive_runs",
}

if not TYPE_CHECKING:  # type checkers would otherwise accept any name
    __getattr__, __dir__ = lazy_names(__name__, _SHARED | _KEY_INFORMATION | _OWN)
