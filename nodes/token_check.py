"""`token_check`: the first node of every turn, which also runs after each step of tool calls."""

from collections.abc import Iterator
from itertools import takewhile
from operator import is_not
from typing import Any, Literal, cast

from langchain_core.messages import ToolMessage

from langgraph_compaction.checkpoint.db.owner import may_run

from .ahead.prepare import prepare_if_due
from .compaction_request import REQUEST, fault_of
from .config.triggers import Command
from .conversation.message_marks import MARK, marks
from .conversation.pin_tags import leaves_pin_open
from .conversation.tokens import total
from .conversation.transcript import Transcript
from .errors import EmbeddingError
from .events import PreCompactEvent, TriggerSource, emit, log
from .runtime.admission import Admission, admit
from .runtime.effects import Effects
from .runtime.ephemeral_removal import expire
from .runtime.ledger_io import abandon
from .runtime.node_context import NodeContext, Update
from .runtime.own_marks import without_foreign_marks
from .runtime.refusal import refuse, refused_input, refused_system
from .runtime.trigger_and_warning import check, check_askable
from .runtime.undo_request import is_undo, reject_request, undo_or_release
from .state import EMBEDDED, FOCUS_CHARACTERS, STATE_VERSION, STEPS, Route, merge, replace
from .summarize import is_paid, summarize
from .text.quoting import clip

FORGOTTEN = {"handoff": None, "awaiting_choice": 0, "marked_alone": False}
"""Keys of the channel `compaction` that only hold until `token_check` runs again, with the values to which it resets
them."""


def token_check(context: NodeContext) -> Effects[Update]:
    """Measure the next request and choose the next step. A `compaction_request` is read here and cleared."""
    if (step := context.compaction.get("step", "end")) not in STEPS:
        log.warning(
            "The state names the unknown step %r, which update_state has written; the check decides anew", step
        )
    asked = context.request
    calls_open = Transcript(context.messages).has_open_call
    if fault := fault_of(asked, cast("dict[str, Any]", context.compaction), calls_open=calls_open):
        return reject_request(context, fault)
    _refuse_bare_embedding(context)
    context = yield from without_foreign_marks(context)
    context, request = (context, None) if asked is None else _adopted(context, asked)
    admission = admit(context)
    update = yield from _decided(admission, request)
    memory = {**(asked or {}).get("memory", {}), **admission.memory, **update.get("memory", {})}
    return {**update, **({} if asked is None else {REQUEST: None}), **({"memory": memory} if memory else {})}


def _decided(admission: Admission, request: dict[str, Any] | None) -> Effects[Update]:
    context = admission.context
    check_askable(context)
    common = _common(admission)
    view = Transcript(context.messages)
    if context.compaction.get("step") == "selective_compaction" and not context.compaction.get("draft"):
        yield from abandon(context)  # a run died in `selective_compaction`, before its draft was in the state
    if refusal := refused_system(admission) or refused_input(context, view):
        ended = {**common, "step": "end", "route": "end"}
        return _update(context, ended) if refusal.is_repeated else (yield from refuse(context, common, refusal))
    if context.messages and leaves_pin_open(context.messages[-1]):
        log.warning(
            "The message %r opens <Pin> and does not close it: its text from there on is pinned",
            context.messages[-1].id,
        )
    context, view, request = _commanded(context, view, request)
    if request is not None and is_undo(request):
        done = yield from undo_or_release(context, request)
        return {**_update(context, {**common, **done.pop("compaction")}), **done}
    route = _route(context, view, request)
    if view.has_open_call and request is None:
        return _update(context, {**common, "step": route, "route": route})
    if context.compaction.get("draft"):
        step = route if _someone_else_works(context) else (yield from _recovery(context, request))
        wish = {} if request is None else wished(request)
        return _update(context, {**common, "trigger": "precheck", **wish, "step": step, "route": route})
    if request is not None:
        return _update(context, {**common, **_manual(context, request), "route": route})
    gone = (yield from expire(context)) if _may_expire(context) else {}
    common |= gone.pop("compaction", {})
    context_now = context.after(common, gone["messages"].value if gone else None)
    decided = yield from _checked(context_now)
    if context.dependencies.embedded and decided["step"] == "model":  # the parent has the model
        yield from prepare_if_due(context_now, context_now.size, summarize)
    return {**_update(context, {**common, **decided}), **gone}


def _common(admission: Admission) -> dict[str, Any]:
    """Return the keys of the channel `compaction` that every check writes."""
    context = admission.context
    common: dict[str, Any] = {"v": STATE_VERSION, "turns": _turns(context), "overflows": 0, **FORGOTTEN}
    if context.compaction.get("seconds_left") is not None:
        common["seconds_left"] = None
    if admission.admitted != context.compaction.get("admitted", []):
        common["admitted"] = admission.admitted
    return common


def _may_expire(context: NodeContext) -> bool:
    """Whether to remove ephemeral results: a tool asks for it, and no undo holds compactions off."""
    return bool(context.dependencies.ephemeral) and not context.compaction.get("held")


def _checked(context: NodeContext) -> Effects[dict[str, Any]]:
    """Evaluate the triggers for the sizes that `_before` yields, then for the whole request; stop when one fires."""
    for earlier, source in _before(context):
        decided = yield from check(context, earlier, source, "model")
        if decided.get("trigger"):
            return decided
    return (yield from check(context, context.size, "precheck", "model"))


def _before(context: NodeContext) -> Iterator[tuple[int, TriggerSource]]:
    """Yield the sizes to check before the whole request: without the new input, or without new tool results."""
    hooks, newest = context.settings.policy.hooks, Transcript(context.messages).pending_user
    if "pre_input" in hooks and newest is not None and newest == len(context.messages) - 1:
        yield context.size - context.meter.scaled(context.counter.message(context.messages[newest])), "input"
    results = list(takewhile(lambda message: isinstance(message, ToolMessage), reversed(context.messages)))
    if results and "post_model" in hooks and "pre_model" not in hooks:
        yield context.size - context.meter.scaled(total(context.counter, results)), "check"


def _adopted(context: NodeContext, request: dict[str, Any]) -> tuple[NodeContext, dict[str, Any] | None]:
    """Return the context with goal and pins that the request brings from another thread, and the rest of it."""
    if "memory" not in request:
        return context, request
    asked = {name: value for name, value in request.items() if name != "memory"}
    memory = merge(dict(context.memory), request["memory"])
    return context.with_state(memory=memory), asked or None


def _route(context: NodeContext, view: Transcript, wish: dict[str, Any] | None) -> Route:
    """Return the route after a compaction: a requested one ends the turn unless a message waits for an answer."""
    newly = context.compaction.get("step", "end") == "end"
    if wish is not None and wish.get("command"):
        return "model" if context.dependencies.embedded else "end"
    return "model" if wish is None or (newly and view.awaits_answer) else "end"


def _update(context: NodeContext, compaction: dict[str, Any]) -> Update:
    """Return the node's update; if another writer stored messages without ids, it replaces them by ones with ids."""
    update: Update = {"compaction": compaction, "applied": None}
    given = context.state["messages"]
    if given is not context.messages and any(map(is_not, given, context.messages)):
        update["messages"] = replace(context.messages)
    return update


def _refuse_bare_embedding(context: NodeContext) -> None:
    configurable = context.config.get("configurable", {})
    if context.dependencies.embedded and context.namespace and not configurable.get(EMBEDDED):
        raise EmbeddingError(
            f"the compaction graph runs as the node {context.namespace!r} of another graph, whose reducer would "
            "merge the old messages back: add it with add_node(name, as_node(compaction_graph))"
        )


def _turns(context: NodeContext) -> int:
    """Return the number of inputs so far; a check after tool calls does not count as a new input."""
    last = context.messages[-1] if context.messages else None
    return context.compaction.get("turns", 0) + (not isinstance(last, ToolMessage))


def _recovery(context: NodeContext, wish: dict[str, Any] | None) -> Effects[Literal["summarize", "rollback"]]:
    """Return the step for the draft of a run that died: `summarize` if its recorded summary fits, else `rollback`."""
    return "summarize" if wish is None and (yield from is_paid(context)) else "rollback"


def _someone_else_works(context: NodeContext) -> bool:
    """Whether the draft's owner could still be running, so that this input is answered without a compaction."""
    draft, now = context.draft, context.now()
    if draft.get("unrestored"):
        return False
    elapsed = now - draft.get("opened_at", 0.0)
    lease = 0 <= elapsed < context.settings.summary_timeout_s
    return lease and may_run(draft.get("owner", "")) and context.size <= context.sizes.limit


def _commanded(
    context: NodeContext, view: Transcript, request: dict[str, Any] | None
) -> tuple[NodeContext, Transcript, dict[str, Any] | None]:
    """Read a command at the beginning of the user's newest message as a request to compact.

    The message stays in the conversation and is marked, so that it is never sent to the model. Inside a parent graph,
    which has the model, the message stays unmarked.
    """
    newest = view.pending_user
    if newest is None or newest != len(context.messages) - 1 or request is not None:
        return context, view, request
    message = context.messages[newest]
    for trigger in context.settings.triggers:
        if isinstance(trigger, Command) and (focus := _after(message.text, trigger.text)) is not None:
            request = {"focus": focus or None, "full": trigger.full, "command": True}
            if context.dependencies.embedded:
                return context, view, request
            mark = {**marks(message), "is_meta": True, "command": True}
            command = message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, MARK: mark}})
            kept = [*context.messages[:-1], command]
            return context.after({}, kept), Transcript(kept), request
    return context, view, request


def _after(text: str, command: str) -> str | None:
    """Return the text after the command; `None` if the text does not begin with the command."""
    rest = text.removeprefix(command)
    return rest.strip() if rest != text and (not rest or rest[0].isspace()) else None


def _manual(context: NodeContext, request: dict[str, Any]) -> dict[str, Any]:
    wish = wished(request)
    event = PreCompactEvent(trigger=wish["trigger"], current_tokens=context.size, threshold=context.sizes.trigger)
    emit(context.writer, event)
    return {"step": "selective_compaction", "level": 0, **wish}


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
