"""The breaker: when automatic compactions of a thread are held off, and why.

It keeps nothing itself: what it judges stands in the thread's state, and so in the checkpoint. It only ever
defers in the soft zone; over the limit, and when a person asks, a compaction goes ahead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..config.settings import CompactionSettings

REMEMBERED = 16
"""Compactions whose place is remembered."""


@dataclass(frozen=True, kw_only=True)
class Past:
    """What a thread has been through."""

    now: float
    """Wall clock, seconds."""
    cooldown_until: float = 0.0
    failures: int = 0
    """Failed attempts in a row."""
    ineffective: int = 0
    """Commits in a row after which the provider still reported the trigger or more."""
    calls: int = 0
    """Calls of the model so far."""
    recent: Sequence[int] = ()
    """The value of `calls` at the last commits."""


def held_off(past: Past, settings: CompactionSettings) -> str:
    """`failures`, `ineffective`, `frequency`, or an empty string where an attempt may be made.

    After the cool-down one attempt is let through; its failure starts the next cool-down, its success ends it.
    """
    if in_cooldown(past, settings.breaker_cooldown_s):
        return "failures" if past.failures else "ineffective"
    return "frequency" if is_too_frequent(past, settings) else ""


def in_cooldown(past: Past, seconds: float) -> bool:
    """Whether the cool-down runs.

    One that ends further away than its own length was overtaken by a clock set back, and counts as over.
    """
    return 0 < past.cooldown_until - past.now <= seconds


def is_too_frequent(past: Past, settings: CompactionSettings) -> bool:
    """Whether so many compactions stand within the last calls of the model that another would serve nobody."""
    most = settings.breaker_frequency_compactions
    return len(past.recent) >= most and past.calls - past.recent[-most] < settings.breaker_frequency_calls
