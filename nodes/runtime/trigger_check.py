"""The one place where a check's figures become a route: used by `token_check` and by `model`."""

from collections.abc import Mapping
from typing import Any, cast

from ..config.triggers import Hook, Unit, share
from ..effects import Step
from ..errors import ContextExhaustedError
from ..events import PreCompactEvent, TriggerSource, emit, log, warning_event
from ..selection.breaker import Past, held_off
from ..selection.trigger_evaluation import Decision, Reading, Standing, decide, firing
from ..state import Route
from .ledger_io import note
from .node_context import Turn

ON: Mapping[str, str] = {"compact": "selective_compaction", "confirm": "confirm", "choose": "confirm"}

HOOKS: Mapping[TriggerSource, Hook] = {"input": "pre_input", "precheck": "pre_model", "check": "post_model"}
"""The hook at which each check asks the triggers."""


def check(turn: Turn, size: int, source: TriggerSource, route: Route) -> Step[dict[str, Any]]:
    """Ask the triggers about a request of `size` tokens; the keys of the `compaction` channel that follow.

    `size` may leave out what came last; a request that is to be sent counts as over the limit where all of it is.
    Raises `ContextExhaustedError` over the limit where nobody can be asked and the settings refuse to compact
    unasked.
    """
    marked = turn.compaction.get("marked")
    reading = Reading(
        hook=HOOKS[source],
        size=size,
        sizes=turn.sizes,
        messages=turn.messages,
        turns=turn.turns_since_commit,
        in_vain=cast("Mapping[Unit, int]", turn.compaction.get("in_vain") or {}),
        marked=marked,
    )
    fired = firing(reading, turn.settings, turn.team.triggers)
    if fired is None:
        return {"step": route, "route": route, **_warned(turn, size, source)}
    name = source if fired.name == "tokens" else fired.name
    emit(turn.writer, PreCompactEvent(trigger=name, current_tokens=size, threshold=turn.sizes.trigger))
    due = turn.size if route == "model" and turn.size > turn.sizes.limit else size
    decision = decide(due, turn.sizes, standing(turn), answered=route == "end")
    if decision == "deferred":
        reason = held_off(past(turn), turn.settings)
        log.info("Skipping a compaction during the cool-down (冷却中，跳过压缩): %s", reason)
        yield from note(turn, name, "deferred_cooldown", size, reason=reason)
    if decision in ("confirm", "choose") and not turn.can_ask:
        decision = yield from _unasked(turn, name, due, decision)
    heard: dict[str, Any] = {"marked": None} if marked else {}
    warned = {} if decision in ON else _warned(turn, size, source)
    return {
        **heard,
        **warned,
        "step": ON.get(decision, route),
        "route": route,
        "trigger": name,
        "focus": None,
        "full": fired.full,
        "most": fired.most,
        "choosing": turn.meter.request(turn.messages) if decision == "choose" else 0,
    }


def _warned(turn: Turn, size: int, source: TriggerSource) -> dict[str, bool]:
    """Warn where the conversation has grown to `warn_ratio`, once until the next commit."""
    ratio, base = turn.settings.warn_ratio, turn.sizes.base
    if source == "input" or ratio is None or size < share(base, ratio) or turn.compaction.get("warned"):
        return {}
    emit(turn.writer, warning_event(size, base, turn.sizes.trigger))
    return {"warned": True}


def _unasked(turn: Turn, trigger: str, size: int, due: Decision) -> Step[Decision]:
    """What is done where a person should be asked and nobody can answer: `proceed` compacts, `refuse` does not.

    Over the limit a refusal is an error: the request cannot be sent as it is.
    """
    if turn.settings.on_no_handler == "proceed":
        return "compact"
    yield from note(turn, trigger, "declined", size, reason="nobody_to_ask")
    if due == "choose":
        raise ContextExhaustedError(nobody_to_ask(turn))
    return "declined"


def standing(turn: Turn) -> Standing:
    """What the thread's past says."""
    return Standing(
        held_off=held_off(past(turn), turn.settings),
        declined_at=turn.compaction.get("declined_at"),
        asks_first=turn.settings.require_confirmation,
        undone=turn.compaction.get("held", False),
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


def nobody_to_ask(turn: Turn) -> str:
    """The error over the limit where nobody can be asked and the settings refuse to compact unasked."""
    return (
        f"the request holds {turn.size} tokens and the limit is {turn.sizes.limit}; it was not sent. A person has to "
        "be asked before a compaction (require_confirmation), nobody can answer without a checkpointer, and "
        "on_no_handler='refuse' compacts nothing unasked: give checkpointer=..., set on_no_handler='proceed', call "
        "compact_now, or send fewer messages"
    )
