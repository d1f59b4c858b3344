"""The breaker: suspends automatic compactions of a thread after failures, or if they become too frequent.

The breaker has no state of its own: it reads the history in the thread's state, which the checkpoint holds. It only
suspends compactions of requests whose size is between the trigger and the limit. If the request is over the limit, or
if a person asks for a compaction, the compaction always takes place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

COOLDOWN_S = 8.0
"""Seconds for which automatic compactions are suspended."""
COOLDOWN_AFTER = 2
"""Number of failed attempts in a row, or of useless compactions in a row, after which the cool-down starts."""
COMPACTIONS, CALLS = 3, 6
"""Maximum number of compactions within the last calls of the model, and the number of these calls."""
REMEMBERED_COMMITS = 16
"""Number of commits (compactions that were carried out) that the breaker's history remembers."""


@dataclass(frozen=True, kw_only=True)
class BreakerHistory:
    """The part of a thread's history that the breaker reads."""

    now: float
    """Current wall clock time in seconds."""
    cooldown_until: float = 0.0
    """Wall clock time in seconds at which the cool-down ends."""
    failures: int = 0
    """Number of consecutive failed attempts to compact."""
    calls: int = 0
    """Number of model calls so far."""
    recent: Sequence[int] = ()
    """The value of `calls` at each of the last commits, oldest first."""


def suspension_reason(past: BreakerHistory) -> str:
    """Return why automatic compactions are suspended: `failures`, `ineffective`, `frequency`; empty if they are not.

    After the cool-down one attempt is allowed. If the attempt fails, the next cool-down starts; otherwise the breaker
    is reset.
    """
    if in_cooldown(past):
        return "failures" if past.failures else "ineffective"
    return "frequency" if is_too_frequent(past) else ""


def in_cooldown(past: BreakerHistory) -> bool:
    """Whether the cool-down is running.

    If its end is more than a cool-down away, the clock was set back, and the cool-down counts as over.
    """
    return 0 < past.cooldown_until - past.now <= COOLDOWN_S


def is_too_frequent(past: BreakerHistory) -> bool:
    """Whether the last calls of the model had as many compactions as are allowed."""
    return len(past.recent) >= COMPACTIONS and past.calls - past.recent[-COMPACTIONS] < CALLS
