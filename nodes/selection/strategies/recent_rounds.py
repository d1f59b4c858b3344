"""`recent_rounds`: keep the newest rounds whole, with their tool blocks; and the same for a number of messages."""

from collections.abc import Iterable, Iterator

from ...config.policies import RecentRounds
from ..selector import Choice, Demand, Selector
from .tool_blocks import shrunk


def recent_rounds(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Yield choices that keep `keep_recent_rounds` rounds, then fewer rounds, then only parts of the newest round.

    The round of an unanswered user message is kept in addition.
    """
    view = selector.view
    most = selector.settings.of(RecentRounds).keep_recent_rounds + (view.pending_user is not None)
    counts = range(min(most, len(view.round_starts)), 0, -1)
    yield from _from(selector, demand, (view.round_starts[-count] for count in counts))


def recent_messages(selector: Selector, demand: Demand, most: int) -> Iterator[Choice]:
    """Yield choices that keep `most` messages, then two fewer each time, then only parts of the newest round.

    An unanswered user message is kept in addition, and tool blocks stay whole.
    """
    answered = [index for index in selector.non_system if index != selector.view.pending_user]
    starts = (answered[-count:][0] for count in range(most + most % 2, 0, -2) if answered)
    yield from _from(selector, demand, starts)


def _from(selector: Selector, demand: Demand, starts: Iterable[int]) -> Iterator[Choice]:
    """Yield choices that keep the messages from these indexes on, then only parts of the newest round."""
    for start in starts:
        floor = sum(index >= start for index in selector.view.round_starts)
        yield Choice(drop=frozenset(range(start)), floor=floor, enough=demand.roomy)
    yield from shrunk(selector, demand)
