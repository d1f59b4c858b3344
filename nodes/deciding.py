"""The one place where a check's figures become a route: used by `token_check` and by `model` (B23)."""

from collections.abc import Mapping
from typing import Any

from .attempts import note
from .events import PreCompactEvent, TriggerSource, emit, log
from .policies.breaker import Past, held_off
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
        reason = held_off(past(turn), turn.settings)
        log.info("冷却中，跳过压缩 (cool-down: %s)", reason)
        yield from note(turn, source, "deferred_cooldown", size, reason=reason)
    step = ON.get(decision, route)
    return {"step": step, "route": route, "trigger": source, "focus": None}


def standing(turn: Turn) -> Standing:
    """What the thread's past says."""
    return Standing(
        held_off=held_off(past(turn), turn.settings),
        declined_at=turn.compaction.get("declined_at"),
        asks_first=turn.settings.require_confirmation,
    )


def past(turn: Turn) -> Past:
    """What the breaker judges."""
    compaction = turn.compaction
    return Past(
        now=turn.now(),
        cooldown_until=compaction.get("cooldown_until", 0.0),
        failures=compaction.get("streak", 0),
        ineffective=compaction.get("ineffective", 0),
        calls=compaction.get("calls", 0),
        recent=compaction.get("recent") or (),
    )
