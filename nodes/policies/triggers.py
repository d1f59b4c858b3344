"""Whether a conversation is compacted now, and whether that is urgent (DESIGN §4, §7)."""

from dataclasses import dataclass
from typing import Literal

from .sizes import Sizes

Decision = Literal["fits", "compact", "confirm", "deferred", "declined"]

GROWTH = 0.05
"""Share of the window by which a conversation must grow before a declined question is asked again."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What of a thread's past bears on the decision."""

    now: float
    cooldown_until: float = 0.0
    cooldown_s: float = 8.0
    declined_at: int | None = None
    asks_first: bool = False


def decide(size: int, sizes: Sizes, standing: Standing) -> Decision:
    """What to do about a request of `size` tokens; the trigger itself counts as reached (S1.1).

    Over the limit nothing is asked and nothing is deferred.
    """
    if size < sizes.trigger:
        return "fits"
    if size > sizes.limit:
        return "compact"
    if in_cooldown(standing):
        return "deferred"
    if not standing.asks_first:
        return "compact"
    declined = standing.declined_at is not None and size < standing.declined_at + sizes.window * GROWTH
    return "declined" if declined else "confirm"


def in_cooldown(standing: Standing) -> bool:
    """Whether the cool-down runs.

    One that ends further away than its own length was overtaken by a clock set back, and counts as over.
    """
    left = standing.cooldown_until - standing.now
    return 0 < left <= standing.cooldown_s
