"""The breaker: suspends automatic compactions of a thread after failures, or if they become too frequent.

It has no state of its own: it reads the history in the thread's state, and so in the checkpoint. It only suspends
compactions between trigger and limit. Over the limit, and if a person asks for it, a compaction always runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..config.settings import CompactionSettings

REMEMBERED_COMMITS = 16
"""How many commits are remembered."""


@dataclass(frozen=True, kw_only=True)
class BreakerHistory:
    """The thread's history that the breaker reads."""

    now: float
    """Current wall clock time in seconds."""
    cooldown_until: float = 0.0
    """Wall clock time in seconds at which the cool-down ends."""
    failures: int = 0
    """Consecutive failed attempts."""
    ineffective: int = 0
    """Consecutive commits after which the provider still reported a size at or above the trigger."""
    calls: int = 0
    """Number of model calls so far."""
    recent: Sequence[int] = ()
    """The value of `calls` at the last commits."""


def suspension_reason(past: BreakerHistory, settings: CompactionSettings) -> str:
    """Return why automatic compactions are suspended: `failures`, `ineffective`, `frequency`; empty if they are not.

    After the cool-down one attempt may run. If it fails the next cool-down starts, else the breaker is reset.
    """
    if in_cooldown(past, settings.breaker_cooldown_s):
        return "failures" if past.failures else "ineffective"
    return "frequency" if is_too_frequent(past, settings) else ""


def in_cooldown(past: BreakerHistory, seconds: float) -> bool:
    """Whether the cool-down of `seconds` seconds is running.

    If its end is further away than its length, the clock was set back, and the cool-down counts as over.
    """
    return 0 < past.cooldown_until - past.now <= seconds


def is_too_frequent(past: BreakerHistory, settings: CompactionSettings) -> bool:
    """Whether the number of compactions within the last model calls has reached the configured maximum."""
    most = settings.breaker_frequency_compactions
    return len(past.recent) >= most and past.calls - past.recent[-most] < settings.breaker_frequency_calls
