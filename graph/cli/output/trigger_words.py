"""Triggers in a few words, as tables show them."""

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.config.triggers import (
    Command,
    Count,
    Marker,
    RemainingRatio,
    ReserveTokens,
    Trigger,
    UsedRatio,
)


def triggers_of(settings: CompactionSettings) -> list[str]:
    """What starts a compaction, a few words each; nothing at all where the settings are not enabled."""
    if not settings.enabled:
        return []
    counted = [trigger for trigger in settings.triggers if trigger not in settings.token_triggers]
    return [in_words(trigger) for trigger in (*settings.token_triggers, *counted)]


def in_words(trigger: Trigger) -> str:
    """One trigger."""
    match trigger:
        case UsedRatio():
            return f"used {trigger.operator} {trigger.ratio:.0%}"
        case RemainingRatio():
            return f"left {trigger.operator} {trigger.ratio:.0%}"
        case ReserveTokens():
            return f"used {trigger.operator} all but {trigger.tokens:,}"
        case Count():
            return f"{trigger.unit} {trigger.operator} {trigger.limit:,}" + (", in full" if trigger.full else "")
        case Marker() | Command():
            return trigger.text
        case _:
            return f"own: {trigger.name}"
