"""The last rung: hide the oldest messages until the request fits. Needs no model and always ends (F11)."""

from langchain_core.messages import AnyMessage

from .selection import Demand, Selection, Selector


def hide(selector: Selector, demand: Demand) -> Selection:
    """Drop whole blocks and single messages, oldest first, down to the aim; then shorten what is left.

    The floor does not hold here. System messages, pins, the unanswered user message and the results the
    model waits for stay; where even that does not fit, the gate will say so.
    """
    everything = frozenset(range(len(selector.view.messages)))
    goal = demand.aim - demand.summary
    drop: frozenset[int] = frozenset()
    chosen = selector.settings
    clip = selector.clip(everything, chosen.tool_call_threshold, chosen.tool_result_threshold, chosen.preview_tokens)
    left = selector.tokens(drop, clip)
    for unit in _units(selector):
        if left <= goal:
            break
        drop |= unit
        left -= selector.meter.scaled(
            sum(selector.meter.counter.message(clip.pop(i, selector.view.messages[i])) for i in unit)
        )
    clip = _shortened(selector, drop, clip, goal)
    return Selection(
        floor=0, drop=drop, clip=clip, counts=selector.count(drop, clip), tokens=selector.tokens(drop, clip)
    )


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


def _shortened(
    selector: Selector, drop: frozenset[int], clip: dict[int, AnyMessage], goal: int
) -> dict[int, AnyMessage]:
    if selector.tokens(drop, clip) <= goal:
        return clip
    kept = frozenset(range(len(selector.view.messages))) - drop
    return selector.tight_clip(kept, drop, goal)
