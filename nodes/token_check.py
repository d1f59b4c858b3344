"""`token_check`: the first node of every turn, which also runs after each step of tool calls."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any, cast

from langchain_core.messages import AIMessage, ToolMessage

from langgraph_compaction.checkpoint.db.owner import may_run

from .ahead.prepare import prepare_if_due
from .compaction_request import fault_of, request_in
from .config.triggers import Command
from .conversation.bound_history import holds_compaction
from .conversation.message_marks import is_real_user
from .conversation.pin_tags import leaves_pin_open
from .conversation.request import calibration_factor, is_plausible, render
from .conversation.tokens import total
from .conversation.transcript import is_assistant, message_id
from .conversation.view import NO_VIEW, View
from .errors import SettingsError
from .events import PreCompactEvent, TriggerSource, emit, log
from .runtime.admission import new_ids, with_room_for_pins
from .runtime.bill import billed, new_calls
from .runtime.effects import Effects
from .runtime.ephemeral_removal import expire
from .runtime.ledger_io import abandon
from .runtime.levels import over
from .runtime.node_context import NodeContext, Update
from .runtime.refusal import refuse, refused_input, refused_system
from .runtime.trigger_and_warning import check
from .runtime.undo_request import is_undo, reject_request, undo_or_release
from .state import FOCUS_CHARACTERS, STATE_VERSION, STEPS, Breaker, Route, with_ids
from .summarize import is_paid, summarize
from .text.quoting import clip

MANY_MESSAGES = 2_000
"""Number of messages in the state from which a warning says what they cost."""
UNASKABLE = (
    "require_confirmation asks by an interrupt, which only a checkpointer can resume: give checkpointer=..., or set "
    "require_confirmation=False"
)
FORGOTTEN = {"handoff": None, "awaiting_choice": 0, "marked_alone": False}
"""Keys of the channel `compaction` that only hold until `token_check` runs again, with the values to which it resets
them."""


def token_check(context: NodeContext) -> Effects[Update]:
    """Measure the next request and choose the next step. A `compaction_request` is read here and cleared."""
    if check_saver := context.dependencies.check_saver:
        check_saver(context.saver)
    if (step := context.compaction.get("step", "end")) not in STEPS:
        log.warning(
            "The state names the unknown step %r, which update_state has written; the check decides anew", step
        )
    _warn_of_length(context)
    _warn_of_parent(context)
    asked = request_in(context.state)
    calls_open = context.seen.has_open_call
    if fault := fault_of(asked, cast("dict[str, Any]", context.compaction), calls_open=calls_open):
        return reject_request(context, fault)
    now, request = (context, None) if asked is None else _adopted(context, asked)
    taken = {name: value for name, value in (asked or {}).get("memory", {}).items() if name != "summary"}
    update = yield from _decided(now, context.view, request)
    update = {**update, "compaction": {**taken, **update["compaction"]}}
    return {**update, **({} if asked is None else context.request_read)}


def _warn_of_parent(context: NodeContext) -> None:
    """Warn once if this thread was compacted before and the graph around this one has not kept the view."""
    place = (context.thread_id, context.namespace)
    if context.owns_list or context.epoch or place not in context.dependencies.compacted:
        return
    context.dependencies.warn_once(
        "parent",
        "Thread %r was compacted before, and its state does not know of it: unless the run starts from an older "
        "checkpoint, the graph around the compaction keeps no channels, so that each turn pays for a summary. Let "
        "its state inherit CompactionState, and give an agent CompactionMiddleware(channel=...)",
        context.thread_id,
    )


def _warn_of_length(context: NodeContext) -> None:
    """Warn once in a process that every step reads a list that has become long."""
    length, known = len(context.conversation), context.settings.messages_in_state is not None
    if length < MANY_MESSAGES or known or not context.owns_list:
        return
    context.dependencies.warn_once(
        "length",
        "A thread holds %d messages, and LangGraph reads all of them in each step: messages_in_state=200 moves "
        "those that the model does not see to the archive. Savers of this package store each message once; others "
        "store the list at each step, unless its channel is a DeltaChannel",
        length,
    )


def _decided(context: NodeContext, had: View | None, request: dict[str, Any] | None) -> Effects[Update]:
    """Return the update of a check, with the view if it is no longer that with which the check began, `had`."""
    if context.settings.require_confirmation and not context.saver:
        raise SettingsError(UNASKABLE)
    new, calls = new_ids(context), new_calls(context)
    refused = refused_system(context, new)
    if refused is None:
        context = with_room_for_pins(context, new)
    common = _common(context) | ({"bill": billed(context, calls)} if calls else {})
    if refused is not None:  # the pins and answers of this input are looked at when the next one comes
        common = {name: value for name, value in common.items() if name not in ("checked", "bill")}
    context = context.after(common)
    if context.compaction.get("step") == "selective_compaction" and not context.compaction.get("draft"):
        yield from abandon(context)  # a run died in `selective_compaction`, before its draft was in the state
    if refusal := refused or refused_input(context):
        if not refusal.is_repeated:
            return (yield from refuse(context, common, refusal))
        decided: dict[str, Any] = {"step": "end", "route": "end"}
    else:
        context, decided = yield from _step(context, request)
    view = {} if context.view is had else {"compaction_view": context.view}
    return {"compaction": {**common, **decided}, **view}


def _step(context: NodeContext, request: dict[str, Any] | None) -> Effects[tuple[NodeContext, dict[str, Any]]]:
    """Return the context, maybe with another view, and the keys of the channel `compaction` with the next step."""
    if context.messages and leaves_pin_open(context.messages[-1]):
        newest = context.messages[-1].id
        log.warning("The message %r opens <Pin> and does not close it: its text from there on is pinned", newest)
    context, request = _commanded(context, request)
    if request is not None and is_undo(request):
        done = yield from undo_or_release(context, request)
        now = context.with_view(done["compaction_view"]) if "compaction_view" in done else context
        return now, done["compaction"]
    route = _route(context, request)
    if request is None and context.seen.has_open_call:
        return context, {"step": route, "route": route}
    if context.compaction.get("draft"):
        step: str = route
        if not _someone_else_works(context):  # a run died: its summary may be paid for, and fit
            step = "summarize" if request is None and (yield from is_paid(context)) else "rollback"
        wish = {} if request is None else wished(request)
        return context, {"trigger": "precheck", **wish, "step": step, "route": route}
    if request is not None:
        return context, {**_manual(context, request), "route": route}
    expires = context.dependencies.ephemeral and not context.compaction.get("held")  # an undo holds it off, too
    gone = (yield from expire(context)) if expires else {}
    if gone:
        context = context.after(gone["compaction"]).with_view(gone["compaction_view"])
    decided = yield from _checked(context)
    if context.dependencies.embedded and decided["step"] == "model":  # the parent has the model
        yield from prepare_if_due(context, context.size, summarize)
    return context, {**gone.get("compaction", {}), **decided}


def _common(context: NodeContext) -> dict[str, Any]:
    """Return the keys of the channel `compaction` that every check writes."""
    compaction, newest = context.compaction, context.conversation[-1].id if context.conversation else None
    is_input = not (context.messages and isinstance(context.messages[-1], ToolMessage))  # else more of this turn
    turns = compaction.get("turns", 0) + is_input
    common: dict[str, Any] = {"v": STATE_VERSION, "turns": turns, "overflows": 0, **FORGOTTEN}
    if "failed" in context.breaker or "seconds_left" in context.breaker:
        common["breaker"] = over(context.breaker)
    if context.dependencies.embedded:
        common |= _heard(context)
    if newest != compaction.get("checked"):
        common["checked"] = newest
    if "pins" in compaction:
        common["pins"] = compaction["pins"]
    return common


def _heard(context: NodeContext) -> dict[str, Any]:
    """Return what the answers of the parent graph's models tell: their number, and the factor to our count.

    The usage of a call with another prompt, or with part of the messages, is much smaller than our count and not
    used; that of an answer with the provider's own compaction belongs to a request that is not in view any more.
    """
    calls = {"calls": sum(map(is_assistant, context.conversation))}
    at = next((at for at in range(len(context.messages) - 1, -1, -1) if is_assistant(context.messages[at])), None)
    if at is None or holds_compaction(context.messages[at]):
        return calls
    answer = cast("AIMessage", context.messages[at])
    if (usage := answer.usage_metadata) is None:
        return calls
    counted = context.meter.overhead + total(context.counter, render(context.messages[:at]))
    sent = usage["input_tokens"]
    if sent < counted / 2 or not is_plausible(usage, counted, context.sizes.window):
        return calls
    name, known = str(answer.response_metadata.get("model_name")), context.compaction.get("calibration") or {}
    return {**calls, "calibration": {**known, name: round(calibration_factor(sent, counted), 4)}}


def _checked(context: NodeContext) -> Effects[dict[str, Any]]:
    """Evaluate the triggers for the sizes that `_before` yields, then for the whole request; stop when one fires."""
    for earlier, source in _before(context):
        decided = yield from check(context, earlier, source, "model")
        if decided.get("trigger"):
            return decided
    return (yield from check(context, context.size, "precheck", "model"))


def _before(context: NodeContext) -> Iterator[tuple[int, TriggerSource]]:
    """Yield the sizes to check before the whole request: without the new input, or without new tool results."""
    hooks, newest = context.settings.policy.hooks, context.seen.pending_user
    if "pre_input" in hooks and newest is not None and newest == len(context.messages) - 1:
        yield context.size - context.meter.scaled(context.counter.message(context.messages[newest])), "input"
    results = list(takewhile(lambda message: isinstance(message, ToolMessage), reversed(context.messages)))
    if results and "post_model" in hooks and "pre_model" not in hooks:
        yield context.size - context.meter.scaled(total(context.counter, results)), "check"


def _adopted(context: NodeContext, request: dict[str, Any]) -> tuple[NodeContext, dict[str, Any] | None]:
    """Return the context with goal, pins and summary that the request brings from another thread, and the rest."""
    if "memory" not in request:
        return context, request
    asked = {name: value for name, value in request.items() if name != "memory"}
    context = context.after({name: value for name, value in request["memory"].items() if name != "summary"})
    summary, held = request["memory"].get("summary"), context.view
    if summary is None or (held is not None and held["summary"] is not None):  # the same input, sent again
        return context, asked or None
    newest = message_id(context.conversation[-1]) if context.conversation else None
    view = View({**(held or NO_VIEW), "summary": with_ids([summary])[0], "moved": 0, "newest": newest})
    return context.with_view(view), asked or None


def _route(context: NodeContext, wish: dict[str, Any] | None) -> Route:
    """Return the route after a compaction: a requested one ends the turn unless a message waits for an answer."""
    newly = context.compaction.get("step", "end") == "end"
    if wish is not None and wish.get("command"):
        return "model" if context.dependencies.embedded else "end"
    return "model" if wish is None or (newly and context.seen.awaits_answer) else "end"


def _someone_else_works(context: NodeContext) -> bool:
    """Whether the draft's owner could still be running, so that this input is answered without a compaction."""
    draft, now = context.draft, context.now()
    elapsed = now - draft.get("opened_at", 0.0)
    lease = 0 <= elapsed < context.settings.summary_timeout_s
    return lease and may_run(draft.get("owner", "")) and context.size <= context.sizes.limit


def _commanded(context: NodeContext, request: dict[str, Any] | None) -> tuple[NodeContext, dict[str, Any] | None]:
    """Read a command at the beginning of the user's newest message as a request to compact.

    The message stays in the conversation and is hidden from the model. Inside a parent graph, which has the model,
    it stays in view.
    """
    message = context.messages[-1] if context.messages else None
    if message is None or not is_real_user(message) or request is not None:
        return context, request
    for trigger in context.settings.triggers:
        if isinstance(trigger, Command) and (focus := _after(message.text, trigger.text)) is not None:
            request = {"focus": focus or None, "full": trigger.full, "command": True}
            embedded = context.dependencies.embedded
            return context if embedded else context.with_forms({message_id(message): None}), request
    return context, request


def _after(text: str, command: str) -> str | None:
    """Return the text after the command; `None` if the text does not begin with the command."""
    rest = text.removeprefix(command)
    return rest.strip() if rest != text and (not rest or rest[0].isspace()) else None


def _manual(context: NodeContext, request: dict[str, Any]) -> dict[str, Any]:
    wish = wished(request)
    event = PreCompactEvent(trigger=wish["trigger"], current_tokens=context.size, threshold=context.sizes.trigger)
    emit(context.writer, event)
    return {"step": "selective_compaction", "breaker": Breaker({**context.breaker, "level": 0}), **wish}


def wished(request: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of the channel `compaction` for a request to compact: the same keys that a trigger writes."""
    focus, name = request.get("focus"), "command" if request.get("command") else "manual"
    kept = clip(str(focus), FOCUS_CHARACTERS) if focus else None
    return {
        "trigger": name,
        "focus": kept,
        "summarize_all": bool(request.get("full")),
        "max_messages": None,
        "awaiting_choice": 0,
    }
