"""What happens in a turn: one file a node, the pure policies they call, and the vocabulary of all."""

from .compact import CompactionResult, acompact_messages, compact_messages
from .configuration import load_settings
from .errors import (
    CompactionError,
    ContextExhaustedError,
    EmbeddingError,
    InvalidMessagesError,
    MessageRefusedError,
    RequestError,
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
from .policies.selection import Choice, Demand, Selector
from .policies.summary import Reply
from .policies.triggers import Reading
from .settings import CompactionOverrides, CompactionSettings
from .state import CompactionState, compaction_count
from .summarizers import Summarizer, SummaryRequest
from .wishes import CompactionRequest

__all__ = [
    "Choice",
    "CompactContextEvent",
    "CompactionError",
    "CompactionEvent",
    "CompactionMetaEvent",
    "CompactionOverrides",
    "CompactionRequest",
    "CompactionResult",
    "CompactionSettings",
    "CompactionState",
    "ContextEvent",
    "ContextExhaustedError",
    "ContextWarningEvent",
    "Demand",
    "EmbeddingError",
    "InvalidMessagesError",
    "KeyContext",
    "KeyInformation",
    "KeyInformationEvent",
    "MessageRefusedError",
    "PreCompactEvent",
    "Reading",
    "Redaction",
    "Reply",
    "RequestError",
    "Selector",
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
