"""Decide the next step from a request's size: used by `token_check` before the call and by `model` after it."""

from collections.abc import Mapping
from typing import Any, cast

from langchain_core.messages import ToolMessage

from langgraph_compaction.checkpoint.telemetry import annotate

from ..config.triggers import Hook, Unit, share
from ..errors import SettingsError
from ..events import PreCompactEvent, TriggerSource, emit, log, warning_event
from ..selection.breaker import BreakerHistory, suspension_reason
from ..selection.confirmation_due import TriggerHistory, decide
from ..selection.trigger_evaluation import Reading, firing
from ..state import Route
from .effects import Effects
from .ledger_io import note
from .node_context import NodeContext

ON: Mapping[str, str] = {"compact": "selective_compaction", "confirm": "confirm", "choose": "confirm"}

HOOKS: Mapping[TriggerSource, Hook] = {"input": "pre_input", "precheck": "pre_model", "check": "post_model"}
"""For each point of a turn at which sizes are checked, the hook whose triggers are evaluated there."""

WARNING_RATIO = 0.75
"""Share of the window, or of the limit where ratios are, from which the user is warned of the next compaction."""

UNASKABLE = (
    "require_confirmation asks by an interrupt, which only a checkpointer can resume: give checkpointer=..., or set "
    "require_confirmation=False"
)


def check(context: NodeContext, size: int, source: TriggerSource, route: Route) -> Effects[dict[str, Any]]:
    """Evaluate the triggers for a request of `size` tokens; return the keys to write into the channel `compaction`.

    `size` may leave out the newest messages, but the limit is compared with the whole request.
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
    if fired is None or _question_waits(context, source):
        return {"step": route, "route": route, **_warned(context, size, source)}
    name = source if fired.name == "tokens" else fired.name
    annotate({"compaction.trigger": name})
    emit(context.writer, PreCompactEvent(trigger=name, current_tokens=size, threshold=context.sizes.trigger))
    due = context.size if route == "model" and context.size > context.sizes.limit else size
    decision = decide(due, context.sizes, trigger_history(context), answered=route == "end")
    if decision == "deferred":
        reason = suspension_reason(breaker_history(context))
        log.info("Skipping a compaction during the cool-down (冷却中，跳过压缩): %s", reason)
        yield from note(context, name, "deferred_cooldown", size, reason=reason)
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


def _question_waits(context: NodeContext, source: TriggerSource) -> bool:
    """Whether a person is asked after the model's answer, because front ends show no buttons below a user's message.

    A policy that checks after the answer can wait for it, unless the request does not fit. A compaction graph is not
    called after the answer.
    """
    later = context.settings.require_confirmation and "post_model" in context.settings.policy.hooks
    if not later or source == "check" or context.dependencies.embedded or context.size > context.sizes.limit:
        return False
    return not any(isinstance(newest, ToolMessage) for newest in context.messages[-1:])


def _warned(context: NodeContext, size: int, source: TriggerSource) -> dict[str, bool]:
    """Warn once, until the next commit, that the conversation has grown to `WARNING_RATIO`."""
    base = context.sizes.base
    told = context.compaction.get("warned") or not context.settings.enabled
    if source == "input" or told or size < share(base, WARNING_RATIO):
        return {}
    emit(context.writer, warning_event(size, base, context.sizes.trigger))
    return {"warned": True}


def trigger_history(context: NodeContext) -> TriggerHistory:
    """Return the parts of the thread's history on which the decision depends."""
    return TriggerHistory(
        suspension_reason=suspension_reason(breaker_history(context)),
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


def check_askable(context: NodeContext) -> None:
    """Raise `SettingsError` if a person has to be asked, and no checkpointer could resume after the answer."""
    if context.settings.require_confirmation and not context.can_ask:
        raise SettingsError(UNASKABLE)
