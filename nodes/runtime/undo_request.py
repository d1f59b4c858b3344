"""Undo compactions: the state after an undo, and an undo that a run's input requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint import CompactionRecords, UnknownAttemptError
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome
from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all

from ..compaction_request import CALLS_OPEN, NO_REQUEST
from ..conversation.item_types import without_pin_mark
from ..conversation.message_marks import is_pinned, is_summary, marks
from ..conversation.pin_tags import pins_in, without_pin
from ..conversation.request import Meter
from ..conversation.view import View, in_forms, redone_view, seen, undone_view
from ..errors import RequestError
from ..events import ReleaseEvent, emit, log
from ..gate.invariants import Finding
from ..state import FOCUS_CHARACTERS, STATE_VERSION, conversation, messages_in_view, pinned_ids, stored_view
from ..text.quoting import clip
from .effects import Effects
from .finish_attempt import failure, finish_attempt, last_of
from .ledger_io import abandon, checkpoint_of, write_ledger
from .node_context import NodeContext, Update

LAST = "last"
"""The name of the last compaction in a request to undo."""

_ENDED = {"step": "end", "route": "end"}
_STRATEGIES = {"undone": "undo", "redone": "redo"}
_IN_WORDS = {
    "undone": "undone: the model sees the messages again, {tokens:,} tokens; a redo brings it back; {then}",
    "redone": "redone: the compaction is in effect again, {tokens:,} tokens",
}


@dataclass(frozen=True, kw_only=True)
class Undoing:
    """What an undo, or a redo, makes of a thread."""

    verdict: Literal["undone", "redone"]
    compactions: tuple[str, ...]
    """Ids of the compactions that are undone or done again, oldest first."""
    view: View
    messages: list[AnyMessage]
    """What the model sees then."""

    @property
    def head(self) -> str | None:
        """Id of the last compaction that the thread then builds on."""
        return self.view["source"] or None


def undoing(records: CompactionRecords, thread: str, values: Mapping[str, Any], compaction_id: str | None) -> Undoing:
    """Return what the undo of a compaction, by default of the last one, makes of a thread in this state.

    Raise `UnknownAttemptError` if the state does not build on the compaction, and if messages that the undo would
    show have moved to the archive.
    """
    head = (values.get("compaction") or {}).get("head")
    before = records.before(thread, head=head, compaction_id=compaction_id)
    said, view = conversation(values), stored_view(values)
    began, there = cast("list[AnyMessage]", before.messages), {message.id for message in said}
    if view and view.get("moved") and any(m.id not in there for m in began if not is_summary(m)):
        raise UnknownAttemptError(
            f"compaction {before.undone[0]} cannot be undone: messages that it had in view have moved to the archive "
            "(messages_in_state, archive()). CompactionThread.transcript(), recall and branch_from still find them"
        )
    return _seen_in(values, undone_view(said, view, began, source=before.head or ""), "undone", before.undone)


def redoing(values: Mapping[str, Any]) -> Undoing:
    """Return what a redo makes of a thread in this state; raise `UnknownAttemptError` if there is nothing to redo."""
    after = redone_view(conversation(values), stored_view(values), pinned_ids(values))
    if after is None:
        raise UnknownAttemptError("there is nothing to redo: no compaction was undone since the last one")
    return _seen_in(values, after, "redone", (after["source"],))


def _seen_in(
    values: Mapping[str, Any], after: View, verdict: Literal["undone", "redone"], compactions: tuple[str, ...]
) -> Undoing:
    """Return what the model sees in the view after an undo or a redo; neither of them brings a removed pin back."""
    said, pins, stood = conversation(values), pinned_ids(values), messages_in_view(values)
    whole = {message.id for message in stood if is_pinned(message, pins)}
    texts = {text for message in stood for text in pins_in(message)}
    forms = list[AnyMessage]()
    for message in seen(said, after, pins):
        form = without_pin_mark(message) if marks(message).get("pinned") and message.id not in whole else message
        for text in pins_in(form):
            form = form if text in texts else without_pin(form, text)
        forms += [] if form is message else [form]
    view = in_forms(said, after, forms) if forms else after
    return Undoing(verdict=verdict, compactions=compactions, view=view, messages=seen(said, view, pins))


def channel_after(done: Undoing, compaction: Mapping[str, Any], *, tokens: int, limit: int | None) -> dict[str, Any]:
    """Return the keys of the channel `compaction` after an undo or a redo; the breaker keeps what it waits for.

    `tokens` is the size of the next request, and `limit` the largest that is sent, if it is known.
    """
    known: Mapping[str, Any] = compaction.get("breaker") or {}
    waiting = {name: known[name] for name in ("cooldown_until", "recent") if name in known}
    return {
        "v": STATE_VERSION,
        **_ENDED,
        "trigger": "",
        "draft": None,
        "usage": None,
        "breaker": waiting,
        "held": done.verdict == "undone",
        "head": done.head,
        "last": last_of(
            text=_IN_WORDS[done.verdict].format(tokens=tokens, then=after_undo(tokens, limit)),
            verdict=done.verdict,
            tokens_after=tokens,
            id=done.compactions[0],
            compaction=_last_attempt(compaction),
        ),
    }


def _last_attempt(compaction: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how the last attempt ended; a request to undo or redo that came since keeps it beside its own result."""
    last: dict[str, Any] = compaction.get("last") or {}
    return last if "trigger" in last else last.get("compaction")


def exceeds(tokens: int, limit: int | None) -> bool:
    """Whether a request of so many tokens exceeds the limit, if that is known."""
    return limit is not None and tokens > limit


def after_undo(tokens: int, limit: int | None) -> str:
    """Return whether automatic compactions pause after an undo: not if the next request exceeds the limit."""
    if exceeds(tokens, limit):
        return f"that is over the limit of {limit:,}, and the next turn compacts again"
    return "automatic compactions pause until a release"


def over_limit(done: Undoing, tokens: int, limit: int | None) -> str:
    """Return why an undo needs `force`: the request, of `tokens` tokens, would then exceed the limit."""
    return (
        f"with compaction {done.compactions[0]} undone, the request would hold {tokens:,} tokens and the limit is "
        f"{limit:,}: the next turn would compact again at once"
    )


def tell_ledger(
    records: CompactionRecords,
    thread: str,
    values: Mapping[str, Any],
    done: Undoing,
    *,
    meter: Meter,
    after: int,
    now: float,
    checkpoint_id: str | None,
    namespace: str = "",
) -> None:
    """Write a ledger row for an undo or a redo of a thread in the state `values`.

    `after` is the size of the next request, in tokens, measured with `meter`.
    The rows of the undone compactions stay, because a fork or a redo may need these rows.
    """
    compaction, messages = values.get("compaction") or {}, messages_in_view(values)
    strategy = _STRATEGIES[done.verdict]
    name = f"{strategy} {compaction.get('head')} {checkpoint_id} {fingerprint_all(messages)}"
    key = AttemptKey(thread, namespace, name, 0, 0)
    outcome = Outcome(verdict=done.verdict, now=now, detail=", ".join(done.compactions), tokens_after=after)
    records.note(
        key,
        outcome,
        parent_id=compaction.get("head"),
        checkpoint_id=checkpoint_id,
        epoch=compaction.get("epoch", 0),
        trigger="manual",
        strategy=strategy,
        tokens_before=meter.request(messages),
        counter=meter.counter.name,
    )


def is_undo(request: Mapping[str, Any]) -> bool:
    """Whether this is a request to undo or redo, or (`release`) to allow automatic compactions after an undo."""
    return not request.keys().isdisjoint(("undo", "redo", "release"))


def reject_request(context: NodeContext, fault: str) -> Update:
    """Clear an invalid request and end the run; the node `model` raises the error, so that this update is kept.

    Raises `RequestError` itself in a parent graph, which would go on without the answers that its tools wait for.
    """
    if fault == CALLS_OPEN and context.dependencies.embedded:
        raise RequestError(fault)
    log.warning("%s", fault)
    newest = context.messages[-1].id if context.messages else None
    detail = clip(fault, FOCUS_CHARACTERS)
    last = last_of(
        text=detail,
        verdict="noop",
        reason=NO_REQUEST,
        detail=detail,
        message_id=newest,
        compaction=_last_attempt(context.compaction),
    )
    step = "end" if context.dependencies.embedded else "model"
    return {"compaction": {"request": None, "step": step, "route": "end", "last": last}, **context.request_read}


def undo_or_release(context: NodeContext, request: Mapping[str, Any]) -> Effects[Update]:
    """Return the update for a request to undo, redo or release; the turn then ends without a call of the model.

    If nothing can be undone, the conversation stays unchanged, and `compaction["last"]` and an event say why.
    """
    if request.get("release"):
        emit(context.writer, ReleaseEvent(held=context.compaction.get("held", False)))
        return {"compaction": {**_ENDED, "held": False, "last": _last_attempt(context.compaction) or {}}}
    found = yield from _found(context, request)
    if isinstance(found, Finding):
        last = _finished(context, found)
        return {"compaction": {**_ENDED, "last": last}}
    yield from abandon(context)
    key, meter, place = found.compactions[0], context.meter, checkpoint_of(context)
    size, left = meter.request(context.messages), meter.request(found.messages)
    records, thread, values = context.records, str(context.thread_id), context.values

    def told() -> None:
        tell_ledger(
            records,
            thread,
            values,
            found,
            meter=meter,
            after=left,
            now=context.now(),
            checkpoint_id=place,
            namespace=context.namespace,
        )

    yield from write_ledger(context, told)
    strategy = _STRATEGIES[found.verdict]
    finish_attempt(context, found.verdict, strategy=strategy, before=size, after=left, compaction_id=key)
    return {
        "compaction_view": found.view,
        "compaction": channel_after(found, context.compaction, tokens=left, limit=context.sizes.limit),
    }


def _finished(context: NodeContext, found: Finding) -> dict[str, Any]:
    """Report a request that changed nothing, by an event and in `compaction["last"]`, which holds a cut `detail`."""
    size, detail = context.size, clip(found.detail, FOCUS_CHARACTERS)
    last = finish_attempt(
        context, found.verdict, reason=found.reason, strategy="undo", before=size, after=size, detail=detail
    )
    return {**last, **last_of(text=detail, detail=detail, compaction=_last_attempt(context.compaction))}


def _found(context: NodeContext, request: Mapping[str, Any]) -> Effects[Undoing | Finding]:
    """Return the messages and compactions of the undo or redo, or the reason why nothing changes."""
    if (hindrance := _hindrance(context)) is not None:
        return hindrance
    try:
        found = yield from _asked_for(context, request)
    except UnknownAttemptError as error:
        return Finding("noop", "nothing_to_redo" if "redo" in request else "nothing_to_undo", str(error))
    except Exception as error:  # noqa: BLE001 - a failure becomes a verdict
        return failure(error, "undo")
    tokens, limit = context.meter.request(found.messages), context.sizes.limit
    if exceeds(tokens, limit) and "redo" not in request and not request.get("force"):
        return Finding(
            "noop", "over_limit", f'{over_limit(found, tokens, limit)}. "force": true undoes it all the same'
        )
    return found


def _asked_for(context: NodeContext, request: Mapping[str, Any]) -> Effects[Undoing]:
    if "redo" in request:
        return redoing(context.values)
    name = None if request["undo"] in (LAST, True) else str(request["undo"])
    records, thread = context.records, str(context.thread_id)
    return (yield from context.query(lambda: undoing(records, thread, context.values, name)))


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
