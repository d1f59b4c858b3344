"""The one place where a check's figures become a route: used by `token_check` and by `model` (B23)."""

from collections.abc import Mapping
from typing import Any

from .attempts import note
from .events import PreCompactEvent, TriggerSource, emit, log
from .policies.triggers import Standing, decide
from .state import Route
from .steps import Step
from .turn import Turn

ON: Mapping[str, str] = {"compact": "selective_compaction", "confirm": "confirm"}


def check(turn: Turn, size: int, source: TriggerSource, route: Route) -> Step[dict[str, Any]]:
    """Decide about a request of `size` tokens; the keys of the `compaction` channel that follow from it."""
    decision = decide(size, turn.sizes, standing(turn))
    if decision == "fits":
        return {"step": route, "route": route}
    emit(
        turn.writer,
        PreCompactEvent(trigger=source, current_tokens=size, threshold=turn.sizes.trigger),
    )
    if decision == "deferred":
        until = turn.compaction.get("cooldown_until", 0.0)
        log.info("冷却中，跳过压缩 (cool-down, %.1f s left)", until - turn.now())
        yield from note(turn, source, "deferred_cooldown", size)
    step = ON.get(decision, route)
    return {"step": step, "route": route, "trigger": source, "focus": None}


def standing(turn: Turn) -> Standing:
    """What the thread's past says."""
    compaction = turn.compaction
    return Standing(
        now=turn.now(),
        cooldown_until=compaction.get("cooldown_until", 0.0),
        cooldown_s=turn.settings.cooldown_s,
        declined_at=compaction.get("declined_at"),
        asks_first=turn.settings.require_confirmation,
    )
