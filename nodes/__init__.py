"""What happens in a turn: one file a node, the pure policies they call, and the vocabulary of all."""

from .compact import CompactionResult, acompact_messages, compact_messages
from .errors import (
    CompactionError,
    ContextExhaustedError,
    EmbeddingError,
    InvalidMessagesError,
    MessageRefusedError,
    SettingsError,
    UnknownWindowError,
)
from .events import CompactionEvent, CompactionMetaEvent, PreCompactEvent
from .policies.redaction import Redaction
from .policies.request import render
from .policies.summary import Reply
from .settings import CompactionOverrides, CompactionSettings
from .state import CompactionState, compaction_count
from .summarizers import Summarizer, SummaryRequest

__all__ = [
    "CompactionError",
    "CompactionEvent",
    "CompactionMetaEvent",
    "CompactionOverrides",
    "CompactionResult",
    "CompactionSettings",
    "CompactionState",
    "ContextExhaustedError",
    "EmbeddingError",
    "InvalidMessagesError",
    "MessageRefusedError",
    "PreCompactEvent",
    "Redaction",
    "Reply",
    "SettingsError",
    "Summarizer",
    "SummaryRequest",
    "UnknownWindowError",
    "acompact_messages",
    "compact_messages",
    "compaction_count",
    "render",
]
