"""What happens in a turn: one file a node, the pure policies they call, and the vocabulary of all."""

from .compact import CompactionResult, acompact_messages, compact_messages
from .configuration import load_settings
from .errors import (
    CompactionError,
    ContextExhaustedError,
    EmbeddingError,
    InvalidMessagesError,
    MessageRefusedError,
    SettingsError,
    UnknownWindowError,
)
from .events import (
    CompactContextEvent,
    CompactionEvent,
    CompactionMetaEvent,
    ContextEvent,
    ContextWarningEvent,
    KeyInformationEvent,
    PreCompactEvent,
)
from .key_information import KeyContext, KeyInformation
from .policies.redaction import Redaction
from .policies.request import render
from .policies.summary import Reply
from .settings import CompactionOverrides, CompactionSettings
from .state import CompactionState, compaction_count
from .summarizers import Summarizer, SummaryRequest

__all__ = [
    "CompactContextEvent",
    "CompactionError",
    "CompactionEvent",
    "CompactionMetaEvent",
    "CompactionOverrides",
    "CompactionResult",
    "CompactionSettings",
    "CompactionState",
    "ContextEvent",
    "ContextExhaustedError",
    "ContextWarningEvent",
    "EmbeddingError",
    "InvalidMessagesError",
    "KeyContext",
    "KeyInformation",
    "KeyInformationEvent",
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
    "load_settings",
    "render",
]
