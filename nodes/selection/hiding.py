"""The last level: hide the oldest messages until the request fits. Needs no model and always ends."""

from bisect import bisect_left

from ..conversation.message_marks import is_summary
from .selector import Demand, Selection, Selector
from .strategy_chain import forced


def hide(selector: Selector, demand: Demand) -> Selection:
    """Drop whole blocks and single messages, oldest first, down to the aim; then shorten what is left.

    The floor does not hold here, and an earlier summary goes first, into the one that follows. System messages,
    pins, the unanswered user message and the results the model waits for stay. Where even that does not fit and the
    request must, steps leave too; where that does not help, the gate will say so.
    """
    messages, chosen = selector.view.messages, selector.settings
    everything = frozenset(range(len(messages)))
    goal = demand.aim - demand.summary
    clip = selector.clip(everything, chosen.tool_call_threshold, chosen.tool_result_threshold, chosen.preview_tokens)
    units = _units(selector)
    summaries = frozenset(i for unit in units for i in unit if is_summary(messages[i]))

    def oldest(count: int) -> frozenset[int]:
        return summaries.union(*units[:count]) if count else frozenset()

    def reaches_goal(count: int) -> bool:
        return selector.tokens(oldest(count), clip) <= goal

    drop = oldest(bisect_left(range(len(units)), 1, key=reaches_goal))
    if selector.tokens(drop, clip) > goal:
        clip = selector.tight_clip(everything - drop, drop, goal)
    found = selector.selection(demand, drop, clip, floor=0)
    notice = demand.summary if drop else 0
    fits = found.tokens + notice <= demand.ceiling
    return found if fits else forced(selector, demand) or found


def _units(selector: Selector) -> list[frozenset[int]]:
    """What can leave, each a block or a single message, oldest first."""
    view, units = selector.view, list[frozenset[int]]()
    for index in range(len(view.messages)):
        block = view.block_of.get(index)
        if block and index != block.start:
            continue
        unit = frozenset(block.indexes if block else (index,))
        if not unit & selector.untouchable:
            units.append(unit)
    return units
