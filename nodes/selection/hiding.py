"""The last fallback: hide the oldest messages until the request fits, without calling a model."""

from bisect import bisect_left

from ..config.policies import Selective
from ..conversation.message_marks import is_summary
from .oversize_step import forced
from .selector import Demand, Selection, Selector


def hide_oldest(selector: Selector, demand: Demand) -> Selection:
    """Drop tool blocks and single messages, oldest first, until the request has the aimed size; then clip the rest.

    Rounds that the settings protect may be dropped too. Earlier summaries are dropped first, because the new one
    replaces them. System messages, pins, the unanswered user message and unread results stay. If the request does not
    fit and cannot be sent as it is, unread results are shortened, then unread tool blocks are dropped too. If the
    request is still too large, the gate refuses the result.
    """
    messages, chosen = selector.view.messages, selector.settings.of(Selective)
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
    else:
        clip = selector.with_newest_media(clip, drop, goal)
    found = selector.selection(demand, drop, clip, floor=0)
    notice = demand.summary if drop else 0
    if found.tokens + notice <= demand.ceiling or not demand.must_fit:
        return found
    return selector.shorten_unread(found, demand.ceiling - notice) or forced(selector, demand) or found


def _units(selector: Selector) -> list[frozenset[int]]:
    """Return the tool blocks and single messages that are allowed to be dropped, oldest first."""
    view, units = selector.view, list[frozenset[int]]()
    for index in range(len(view.messages)):
        block = view.block_of.get(index)
        if block and index != block.start:
            continue
        unit = frozenset(block.indexes if block else (index,))
        if not unit & selector.untouchable:
            units.append(unit)
    return units
