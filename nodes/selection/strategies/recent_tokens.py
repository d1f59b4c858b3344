"""`recent_tokens`: keep so many tokens of newest messages, cut never at a tool's result."""

from collections.abc import Iterator

from langchain_core.messages import ToolMessage

from ..selector import Choice, Demand, Selector
from .tool_blocks import shrunk


def recent_tokens(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """So many tokens, or what the aim leaves of a small window; where that does not fit, without what goes beyond."""
    everything = frozenset(range(len(selector.view.messages)))
    room = demand.aim - demand.summary - selector.tokens(everything - selector.view.header, {})
    keep = min(selector.settings.recent_tokens_keep, room)
    reached = _reached(selector, keep)
    for start in dict.fromkeys(
        _cut(selector, at) for at in (reached, reached + 1, _reached(selector, keep // 2) + 1)
    ):
        if start < len(everything):
            floor = sum(index >= start for index in selector.view.round_starts)
            yield Choice(drop=frozenset(range(start)), floor=floor, enough=demand.roomy)
    yield from shrunk(selector, demand)


def _reached(selector: Selector, tokens: int) -> int:
    """The message with which the newest ones reach so many tokens; the first, where all are fewer."""
    messages, count = selector.view.messages, selector.meter.counter.message
    at = len(messages)
    while at and tokens > 0:
        at -= 1
        tokens -= selector.meter.scaled(count(messages[at]))
    return at


def _cut(selector: Selector, at: int) -> int:
    """The first message from there on that may begin what stays: no tool's result; their number, where none may."""
    messages = selector.view.messages
    return next((i for i in range(at, len(messages)) if not isinstance(messages[i], ToolMessage)), len(messages))
