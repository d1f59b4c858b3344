"""`recent_rounds`: keep the newest rounds whole, with their tool blocks."""

from collections.abc import Iterator

from ..selector import Choice, Demand, Selector
from .tool_blocks import shrunk


def recent_rounds(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Yield choices that keep `recent_rounds_keep` rounds, then fewer rounds, then only parts of the newest round.

    The round of an unanswered user message is kept in addition.
    """
    for start in _starts(selector):
        floor = sum(index >= start for index in selector.view.round_starts)
        yield Choice(drop=frozenset(range(start)), floor=floor, enough=demand.roomy)
    yield from shrunk(selector, demand)


def _starts(selector: Selector) -> Iterator[int]:
    """Yield indexes from which on messages are kept, smallest index first; none is after the newest user message."""
    view, settings = selector.view, selector.settings
    if settings.recent_rounds_as == "message_pairs":
        answered = [index for index in selector.non_system if index != view.pending_user]
        for count in range(2 * settings.recent_rounds_keep, 0, -2):
            yield from answered[-count:][:1]
        return
    waiting = view.pending_user is not None
    for count in range(settings.recent_rounds_keep + waiting, 0, -1):
        if count <= len(view.round_starts):
            yield view.round_starts[-count]
