"""The graph's nodes, one file each; the vocabulary that they share; and folders for the functions that they call."""

from .config.loading import load_settings
from .config.settings import CompactionSettings
from .conversation.message_marks import is_summary
from .conversation.redaction import Redaction
from .conversation.request import render
from .errors import (
    CompactionError,
    ContextExhaustedError,
    InvalidMessagesError,
    MessageRefusedError,
    RequestError,
    SettingsError,
    ThreadBusyError,
    UnknownWindowError,
)
from .gate.reply_checks import Reply
from .inline.compact_messages import CompactionResult, acompact_messages, compact_messages, should_compact
from .selection.selector import Choice, Demand, Selector
from .selection.trigger_evaluation import Reading
from .state import CompactionState, compaction_count
from .summary.key_information import KeyContext
from .summary.summarizers import Summarizer, SummaryRequest

__all__ = [
    "Choice",
    "CompactionError",
    "CompactionResult",
    "CompactionSettings",
    "CompactionState",
    "ContextExhaustedError",
    "Demand",
    "InvalidMessagesError",
    "KeyContext",
    "MessageRefusedError",
    "Reading",
    "Redaction",
    "Reply",
    "RequestError",
    "Selector",
    "SettingsError",
    "Summarizer",
    "SummaryRequest",
    "ThreadBusyError",
    "UnknownWindowError",
    "acompact_messages",
    "compact_messages",
    "compaction_count",
    "is_summary",
    "load_settings",
    "render",
    "should_compact",
]
