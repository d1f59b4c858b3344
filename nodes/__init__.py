"""The nodes of the graph, one file each, the vocabulary that they share, and rooms for what they call."""

from .compaction_request import CompactionRequest
from .config.loading import load_settings
from .config.settings import CompactionOverrides, CompactionSettings
from .conversation.redaction import Redaction
from .conversation.request import render
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
from .inline.compact_messages import CompactionResult, acompact_messages, compact_messages
from .selection.selector import Choice, Demand, Selector
from .selection.trigger_evaluation import Reading
from .state import CompactionState, compaction_count
from .summary.key_information_sources import KeyContext, KeyInformation
from .summary.summarizers import Summarizer, SummaryRequest
from .summary.summary_message import Reply

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
