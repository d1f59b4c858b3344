"""`token_check`: every turn starts here, and comes back here after its tools."""

import os
import socket
from collections.abc import Iterator
from dataclasses import replace as replaced
from itertools import takewhile
from typing import Any, Literal, cast

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint import AttemptKey

from .compaction_request import REQUEST, Memory, fault_of
from .config.triggers import Command
from .confirm import check_askable
from .conversation.tokens import total
from .conversation.transcript import MARK, Transcript, marks, message_id
from .digest.required_texts import first_inputs
from .effects import Step
from .errors import EmbeddingError, MessageRefusedError
from .events import CompactionEvent, PreCompactEvent, TriggerSource, emit, log
from .gate.invariants import Finding
from .runtime.ephemeral_removal import expire
from .runtime.failure_description import failure
from .runtime.ledger_io import REFUSAL, abandon, note, store
from .runtime.node_context import Turn, Update
from .runtime.trigger_check import check
from .runtime.undo import is_undo, taken_back, unheard
from .state import EMBEDDED, FOCUS_CHARACTERS, STATE_VERSION, CompactionState, Route, merge, replace
from .summarize import is_paid
from .text.quoting import clip

FORGOTTEN = {"handoff": None, "choosing": 0, "marked_alone": False}
"""What held until this check and does no longer; a check that asks again says so again."""


def token_check(turn: Turn) -> Step[Update]:
    """Measure the next request and decide where the turn goes. What a person asks for is heard once."""
    asked = turn.request
    if fault := fault_of(asked, cast("dict[str, Any]", turn.compaction)):
        return unheard(turn, fault)
    if asked is None:
        return (yield from _decided(turn, None))
    turn, request = _adopted(turn, asked)
    update = yield from _decided(turn, request)
    memory = {**asked.get("memory", {}), **update.get("memory", {})}
    return {**update, REQUEST: None, **({"memory": memory} if memory else {})}


def _decided(turn: Turn, request: dict[str, Any] | None) -> Step[Update]:
    _refuse_bare_embedding(turn)
    check_askable(turn.settings, answerable=turn.can_ask)
    common: dict[str, Any] = {"v": STATE_VERSION, "turns": _turns(turn), "overflows": 0, **FORGOTTEN}
    view = Transcript(turn.messages)
    if turn.compaction.get("step") == "selective_compaction" and not turn.compaction.get("draft"):
        yield from abandon(turn)  # a run died in that node, before its draft was in the state
    if (oversize := _refused(turn, view)) is not None:
        return (yield from _refuse(turn, common, *oversize))
    turn, view, request = _commanded(turn, view, request)
    if request is not None and is_undo(request):
        done = yield from taken_back(turn, request)
        return {**_update(turn, {**common, **done.pop("compaction")}), **done}
    route = _route(turn, view, request)
    if view.has_open_call:
        return _update(turn, {**common, "step": route, "route": route})
    if turn.compaction.get("draft"):
        step = route if _someone_else_works(turn) else (yield from _recovery(turn, request))
        wish = {} if request is None else wished(request)
        return _update(turn, {**common, "trigger": "precheck", **wish, "step": step, "route": route})
    if request is not None:
        return _update(turn, {**common, **_manual(turn, request), "route": route})
    gone = yield from expire(turn)
    common |= gone.pop("compaction", {})
    decided = yield from _checked(turn.after(common, gone["messages"].value if gone else None))
    return {**_update(turn, {**common, **decided}), **gone}


def _checked(turn: Turn) -> Step[dict[str, Any]]:
    """First what stood here before, then the whole request; what the first has decided is not asked again."""
    for earlier, source in _before(turn):
        decided = yield from check(turn, earlier, source, "model")
        if decided.get("trigger"):
            return decided
    return (yield from check(turn, turn.size, "precheck", "model"))


def _before(turn: Turn) -> Iterator[tuple[int, TriggerSource]]:
    """Tokens without a new input, or up to an answer that its own calls kept from being checked."""
    hooks, newest = turn.settings.hooks, Transcript(turn.messages).pending_user
    if "pre_input" in hooks and newest is not None and newest == len(turn.messages) - 1:
        yield turn.size - turn.meter.scaled(turn.counter.message(turn.messages[newest])), "input"
    results = list(takewhile(lambda message: isinstance(message, ToolMessage), reversed(turn.messages)))
    if results and "post_model" in hooks and "pre_model" not in hooks:
        yield turn.size - turn.meter.scaled(total(turn.counter, results)), "check"


def _adopted(turn: Turn, request: dict[str, Any]) -> tuple[Turn, dict[str, Any] | None]:
    """The turn with goal and pins of the thread that it goes on from, and what else is asked for."""
    if "memory" not in request:
        return turn, request
    asked = {name: value for name, value in request.items() if name != "memory"}
    memory = merge(dict(turn.memory), request["memory"])
    state = cast("CompactionState", {**turn.state, "memory": memory})
    return replaced(turn, state=state), asked or None


def _route(turn: Turn, view: Transcript, wish: dict[str, Any] | None) -> Route:
    """Where the turn goes on: a wish to compact ends it, unless a message came with it or after it (a run died)."""
    newly = turn.compaction.get("step", "end") == "end"
    if wish is not None and wish.get("command"):
        return "model" if turn.team.embedded else "end"
    return "model" if wish is None or (newly and view.awaits_answer) else "end"


def _update(turn: Turn, compaction: dict[str, Any]) -> Update:
    """The update; messages that another writer left without ids of their own get them here."""
    update: Update = {"compaction": compaction, "applied": None}
    if any(given is not kept for given, kept in zip(turn.state["messages"], turn.messages, strict=True)):
        update["messages"] = replace(turn.messages)
    if first := _first_pinned(turn):
        update["memory"] = first
    return update


def _first_pinned(turn: Turn) -> Memory | None:
    """The pins with what the user said first, once; none of it where it takes more than half of the room."""
    known, later = turn.memory.get("pins"), turn.compaction.get("turns", 0)
    if not turn.settings.pin_first_input or turn.memory.get("goal") or (later and known is not None):
        return None
    first = first_inputs(turn.messages)
    held, most = turn.meter.scaled(total(turn.counter, first)), turn.sizes.room // 2
    if held > most:
        log.warning("The first input is not pinned: it takes %d tokens, more than half of the room (%d)", held, most)
        first = []
    return {"pins": [*dict.fromkeys([*(known or ()), *map(message_id, first)])]}


def _refuse_bare_embedding(turn: Turn) -> None:
    configurable = turn.config.get("configurable", {})
    if turn.team.embedded and turn.namespace and not configurable.get(EMBEDDED):
        raise EmbeddingError(
            f"the compaction graph runs as the node {turn.namespace!r} of another graph, whose reducer would "
            "merge the old messages back: add it with add_node(name, as_node(compaction_graph))"
        )


def _turns(turn: Turn) -> int:
    """Inputs so far: a check after tools belongs to the input before it."""
    last = turn.messages[-1] if turn.messages else None
    return turn.compaction.get("turns", 0) + (not isinstance(last, ToolMessage))


def _recovery(turn: Turn, wish: dict[str, Any] | None) -> Step[Literal["summarize", "rollback"]]:
    """Where the draft of a run that died goes: on, where its summary is paid for; else it is dropped."""
    return "summarize" if wish is None and (yield from is_paid(turn)) else "rollback"


def _someone_else_works(turn: Turn) -> bool:
    """Whether the draft's owner may still be at work, so that this input is answered without compacting."""
    draft, now = turn.draft, turn.now()
    if draft.get("unrestored"):
        return False
    elapsed = now - draft.get("opened_at", 0.0)
    lease = 0 <= elapsed < turn.settings.summary_timeout_s
    return lease and _alive(draft.get("owner", "")) and turn.size <= turn.sizes.limit


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
    turn: Turn, view: Transcript, request: dict[str, Any] | None
) -> tuple[Turn, Transcript, dict[str, Any] | None]:
    """A command at the very beginning of a person's newest message, as their wish.

    The message stays, marked, so that the model is never sent it; inside a parent, whose model it is, as it was.
    """
    newest = view.pending_user
    if newest is None or newest != len(turn.messages) - 1 or request is not None:
        return turn, view, request
    message = turn.messages[newest]
    for trigger in turn.settings.triggers:
        if isinstance(trigger, Command) and (focus := _after(message.text, trigger.text)) is not None:
            request = {"focus": focus or None, "full": trigger.full, "command": True}
            if turn.team.embedded:
                return turn, view, request
            mark = {**marks(message), "is_meta": True, "command": True}
            command = message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, MARK: mark}})
            kept = [*turn.messages[:-1], command]
            return turn.after({}, kept), Transcript(kept), request
    return turn, view, request


def _after(text: str, command: str) -> str | None:
    """What follows the command's word; `None` where the text does not begin with it."""
    rest = text.removeprefix(command)
    return rest.strip() if rest != text and (not rest or rest[0].isspace()) else None


def _manual(turn: Turn, request: dict[str, Any]) -> dict[str, Any]:
    wish = wished(request)
    event = PreCompactEvent(trigger=wish["trigger"], current_tokens=turn.size, threshold=turn.sizes.trigger)
    emit(turn.writer, event)
    return {"step": "selective_compaction", "rung": 0, **wish}


def wished(request: dict[str, Any]) -> dict[str, Any]:
    """A person's wish as the keys of the channel that a trigger writes."""
    focus, name = request.get("focus"), "command" if request.get("command") else "manual"
    kept = clip(str(focus), FOCUS_CHARACTERS) if focus else None
    return {"trigger": name, "focus": kept, "full": bool(request.get("full")), "most": None, "choosing": 0}


def _refused(turn: Turn, view: Transcript) -> tuple[AnyMessage, int] | None:
    """The newest user message and the least request that holds it, where that is over the limit."""
    if view.pending_user is None:
        return None
    newest = turn.messages[view.pending_user]
    least = turn.sizes.fixed + turn.meter.scaled(turn.counter.message(newest))
    return (newest, least) if least > turn.sizes.limit else None


def _refuse(turn: Turn, common: dict[str, Any], message: AnyMessage, least: int) -> Step[Update]:
    """Archive the message, leave one line in its place, and end the turn.

    Inside a parent under `on_refusal="raise"` raises `MessageRefusedError`: the parent's list stays as it is. So it
    does everywhere where the archive cannot be written: the message stays (invariant 9), and once the database
    works the same run can go on, and the next input is answered.
    """
    if marks(message).get("refused"):
        return _update(turn, {**common, "step": "end", "route": "end"})  # even its line is too long for this limit
    limit, key = turn.sizes.limit, turn.key(turn.base_digest(), 0, REFUSAL)
    try:
        name = yield from store(turn, key, message)
    except Exception as error:
        yield from _tell(turn, key, failure(error, "archive"), least)
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
    yield from _tell(turn, key, Finding("refused", "message_over_limit"), least)
    raises = turn.settings.on_refusal == "raise"
    if raises and turn.team.embedded:
        raise MessageRefusedError(line)  # there is no model node of ours that could
    step = "model" if raises else "end"
    last = {"verdict": "refused", "reason": "message_over_limit", "tokens_before": least, "limit": limit}
    kept = [stand_in if item is message else item for item in turn.messages]
    return {
        "messages": replace(kept),
        "compaction": {**common, "step": step, "route": "end", "last": last},
        "applied": {"drop": [], "clip": {message.id: stand_in}, "summary": None},
    }


def _tell(turn: Turn, key: AttemptKey, found: Finding, least: int) -> Step[None]:
    """What became of a message over the limit, in the ledger and as an event."""
    yield from note(turn, "precheck", found.verdict, least, reason=found.reason, key=key)
    emit(
        turn.writer,
        CompactionEvent(
            verdict=found.verdict,
            reason=found.reason,
            strategy="",
            tokens_before=least,
            tokens_after=turn.sizes.limit,
            blocks_dropped=0,
            compaction_id=None,
        ),
    )
