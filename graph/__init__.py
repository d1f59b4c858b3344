"""Agents and graphs that compact their conversation, and `CompactionThread`, which shows and undoes compactions."""

from langgraph_compaction.nodes import (
    CompactionError,
    CompactionResult,
    CompactionSettings,
    CompactionState,
    ContextExhaustedError,
    EmbeddingError,
    InvalidMessagesError,
    MessageRefusedError,
    Redaction,
    RequestError,
    SettingsError,
    ThreadBusyError,
    UnknownWindowError,
    acompact_messages,
    compact_messages,
    compaction_count,
    load_settings,
)
from langgraph_compaction.nodes.summary.key_information import GitDiff, Memories, Tasks

from .builder import create_compacting_agent, create_compaction_graph
from .embedding import as_node
from .thread import CompactionThread
from .undo import OverLimitError

__all__ = [
    "CompactionError",
    "CompactionResult",
    "CompactionSettings",
    "CompactionState",
    "CompactionThread",
    "ContextExhaustedError",
    "EmbeddingError",
    "GitDiff",
    "InvalidMessagesError",
    "Memories",
    "MessageRefusedError",
    "OverLimitError",
    "Redaction",
    "RequestError",
    "SettingsError",
    "Tasks",
    "ThreadBusyError",
    "UnknownWindowError",
    "acompact_messages",
    "as_node",
    "compact_messages",
    "compaction_count",
    "create_compacting_agent",
    "create_compaction_graph",
    "load_settings",
]
