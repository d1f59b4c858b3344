"""Undo compactions: the state after an undo, and an undo that a run's input requests."""

from collections.abc import Mapping
from typing import Any, cast

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint import CompactionRecords, UnknownAttemptError
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Before, Outcome
from langgraph_compaction.checkpoint.messages.message_codec import (
    fingerprint_all,
)

from ..compaction_request import NO_REQUEST, REQUEST
from ..config.settings import CompactionSettings
from ..conversation.bound_history import with_history_changed
from ..conversation.request import Meter
from ..events import ReleaseEvent, emit, log, replaced_event
from ..gate.invariants import Finding
from ..selection.selector import Selector
from ..state import FOCUS_CHARACTERS, STATE_VERSION, replace
from ..text.quoting import clip
from .admission import admitted_with_pins
from .effects import Effects, querying
from .finish_attempt import failure, finish_attempt, last_of
from .ledger_io import abandon, write_ledger
from .node_context import NodeContext, Update

LAST = "last"
"""The name of the last compaction in a request to undo."""

_ENDED = {"step": "end", "route": "end"}


def undone(before: Before, state: Mapping[str, Any], *, settings: CompactionSettings, meter: Meter) -> dict[str, Any]:
    """Return the keys of the channel `compaction` after an undo in this state.

    The pins of the restored messages count as admitted: a message that the compaction had shortened has another name
    in its original form.
    """
    messages, pins = cast("list[AnyMessage]", before.messages), (state.get("memory") or {}).get("pins") or ()
    selector = Selector.of(messages, settings, meter, frozenset(map(str, pins)))
    return {
        "v": STATE_VERSION,
        **_ENDED,
        "trigger": "",
        "draft": None,
        "pending": None,
        "usage": None,
        "streak": 0,
        "level": 0,
        "tried": [],
        "unproven": False,
        "held": True,
        "head": before.head,
        "last": last_of(verdict="undone", id=before.undone[0]),
        "admitted": admitted_with_pins(state.get("compaction") or {}, selector),
    }


def messages_after(before: Before) -> list[AnyMessage]:
    """Return the messages after an undo: with another history than the requests had between compaction and undo."""
    return with_history_changed(cast("list[AnyMessage]", before.messages))


def over_limit(before: Before, tokens: int, limit: int) -> str:
    """Return why an undo needs `force`: the request, of `tokens` tokens, would then exceed the limit."""
    return (
        f"with compaction {before.undone[0]} undone the request would hold {tokens} tokens and the limit is {limit}: "
        "the next turn would compact again at once"
    )


def tell_ledger(
    records: CompactionRecords,
    thread: str,
    state: Mapping[str, Any],
    before: Before,
    *,
    meter: Meter,
    after: int,
    now: float,
    namespace: str = "",
) -> None:
    """Write a ledger row for an undo. `after` is the size of the request after the undo, measured with `meter`.

    The rows of the undone compactions stay, because a fork may need these rows.
    """
    compaction, messages = state["compaction"], state["messages"]
    key = AttemptKey(thread, namespace, f"undo {compaction.get('head')} {fingerprint_all(messages)}", 0, 0)
    outcome = Outcome(verdict="undone", now=now, detail=", ".join(before.undone), tokens_after=after)
    records.note(
        key,
        outcome,
        parent_id=compaction.get("head"),
        checkpoint_id=None,
        epoch=compaction.get("epoch", 0),
        trigger="manual",
        strategy="undo",
        tokens_before=meter.request(messages),
        counter=meter.counter.name,
    )


def is_undo(request: Mapping[str, Any]) -> bool:
    """Whether this is a request to undo, or (`release`) to allow automatic compactions again after an undo."""
    return "undo" in request or "release" in request


def reject_request(context: NodeContext, fault: str) -> Update:
    """Clear an invalid request and end the run; the node `model` raises the error, so that this update is kept."""
    log.warning("%s", fault)
    newest = context.messages[-1].id if context.messages else None
    last = last_of(verdict="noop", reason=NO_REQUEST, detail=clip(fault, FOCUS_CHARACTERS), message_id=newest)
    step = "end" if context.dependencies.embedded else "model"
    return {"compaction": {"request": None, "step": step, "route": "end", "last": last}, REQUEST: None}


def undo_or_release(context: NodeContext, request: Mapping[str, Any]) -> Effects[Update]:
    """Return the update for a request to undo, or to release; the turn then ends without a call of the model.

    If nothing can be undone, the conversation stays unchanged, and `compaction["last"]` and an event say why.
    """
    if request.get("release"):
        emit(context.writer, ReleaseEvent(held=context.compaction.get("held", False)))
        return {"compaction": {**_ENDED, "held": False, "last": {}}}  # the result of an earlier request would mislead
    found = yield from _found(context, request)
    if isinstance(found, Finding):
        last = _finished(context, found)
        return {"compaction": {**_ENDED, "last": last}}
    yield from abandon(context)
    key, size, left = found.undone[0], context.meter.request(context.messages), _tokens(context, found)
    yield from write_ledger(context, lambda: _tell_ledger(context, found, left))
    finish_attempt(context, "undone", strategy="undo", before=size, after=left, compaction_id=key)
    emit(context.writer, replaced_event(len(found.messages)))
    channel = undone(found, context.state, settings=context.settings, meter=context.meter)
    return {"messages": replace(messages_after(found)), "compaction": channel}


def _finished(context: NodeContext, found: Finding) -> dict[str, Any]:
    """Report a request that changed nothing, by an event and in `compaction["last"]`, which holds a cut `detail`."""
    size, detail = context.size, clip(found.detail, FOCUS_CHARACTERS)
    last = finish_attempt(
        context, found.verdict, reason=found.reason, strategy="undo", before=size, after=size, detail=detail
    )
    return {**last, **last_of(detail=detail)}


def _found(context: NodeContext, request: Mapping[str, Any]) -> Effects[Before | Finding]:
    """Return the messages and compactions of the undo, or the reason why nothing is undone."""
    if (hindrance := _hindrance(context)) is not None:
        return hindrance
    wanted, thread, head = request["undo"], str(context.thread_id), context.compaction.get("head")
    records, name = context.dependencies.records, None if wanted in (LAST, True) else str(wanted)
    try:
        found = yield from querying(
            records, lambda: records.before(thread, context.messages, head=head, compaction_id=name)
        )
    except UnknownAttemptError as error:
        return Finding("noop", "nothing_to_undo", str(error))
    except Exception as error:  # noqa: BLE001 - a failure becomes a verdict
        return failure(error, "undo")
    tokens, limit = _tokens(context, found), context.sizes.limit
    if tokens > limit and not request.get("force"):
        return Finding(
            "noop", "over_limit", f'{over_limit(found, tokens, limit)}. "force": true undoes it all the same'
        )
    return found


def _hindrance(context: NodeContext) -> Finding | None:
    if context.dependencies.embedded:
        detail = (
            "the compaction is a node of another graph, so a run's input cannot undo it: use CompactionThread(graph, "
            "config).undo() or the command `langgraph-compaction undo`"
        )
        return Finding("noop", "embedded", detail)
    if context.thread_id is None:
        return Finding("noop", "no_thread", "without a thread_id nothing is kept that could stand again")
    return None


def _tokens(context: NodeContext, before: Before) -> int:
    return context.meter.request(cast("list[AnyMessage]", before.messages))


def _tell_ledger(context: NodeContext, before: Before, after: int) -> None:
    tell_ledger(
        context.dependencies.records,
        str(context.thread_id),
        {"compaction": context.compaction, "messages": context.messages},
        before,
        meter=context.meter,
        after=after,
        now=context.now(),
        namespace=context.namespace,
    )
