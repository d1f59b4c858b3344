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

    held_off: str = ""
    """Why the breaker holds automatic compactions off; empty where it does not."""
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
    if standing.held_off:
        return "deferred"
    if not standing.asks_first:
        return "compact"
    declined = standing.declined_at is not None and size < standing.declined_at + sizes.window * GROWTH
    return "declined" if declined else "confirm"
