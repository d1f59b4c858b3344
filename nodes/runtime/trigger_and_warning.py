"""Decide the next step from a request's size: used by `token_check` before the call and by `model` after it."""

from collections.abc import Mapping
from typing import Any, cast

from langgraph_compaction.checkpoint.telemetry import annotate

from ..config.settings import CompactionSettings
from ..config.triggers import Hook, Unit, share
from ..errors import ContextExhaustedError, SettingsError
from ..events import PreCompactEvent, TriggerSource, emit, log, warning_event
from ..selection.breaker import BreakerHistory, suspension_reason
from ..selection.confirmation_due import Decision, TriggerHistory, decide
from ..selection.trigger_evaluation import Reading, firing
from ..state import Route
from .effects import Effects
from .ledger_io import note
from .node_context import NodeContext

ON: Mapping[str, str] = {"compact": "selective_compaction", "confirm": "confirm", "choose": "confirm"}

HOOKS: Mapping[TriggerSource, Hook] = {"input": "pre_input", "precheck": "pre_model", "check": "post_model"}
"""For each point of a turn at which sizes are checked, the hook whose triggers are evaluated there."""


UNASKABLE = (
    "require_confirmation asks by an interrupt, which only a checkpointer can resume: give checkpointer=..., or "
    "checkpointer=True where LangGraph's server or a parent graph brings one, or say with "
    "confirmation_unavailable='proceed' or 'refuse' what is done where nobody can be asked"
)


def check(context: NodeContext, size: int, source: TriggerSource, route: Route) -> Effects[dict[str, Any]]:
    """Evaluate the triggers for a request of `size` tokens; return the keys to write into the channel `compaction`.

    `size` may leave out the newest messages, but the limit is compared with the whole request. Raises
    `ContextExhaustedError` over the limit if nobody can be asked and `confirmation_unavailable="refuse"`.
    """
    marked = context.compaction.get("marked")
    reading = Reading(
        hook=HOOKS[source],
        size=size,
        sizes=context.sizes,
        messages=context.messages,
        turns=context.turns_since_commit,
        model_calls=context.calls_since_commit(route),
        in_vain=cast("Mapping[Unit, int]", context.compaction.get("in_vain") or {}),
        marked=marked,
    )
    annotate(
        {
            "compaction.tokens": size,
            "compaction.threshold": context.sizes.trigger,
            "compaction.limit": context.sizes.limit,
        }
    )
    fired = firing(reading, context.settings, context.dependencies.triggers)
    if fired is None:
        return {"step": route, "route": route, **_warned(context, size, source)}
    name = source if fired.name == "tokens" else fired.name
    annotate({"compaction.trigger": name})
    emit(context.writer, PreCompactEvent(trigger=name, current_tokens=size, threshold=context.sizes.trigger))
    due = context.size if route == "model" and context.size > context.sizes.limit else size
    decision = decide(due, context.sizes, trigger_history(context), answered=route == "end")
    if decision == "deferred":
        reason = suspension_reason(breaker_history(context), context.settings)
        log.info("Skipping a compaction during the cool-down (冷却中，跳过压缩): %s", reason)
        yield from note(context, name, "deferred_cooldown", size, reason=reason)
    if decision in ("confirm", "choose") and not context.can_ask:
        decision = yield from _unasked(context, name, due, decision)
    heard: dict[str, Any] = {"marked": None} if marked else {}
    warned = {} if decision in ON else _warned(context, size, source)
    return {
        **heard,
        **warned,
        "step": ON.get(decision, route),
        "route": route,
        "trigger": name,
        "focus": None,
        "summarize_all": fired.summarize_all,
        "max_messages": fired.max_messages,
        "awaiting_choice": context.meter.request(context.messages) if decision == "choose" else 0,
    }


def _warned(context: NodeContext, size: int, source: TriggerSource) -> dict[str, bool]:
    """Warn once, until the next commit, that the conversation has grown to `warn_ratio`."""
    ratio, base = context.settings.warn_ratio, context.sizes.base
    if source == "input" or ratio is None or size < share(base, ratio) or context.compaction.get("warned"):
        return {}
    emit(context.writer, warning_event(size, base, context.sizes.trigger))
    return {"warned": True}


def _unasked(context: NodeContext, trigger: str, size: int, due: Decision) -> Effects[Decision]:
    """Return the decision if a person should be asked but nobody can answer, because there is no checkpointer.

    With `confirmation_unavailable="proceed"` the conversation is compacted; with "refuse" it is not.

    Over the limit "refuse" raises `ContextExhaustedError`, because the request cannot be sent.
    """
    if context.settings.confirmation_unavailable == "proceed":
        return "compact"
    yield from note(context, trigger, "declined", size, reason="nobody_to_ask")
    if due == "choose":
        raise ContextExhaustedError(nobody_to_ask(context))
    return "declined"


def trigger_history(context: NodeContext) -> TriggerHistory:
    """Return the parts of the thread's history on which the decision depends."""
    return TriggerHistory(
        suspension_reason=suspension_reason(breaker_history(context), context.settings),
        declined_at=context.compaction.get("declined_at"),
        asks_first=context.settings.require_confirmation,
        undone=context.compaction.get("held", False),
    )


def breaker_history(context: NodeContext) -> BreakerHistory:
    """Return the parts of the thread's history from which the breaker decides."""
    compaction = context.compaction
    return BreakerHistory(
        now=context.now(),
        cooldown_until=compaction.get("cooldown_until", 0.0),
        failures=compaction.get("streak", 0),
        calls=compaction.get("calls", 0),
        recent=compaction.get("recent") or (),
    )


def nobody_to_ask(context: NodeContext) -> str:
    """Return the error text for a request over the limit if nobody can be asked and the settings refuse."""
    return (
        f"the request holds {context.size} tokens and the limit is {context.sizes.limit}; it was not sent. A person "
        "has to be asked before a compaction (require_confirmation), nobody can answer without a checkpointer, and "
        "confirmation_unavailable='refuse' compacts nothing unasked: give checkpointer=..., set "
        "confirmation_unavailable='proceed', call CompactionThread.compact(), or send fewer messages"
    )


def check_askable(settings: CompactionSettings, *, answerable: bool) -> None:
    """Raise `SettingsError` if confirmation is required, but nobody can be asked and no setting says what to do."""
    if settings.require_confirmation and settings.confirmation_unavailable is None and not answerable:
        raise SettingsError(UNASKABLE)
