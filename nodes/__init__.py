"""The graph's nodes, one file each; the vocabulary that they share; and folders for the functions that they call.

Each name below is imported on first use.
"""

from typing import TYPE_CHECKING

from langgraph_compaction.checkpoint.lazy_names import lazy_names

if TYPE_CHECKING:
    from .config.loading import load_settings
    from .config.policies import (
        Faithful,
        LayeredDefence,
        Progressive,
        ProgressiveChart,
        ProgressivePseudocode,
        RecentRounds,
        ReserveTokens,
        Selective,
        TypedRules,
    )
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
    from .state import CompactionState, compaction_count, view
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
    "Faithful",
    "InvalidMessagesError",
    "KeyContext",
    "LayeredDefence",
    "MessageRefusedError",
    "Progressive",
    "ProgressiveChart",
    "ProgressivePseudocode",
    "Reading",
    "RecentRounds",
    "Redaction",
    "Reply",
    "RequestError",
    "ReserveTokens",
    "Selective",
    "Selector",
    "SettingsError",
    "Summarizer",
    "SummaryRequest",
    "ThreadBusyError",
    "TypedRules",
    "UnknownWindowError",
    "acompact_messages",
    "compact_messages",
    "compaction_count",
    "is_summary",
    "load_settings",
    "render",
    "should_compact",
    "view",
]

_OWN = {
    "Choice": ".selection.selector",
    "CompactionResult": ".inline.compact_messages",
    "CompactionSettings": ".config.settings",
    "CompactionState": ".state",
    "Demand": ".selection.selector",
    "Faithful": ".config.policies",
    "KeyContext": ".summary.key_information",
    "LayeredDefence": ".config.policies",
    "Progressive": ".config.policies",
    "ProgressiveChart": ".config.policies",
    "ProgressivePseudocode": ".config.policies",
    "Reading": ".selection.trigger_evaluation",
    "RecentRounds": ".config.policies",
    "Redaction": ".conversation.redaction",
    "Reply": ".gate.reply_checks",
    "ReserveTokens": ".config.policies",
    "Selective": ".config.policies",
    "Selector": ".selection.selector",
    "Summarizer": ".summary.summarizers",
    "SummaryRequest": ".summary.summarizers",
    "TypedRules": ".config.policies",
    "acompact_messages": ".inline.compact_messages",
    "compact_messages": ".inline.compact_messages",
    "compaction_count": ".state",
    "view": ".state",
    "is_summary": ".conversation.message_marks",
    "load_settings": ".config.loading",
    "render": ".conversation.request",
    "should_compact": ".inline.compact_messages",
}

if not TYPE_CHECKING:  # type checkers would otherwise accept any name
    __getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, ".errors") | _OWN)
