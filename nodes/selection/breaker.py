"""The breaker: suspends automatic compactions of a thread after failures, or if they become too frequent.

It only suspends compactions of requests whose size is between the trigger and the limit. If the request is over the
limit, or if a person asks for a compaction, the compaction always takes place.
"""

from ..state import Breaker

COOLDOWN_S = 8.0
"""Seconds for which automatic compactions are suspended."""
COOLDOWN_AFTER = 2
"""Number of failed attempts in a row after which the cool-down starts."""
COMPACTIONS, CALLS = 3, 6
"""Maximum number of compactions within the last calls of the model, and the number of these calls."""


def suspension_reason(breaker: Breaker, *, calls: int, now: float) -> str:
    """Return why automatic compactions are suspended: `failures`, `frequency`; empty if they are not.

    `calls` is the number of the model's calls so far, `now` the wall clock. After the cool-down one attempt is
    allowed. If the attempt fails, the next cool-down starts; otherwise the breaker is reset. If the end of the
    cool-down is more than a cool-down away, the clock was set back, and the cool-down counts as over.
    """
    if 0 < breaker.get("cooldown_until", 0.0) - now <= COOLDOWN_S:
        return "failures"
    recent = breaker.get("recent", [])
    return "frequency" if len(recent) >= COMPACTIONS and calls - recent[-COMPACTIONS] < CALLS else ""


def with_cooldown(breaker: Breaker, failures: int, now: float) -> Breaker:
    """Return the breaker, in a cool-down after so many failed attempts in a row."""
    return {**breaker, "cooldown_until": now + COOLDOWN_S} if failures >= COOLDOWN_AFTER else breaker
