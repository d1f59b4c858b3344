"""`recent_tokens`: keep a number of tokens of the newest messages; the kept part never begins with a tool result."""

from collections.abc import Iterator

from langchain_core.messages import ToolMessage

from ...config.policies import ReserveTokens
from ..selector import Choice, Demand, Selector
from .tool_blocks import shrunk


def recent_tokens(selector: Selector, demand: Demand, most: int | None = None) -> Iterator[Choice]:
    """Yield choices that keep about `most` tokens (fewer in a small window), then half of them.

    Without `most`, the number is the setting `recent_tokens_keep`.
    """
    wanted = selector.settings.of(ReserveTokens).recent_tokens_keep if most is None else most
    everything = frozenset(range(len(selector.view.messages)))
    room = demand.aim - demand.summary - selector.tokens(everything - selector.view.header, {})
    keep = min(wanted, room)
    reached = _reached(selector, keep)
    for start in dict.fromkeys(
        _cut(selector, at) for at in (reached, reached + 1, _reached(selector, keep // 2) + 1)
    ):
        if start < len(everything):
            floor = sum(index >= start for index in selector.view.round_starts)
            yield Choice(drop=frozenset(range(start)), floor=floor, enough=demand.roomy)
    yield from shrunk(selector, demand)


def _reached(selector: Selector, tokens: int) -> int:
    """Return the index from which on the newest messages reach `tokens` tokens; 0 if all messages have fewer."""
    messages, count = selector.view.messages, selector.meter.counter.message
    at = len(messages)
    while at and tokens > 0:
        at -= 1
        tokens -= selector.meter.scaled(count(messages[at]))
    return at


def _cut(selector: Selector, at: int) -> int:
    """Return the first index from `at` on that is not a tool result; the number of messages if there is none."""
    messages = selector.view.messages
    return next((i for i in range(at, len(messages)) if not isinstance(messages[i], ToolMessage)), len(messages))
