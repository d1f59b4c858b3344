"""`token_check`: every turn starts here, and comes back here after its tools."""

import os
import socket
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Literal, cast

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey

from .compaction_request import REQUEST, Memory, fault_of
from .config.triggers import Command
from .conversation.message_marks import MARK, first_inputs, marks
from .conversation.tokens import total
from .conversation.transcript import Transcript, message_id
from .effects import Effects
from .errors import EmbeddingError, MessageRefusedError
from .events import PreCompactEvent, TriggerSource, emit, log
from .gate.invariants import Finding
from .runtime.ephemeral_removal import expire
from .runtime.finish_attempt import failure, finish_attempt
from .runtime.ledger_io import REFUSAL, abandon, note, store
from .runtime.node_context import NodeContext, Update
from .runtime.trigger_check import check, check_askable
from .runtime.undo import is_undo, taken_back, unheard
from .state import EMBEDDED, FOCUS_CHARACTERS, STATE_VERSION, STEPS, Route, merge, replace
from .summarize import is_paid
from .text.quoting import clip

FORGOTTEN = {"handoff": None, "awaiting_choice": 0, "marked_alone": False}
"""What held until this check and does no longer; a check that asks again says so again."""


def token_check(context: NodeContext) -> Effects[Update]:
    """Measure the next request and decide where the turn goes. What a person asks for is heard once."""
    if (step := context.compaction.get("step", "end")) not in STEPS:
        log.warning(
            "The state names the unknown step %r, which update_state has written; the check decides anew", step
        )
    asked = context.request
    if fault := fault_of(asked, cast("dict[str, Any]", context.compaction)):
        return unheard(context, fault)
    if asked is None:
        return (yield from _decided(context, None))
    context, request = _adopted(context, asked)
    update = yield from _decided(context, request)
    memory = {**asked.get("memory", {}), **update.get("memory", {})}
    return {**update, REQUEST: None, **({"memory": memory} if memory else {})}


def _decided(context: NodeContext, request: dict[str, Any] | None) -> Effects[Update]:
    _refuse_bare_embedding(context)
    check_askable(context.settings, answerable=context.can_ask)
    common: dict[str, Any] = {"v": STATE_VERSION, "turns": _turns(context), "overflows": 0, **FORGOTTEN}
    view = Transcript(context.messages)
    if context.compaction.get("step") == "selective_compaction" and not context.compaction.get("draft"):
        yield from abandon(context)  # a run died in that node, before its draft was in the state
    if (oversize := _refused(context, view)) is not None:
        return (yield from _refuse(context, common, *oversize))
    context, view, request = _commanded(context, view, request)
    if request is not None and is_undo(request):
        done = yield from taken_back(context, request)
        return {**_update(context, {**common, **done.pop("compaction")}), **done}
    route = _route(context, view, request)
    if view.has_open_call:
        return _update(context, {**common, "step": route, "route": route})
    if context.compaction.get("draft"):
        step = route if _someone_else_works(context) else (yield from _recovery(context, request))
        wish = {} if request is None else wished(request)
        return _update(context, {**common, "trigger": "precheck", **wish, "step": step, "route": route})
    if request is not None:
        return _update(context, {**common, **_manual(context, request), "route": route})
    gone = (yield from expire(context)) if _may_expire(context) else {}
    common |= gone.pop("compaction", {})
    decided = yield from _checked(context.after(common, gone["messages"].value if gone else None))
    return {**_update(context, {**common, **decided}), **gone}


def _may_expire(context: NodeContext) -> bool:
    """Whether ephemeral messages may leave: some tool or setting names them, and no undone compaction is held."""
    named = context.dependencies.ephemeral or context.settings.ephemeral_keep is not None
    return bool(named) and not context.compaction.get("held")


def _checked(context: NodeContext) -> Effects[dict[str, Any]]:
    """First what stood here before, then the whole request; what the first has decided is not asked again."""
    for earlier, source in _before(context):
        decided = yield from check(context, earlier, source, "model")
        if decided.get("trigger"):
            return decided
    return (yield from check(context, context.size, "precheck", "model"))


def _before(context: NodeContext) -> Iterator[tuple[int, TriggerSource]]:
    """Tokens without a new input, or up to an answer that its own calls kept from being checked."""
    hooks, newest = context.settings.hooks, Transcript(context.messages).pending_user
    if "pre_input" in hooks and newest is not None and newest == len(context.messages) - 1:
        yield context.size - context.meter.scaled(context.counter.message(context.messages[newest])), "input"
    results = list(takewhile(lambda message: isinstance(message, ToolMessage), reversed(context.messages)))
    if results and "post_model" in hooks and "pre_model" not in hooks:
        yield context.size - context.meter.scaled(total(context.counter, results)), "check"


def _adopted(context: NodeContext, request: dict[str, Any]) -> tuple[NodeContext, dict[str, Any] | None]:
    """The turn with goal and pins of the thread that it goes on from, and what else is asked for."""
    if "memory" not in request:
        return context, request
    asked = {name: value for name, value in request.items() if name != "memory"}
    memory = merge(dict(context.memory), request["memory"])
    return context.with_state(memory=memory), asked or None


def _route(context: NodeContext, view: Transcript, wish: dict[str, Any] | None) -> Route:
    """Where the turn goes on: a wish to compact ends it, unless a message came with it or after it (a run died)."""
    newly = context.compaction.get("step", "end") == "end"
    if wish is not None and wish.get("command"):
        return "model" if context.dependencies.embedded else "end"
    return "model" if wish is None or (newly and view.awaits_answer) else "end"


def _update(context: NodeContext, compaction: dict[str, Any]) -> Update:
    """The update; messages that another writer left without ids of their own get them here."""
    update: Update = {"compaction": compaction, "applied": None}
    if any(given is not kept for given, kept in zip(context.state["messages"], context.messages, strict=True)):
        update["messages"] = replace(context.messages)
    if first := _first_pinned(context):
        update["memory"] = first
    return update


def _first_pinned(context: NodeContext) -> Memory | None:
    """The pins with what the user said first, once; none of it where it takes more than half of the room."""
    known, later = context.memory.get("pins"), context.compaction.get("turns", 0)
    if (
        not context.settings.key_information_pin_first_input
        or context.memory.get("goal")
        or (later and known is not None)
    ):
        return None
    first = first_inputs(context.messages)
    held, most = context.meter.scaled(total(context.counter, first)), context.sizes.room // 2
    if held > most:
        log.warning("The first input is not pinned: it takes %d tokens, more than half of the room (%d)", held, most)
        first = []
    return {"pins": [*dict.fromkeys([*(known or ()), *map(message_id, first)])]}


def _refuse_bare_embedding(context: NodeContext) -> None:
    configurable = context.config.get("configurable", {})
    if context.dependencies.embedded and context.namespace and not configurable.get(EMBEDDED):
        raise EmbeddingError(
            f"the compaction graph runs as the node {context.namespace!r} of another graph, whose reducer would "
            "merge the old messages back: add it with add_node(name, as_node(compaction_graph))"
        )


def _turns(context: NodeContext) -> int:
    """Inputs so far: a check after tools belongs to the input before it."""
    last = context.messages[-1] if context.messages else None
    return context.compaction.get("turns", 0) + (not isinstance(last, ToolMessage))


def _recovery(context: NodeContext, wish: dict[str, Any] | None) -> Effects[Literal["summarize", "rollback"]]:
    """Where the draft of a run that died goes: on, where its summary is paid for; else it is dropped."""
    return "summarize" if wish is None and (yield from is_paid(context)) else "rollback"


def _someone_else_works(context: NodeContext) -> bool:
    """Whether the draft's owner may still be at work, so that this input is answered without compacting."""
    draft, now = context.draft, context.now()
    if draft.get("unrestored"):
        return False
    elapsed = now - draft.get("opened_at", 0.0)
    lease = 0 <= elapsed < context.settings.summary_timeout_s
    return lease and _alive(draft.get("owner", "")) and context.size <= context.sizes.limit


def _alive(owner: str) -> bool:
    """Whether the owner may live: another host cannot be asked, a process of this host can."""
    host, _, process = owner.rpartition("/")
    if host != socket.gethostname() or not process.isdigit():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _commanded(
    context: NodeContext, view: Transcript, request: dict[str, Any] | None
) -> tuple[NodeContext, Transcript, dict[str, Any] | None]:
    """A command at the very beginning of a person's newest message, as their wish.

    The message stays, marked, so that the model is never sent it; inside a parent, whose model it is, as it was.
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
    """What follows the command's word; `None` where the text does not begin with it."""
    rest = text.removeprefix(command)
    return rest.strip() if rest != text and (not rest or rest[0].isspace()) else None


def _manual(context: NodeContext, request: dict[str, Any]) -> dict[str, Any]:
    wish = wished(request)
    event = PreCompactEvent(trigger=wish["trigger"], current_tokens=context.size, threshold=context.sizes.trigger)
    emit(context.writer, event)
    return {"step": "selective_compaction", "level": 0, **wish}


def wished(request: dict[str, Any]) -> dict[str, Any]:
    """A person's wish as the keys of the channel that a trigger writes."""
    focus, name = request.get("focus"), "command" if request.get("command") else "manual"
    kept = clip(str(focus), FOCUS_CHARACTERS) if focus else None
    return {
        "trigger": name,
        "focus": kept,
        "summarize_all": bool(request.get("full")),
        "max_messages": None,
        "awaiting_choice": 0,
    }


def _refused(context: NodeContext, view: Transcript) -> tuple[AnyMessage, int] | None:
    """The newest user message and the least request that holds it, where that is over the limit."""
    if view.pending_user is None:
        return None
    newest = context.messages[view.pending_user]
    least = context.sizes.fixed + context.meter.scaled(context.counter.message(newest))
    return (newest, least) if least > context.sizes.limit else None


def _refuse(context: NodeContext, common: dict[str, Any], message: AnyMessage, least: int) -> Effects[Update]:
    """Archive the message, leave one line in its place, and end the turn.

    Inside a parent under `on_refusal="raise"` raises `MessageRefusedError`: the parent's list stays as it is. So it
    does everywhere where the archive cannot be written: the message stays (invariant 9), and once the database
    works the same run can go on, and the next input is answered.
    """
    if marks(message).get("refused"):
        return _update(context, {**common, "step": "end", "route": "end"})  # even its line is too long for this limit
    limit, key = context.sizes.limit, context.key(context.base_fingerprint(), 0, REFUSAL)
    try:
        name = yield from store(context, key, message)
    except Exception as error:
        yield from _tell(context, key, failure(error, "archive"), least)
        raise MessageRefusedError(
            f"the newest message needs {least} tokens with the fixed part and the limit is {limit}. It could not "
            f"be archived ({type(error).__name__}) and stays in the conversation: mend the database, then run "
            "again, or send a shorter message"
        ) from error
    line = (
        f"[This message was not sent to the model: with the fixed part it needs {least} tokens and the limit "
        f"is {limit}. It is kept in the archive under {name}. Send a shorter one.]"
    )
    mark = {**marks(message), "refused": True, "handle": name}
    kwargs = {**message.additional_kwargs, MARK: mark}
    stand_in = HumanMessage(line, id=message.id, additional_kwargs=kwargs, name=message.name)
    last = yield from _tell(context, key, Finding("refused", "message_over_limit"), least)
    raises = context.settings.on_refusal == "raise"
    if raises and context.dependencies.embedded:
        raise MessageRefusedError(line)  # there is no model node of ours that could
    step = "model" if raises else "end"
    kept = [stand_in if item is message else item for item in context.messages]
    return {
        "messages": replace(kept),
        "compaction": {**common, "step": step, "route": "end", "last": last},
        "applied": {"drop": [], "clip": {message.id: stand_in}, "summary": None},
    }


def _tell(context: NodeContext, key: AttemptKey, found: Finding, least: int) -> Effects[dict[str, Any]]:
    """What became of a message over the limit, in the ledger and as an event."""
    yield from note(context, "precheck", found.verdict, least, reason=found.reason, key=key)
    limit = context.sizes.limit
    return finish_attempt(context, found.verdict, reason=found.reason, before=least, after=limit, limit=limit)
