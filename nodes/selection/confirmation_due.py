"""Decide what to do if a trigger fired: compact, ask a person for confirmation, wait, or do nothing.

A person who declined is asked again once the conversation has grown by 5 % of the window (`GROWTH`).
"""

from dataclasses import dataclass
from typing import Literal

from ..conversation.window_and_reserve import Sizes

Decision = Literal["compact", "confirm", "choose", "deferred", "declined", "held"]

GROWTH = 0.05
"""Share of the window by which a conversation must grow before a declined question is asked again."""


@dataclass(frozen=True, kw_only=True)
class TriggerHistory:
    """The parts of a thread's history that the decision depends on."""

    suspension_reason: str = ""
    """Why the breaker suspends automatic compactions; empty if it does not."""
    declined_at: int | None = None
    """Size of the request, in tokens, at which a person last declined a compaction."""
    asks_first: bool = False
    """Whether a person is asked before a compaction (`require_confirmation`)."""
    undone: bool = False
    """Whether the last compaction was undone, and automatic compactions were not allowed again since then."""


NO_HISTORY = TriggerHistory()


def decide(size: int, sizes: Sizes, history: TriggerHistory = NO_HISTORY, *, answered: bool = False) -> Decision:
    """Return what to do about a request of `size` tokens for which a trigger fired.

    A request over the limit is never `deferred` (by the breaker) or `held` (after an undo). If `require_confirmation`
    is set, a person chooses how such a request goes on, even if the person declined before. If the turn is already
    `answered`, no request is about to be sent: the usual question is asked, and after a refusal the choice of how to
    continue waits for the next input.
    """
    if size > sizes.limit:
        return _over_the_limit(history, answered=answered)
    if history.undone:
        return "held"
    if history.suspension_reason:
        return "deferred"
    if not history.asks_first:
        return "compact"
    declined = history.declined_at is not None and size < history.declined_at + sizes.window * GROWTH
    return "declined" if declined else "confirm"


def _over_the_limit(history: TriggerHistory, *, answered: bool) -> Decision:
    if not history.asks_first:
        return "compact"
    if not answered:
        return "choose"
    return "confirm" if history.declined_at is None else "declined"
