"""The one place where a check's figures become a route: used by `token_check` and by `model` (B23)."""

from collections.abc import Mapping
from typing import Any

from .attempts import note
from .events import PreCompactEvent, TriggerSource, emit, log
from .policies.breaker import Past, held_off
from .policies.triggers import Reading, Standing, decide, firing
from .state import Route
from .steps import Step
from .triggers import Hook
from .turn import Turn

ON: Mapping[str, str] = {"compact": "selective_compaction", "confirm": "confirm"}

HOOKS: Mapping[TriggerSource, Hook] = {"input": "pre_input", "precheck": "pre_model", "check": "post_model"}
"""The hook at which each check asks the triggers (C2)."""


def check(turn: Turn, size: int, source: TriggerSource, route: Route) -> Step[dict[str, Any]]:
    """Ask the triggers about a request of `size` tokens; the keys of the `compaction` channel that follow."""
    reading = Reading(
        hook=HOOKS[source], size=size, sizes=turn.sizes, messages=turn.messages, turns=turn.turns_since_commit
    )
    fired = firing(reading, turn.settings, turn.team.triggers)
    if fired is None:
        return {"step": route, "route": route}
    name = source if fired.name == "tokens" else fired.name
    emit(turn.writer, PreCompactEvent(trigger=name, current_tokens=size, threshold=turn.sizes.trigger))
    decision = decide(size, turn.sizes, standing(turn))
    if decision == "deferred":
        reason = held_off(past(turn), turn.settings)
        log.info("冷却中，跳过压缩 (cool-down: %s)", reason)
        yield from note(turn, name, "deferred_cooldown", size, reason=reason)
    step = ON.get(decision, route)
    return {
        "step": step,
        "route": route,
        "trigger": name,
        "focus": None,
        "full": fired.full,
        "most": fired.most,
    }


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
