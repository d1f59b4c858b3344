"""The shape of a turn, and the public door: agents and graphs that compact their conversation."""

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
    SettingsError,
    UnknownWindowError,
    acompact_messages,
    compact_messages,
    compaction_count,
)

from .builder import create_compacting_agent, create_compaction_graph
from .embedding import as_node
from .pins import Pin, pin, pins, unpin
from .threads import acompact_now, compact_now, records_of, transcript

__all__ = [
    "CompactionError",
    "CompactionResult",
    "CompactionSettings",
    "CompactionState",
    "ContextExhaustedError",
    "EmbeddingError",
    "InvalidMessagesError",
    "MessageRefusedError",
    "Pin",
    "Redaction",
    "SettingsError",
    "UnknownWindowError",
    "acompact_messages",
    "acompact_now",
    "as_node",
    "compact_messages",
    "compact_now",
    "compaction_count",
    "create_compacting_agent",
    "create_compaction_graph",
    "pin",
    "pins",
    "records_of",
    "transcript",
    "unpin",
]
