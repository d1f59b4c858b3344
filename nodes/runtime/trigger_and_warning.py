"""Decide the next step from a request's size: used by `token_check` before the call and by `model` after it."""

from collections.abc import Mapping
from typing import Any, Literal, cast

from langchain_core.messages import ToolMessage

from langgraph_compaction.checkpoint.telemetry import annotate

from ..config.triggers import Hook, Unit, share
from ..events import PreCompactEvent, TriggerSource, emit, log, warning_event
from ..selection.breaker import suspension_reason
from ..selection.trigger_evaluation import Reading, firing
from ..state import CompactionChannel, Route
from .effects import Effects
from .ledger_io import note
from .node_context import NodeContext

Decision = Literal["compact", "confirm", "choose", "deferred", "declined", "held"]
ON: Mapping[Decision, str] = {"compact": "selective_compaction", "confirm": "confirm", "choose": "confirm"}

HOOKS: Mapping[TriggerSource, Hook] = {"input": "pre_input", "precheck": "pre_model", "check": "post_model"}
"""For each point of a turn at which sizes are checked, the hook whose triggers are evaluated there."""

WARNING_RATIO = 0.75
"""Share of the window, or of the limit where ratios are, from which the user is warned of the next compaction."""

GROWTH = 0.05
"""Share of the window by which a conversation must grow before a person who declined is asked again."""


def check(context: NodeContext, size: int, source: TriggerSource, route: Route) -> Effects[dict[str, Any]]:
    """Evaluate the triggers for a request of `size` tokens; return the keys to write into the channel `compaction`.

    `size` may leave out the newest messages, but the limit is compared with the whole request.
    """
    sizes, compaction = context.sizes, context.compaction
    marked = compaction.get("marked")
    reading = Reading(
        hook=HOOKS[source],
        size=size,
        sizes=sizes,
        messages=context.messages,
        turns=compaction.get("turns", 0) - compaction.get("turns_at_commit", 0),
        model_calls=_calls_begun(compaction, route) - compaction.get("calls_at_commit", 0),
        in_vain=cast("Mapping[Unit, int]", compaction.get("in_vain") or {}),
        marked=marked,
    )
    annotate({"compaction.tokens": size, "compaction.threshold": sizes.trigger, "compaction.limit": sizes.limit})
    fired = firing(reading, context.settings, context.dependencies.triggers)
    if fired is None or _question_waits(context, source):
        return {"step": route, "route": route, **_warned(context, size, source)}
    name = source if fired.name == "tokens" else fired.name
    annotate({"compaction.trigger": name})
    emit(context.writer, PreCompactEvent(trigger=name, current_tokens=size, threshold=sizes.trigger))
    suspended = suspended_by(context)
    due = context.size if route == "model" and context.size > sizes.limit else size
    decision = _decision(context, due, suspended, answered=route == "end")
    if decision == "deferred":
        log.info("Skipping a compaction during the cool-down (冷却中，跳过压缩): %s", suspended)
        yield from note(context, name, "deferred_cooldown", size, reason=suspended)
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


def _decision(context: NodeContext, size: int, suspended: str, *, answered: bool) -> Decision:
    """Return what to do about a request of `size` tokens for which a trigger fired.

    A request over the limit is never `deferred` (by the breaker) or `held` (after an undo). If `require_confirmation`
    is set, a person chooses how such a request goes on, even if the person declined before. If the turn is already
    `answered`, no request is about to be sent: the usual question is asked, and after a refusal the choice of how to
    continue waits for the next input. A person who declined is asked again once the conversation has grown.
    """
    sizes, declined_at = context.sizes, context.compaction.get("declined_at")
    is_over, asks_first = size > sizes.limit, context.settings.require_confirmation
    if not is_over and context.compaction.get("held"):
        return "held"
    if not is_over and suspended:
        return "deferred"
    if not asks_first:
        return "compact"
    if is_over and not answered:
        return "choose"
    if declined_at is None:
        return "confirm"
    return "declined" if is_over or size < declined_at + sizes.window * GROWTH else "confirm"


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


def suspended_by(context: NodeContext) -> str:
    """Return why the breaker suspends automatic compactions of the thread; empty if it does not."""
    return suspension_reason(context.breaker, calls=context.compaction.get("calls", 0), now=context.now())


def counted_anew(compaction: CompactionChannel) -> dict[str, int]:
    """Return the keys of the channel `compaction` from which turns and calls of the model are counted anew."""
    begun = _calls_begun(compaction, compaction.get("route", "model"))
    return {"turns_at_commit": compaction.get("turns", 0), "calls_at_commit": begun}


def _calls_begun(compaction: CompactionChannel, route: Route) -> int:
    """Return the number of the model's calls; on the route to the model, the next call counts too."""
    return compaction.get("calls", 0) + (route == "model")
