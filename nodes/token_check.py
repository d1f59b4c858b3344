"""`token_check`: every turn starts here, and comes back here after its tools (S0.2)."""

import os
import socket
from typing import Any, Literal

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint import handle

from .attempts import abandon, note, store
from .deciding import check
from .errors import EmbeddingError, MessageRefusedError
from .events import CompactionEvent, PreCompactEvent, emit
from .policies.transcript import MARK, Transcript, marks
from .state import STATE_VERSION, Route, replace
from .steps import Step, blocking
from .summarize import is_paid
from .turn import Turn, Update

EMBEDDED = "langgraph_compaction_embedded"
"""Key of a run's configuration by which `as_node` says that it stands around the compaction graph."""


def token_check(turn: Turn) -> Step[Update]:
    """Measure the next request and decide where the turn goes."""
    _refuse_bare_embedding(turn)
    common: dict[str, Any] = {"v": STATE_VERSION, "turns": _turns(turn), "request": None, "overflows": 0}
    view, request = Transcript(turn.messages), turn.compaction.get("request")
    if turn.compaction.get("step") == "selective_compaction" and not turn.compaction.get("draft"):
        yield from abandon(turn)  # a run died in that node, before its draft was in the state
    if (oversize := _refused(turn, view)) is not None:
        return (yield from _refuse(turn, common, *oversize))
    route = _route(turn, view)
    if view.has_open_call:
        return _update(turn, {**common, "step": route, "route": route})
    if turn.compaction.get("draft"):
        step = route if _someone_else_works(turn) else (yield from _recovery(turn))
        wish = {} if request is None else wished(request)
        return _update(turn, {**common, "trigger": "precheck", **wish, "step": step, "route": route})
    if request is not None:
        return _update(turn, {**common, **_manual(turn, request), "route": route})
    decided = yield from _checked(turn.after(common), view)
    return _update(turn, {**common, **decided})


def _checked(turn: Turn, view: Transcript) -> Step[dict[str, Any]]:
    """Before a new input counts (S4.32), then with it; what the first has decided is not asked again."""
    newest = view.pending_user
    if newest is not None and newest == len(turn.messages) - 1 and "pre_input" in turn.settings.hooks:
        earlier = turn.size - turn.meter.scaled(turn.counter.message(turn.messages[newest]))
        decided = yield from check(turn, earlier, "input", "model")
        if decided.get("trigger") and (decided["step"] != "model" or turn.size <= turn.sizes.limit):
            return decided
    return (yield from check(turn, turn.size, "precheck", "model"))


def _route(turn: Turn, view: Transcript) -> Route:
    """Where the turn goes on: a wish to compact ends it, unless a message came with it or after it (a run died)."""
    wish, newly = turn.compaction.get("request"), turn.compaction.get("step", "end") == "end"
    return "model" if wish is None or (newly and view.pending_user is not None) else "end"


def _update(turn: Turn, compaction: dict[str, Any]) -> Update:
    """The update; messages that another writer left without ids of their own get them here."""
    update: Update = {"compaction": compaction, "applied": None}
    if any(given is not kept for given, kept in zip(turn.state["messages"], turn.messages, strict=True)):
        update["messages"] = replace(turn.messages)
    return update


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


def _recovery(turn: Turn) -> Step[Literal["summarize", "rollback"]]:
    """Where the draft of a run that died goes: on, where its summary is paid for; else it is dropped."""
    wish = turn.compaction.get("request")
    return "summarize" if wish is None and (yield from is_paid(turn)) else "rollback"


def _someone_else_works(turn: Turn) -> bool:
    """Whether the draft's owner may still be at work, so that this input is answered without compacting."""
    draft, now = turn.draft, turn.now()
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


def _manual(turn: Turn, request: dict[str, Any]) -> dict[str, Any]:
    emit(
        turn.writer,
        PreCompactEvent(trigger="manual", current_tokens=turn.size, threshold=turn.sizes.trigger),
    )
    return {"step": "selective_compaction", "rung": 0, **wished(request)}


def wished(request: dict[str, Any]) -> dict[str, Any]:
    """A person's wish as the keys of the channel that a trigger writes."""
    full = bool(request.get("full"))
    return {"trigger": "manual", "focus": request.get("focus"), "full": full, "most": None}


def _refused(turn: Turn, view: Transcript) -> tuple[AnyMessage, int] | None:
    """The newest user message and the least request that holds it, where that is over the limit."""
    if view.pending_user is None:
        return None
    newest = turn.messages[view.pending_user]
    least = turn.sizes.fixed + turn.meter.scaled(turn.counter.message(newest))
    return (newest, least) if least > turn.sizes.limit else None


def _refuse(turn: Turn, common: dict[str, Any], message: AnyMessage, least: int) -> Step[Update]:
    """Archive the message, leave one line in its place, and end the turn (DESIGN §4).

    Inside a parent under `on_refusal="raise"` raises `MessageRefusedError`: the parent's list stays as it is.
    """
    if marks(message).get("refused"):
        return _update(turn, {**common, "step": "end", "route": "end"})  # even its line is too long for this limit
    name, limit = handle(message), turn.sizes.limit
    line = (
        f"[This message was not sent to the model: with the fixed part it needs {least} tokens and the limit "
        f"is {limit}. It is kept in the archive under {name}. Send a shorter one.]"
    )
    mark = {**marks(message), "refused": True, "handle": name}
    kwargs = {**message.additional_kwargs, MARK: mark}
    stand_in = HumanMessage(line, id=message.id, additional_kwargs=kwargs, name=message.name)
    base = turn.base_digest()
    if turn.thread_id is not None:
        yield from blocking(lambda: store(turn, turn.key(base, 0, 0), message))
    yield from note(turn, "precheck", "refused", least, reason="message_over_limit", base_digest=base)
    emit(
        turn.writer,
        CompactionEvent(
            verdict="refused",
            reason="message_over_limit",
            strategy="",
            tokens_before=least,
            tokens_after=limit,
            blocks_dropped=0,
            compaction_id=None,
        ),
    )
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
