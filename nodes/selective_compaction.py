"""`selective_compaction`: begin the transaction and choose the messages to remove or shorten."""

from typing import Any, get_args

from .ahead.use_prepared import Ahead, find_prepared, use_prepared
from .compaction_request import WISHES
from .config.triggers import SINCE_COMPACTION, Unit
from .conversation.message_marks import is_pinned
from .errors import ContextExhaustedError
from .events import NO_COUNTS, log
from .gate.invariants import Finding
from .runtime.admission import pinned_tokens
from .runtime.effects import Effects
from .runtime.finish_attempt import failed, failure, finish_attempt, outcome_of, window_before
from .runtime.ledger_io import begin, close
from .runtime.levels import attempt_number, keeps_everything, over, untried_level, urgent
from .runtime.node_context import NodeContext, Update
from .runtime.propose_draft import choose_messages, opened_draft
from .runtime.trigger_and_warning import counted_anew
from .selection.trigger_evaluation import counted
from .state import Draft
from .summary.fallback_chain import strategy

RESTARTING = WISHES | {"marker", *SINCE_COMPACTION}
"""Triggers after which turns and calls of the model are counted anew even if nothing could be compacted, so that they
do not fire at every turn."""


def selective_compaction(context: NodeContext) -> Effects[Update]:
    """Write the snapshot, then a draft; the view is not touched.

    Takes the thread's current level, or the next level whose strategy was not yet tried on these messages. A summary
    that was prepared ahead is used; while it is being written, or if it has failed and the settings leave everything
    as it is then, a request that fits is not compacted. Raises `ContextExhaustedError` if no level is left and the
    request is over the limit.
    """
    ahead = yield from find_prepared(context)
    given_up = ahead.failed and keeps_everything(context) and context.compaction.get("trigger") not in WISHES
    changed = {} if ahead.breaker is None else {"breaker": ahead.breaker}
    now = context.after(changed) if changed else context
    if ahead.waits or (given_up and not now.breaker.get("failed")):
        return {"compaction": _passed_on(now)}
    update = yield from _begun(now, ahead)
    return {**update, "compaction": {**changed, **update["compaction"]}}


def _begun(context: NodeContext, ahead: Ahead) -> Effects[Update]:
    base, trigger = context.base_fingerprint(), context.compaction.get("trigger", "precheck")
    level = untried_level(context, base)
    if level is None:
        return _nothing_left(context)
    name = strategy(context.settings, context.chain[level])
    before = context.meter.request(context.messages)
    draft = opened_draft(context, base, level=level, attempt=attempt_number(context), before=before)
    log.info("Starting a selective compaction (开始选择性压缩): %s, %d tokens", name, before)
    context.tell("selective_start", before, before, NO_COUNTS, "started")
    try:
        key = context.key(base, level, draft["attempt"])
        yield from begin(context, key, strategy=name, trigger=trigger, tokens_before=before)
        used = yield from use_prepared(context, draft, ahead)
        found = used or (yield from choose_messages(context, draft))
    except Exception as error:  # noqa: BLE001 - a failure becomes a verdict, and the turn goes on
        return failed(draft, failure(error, "selective"))
    if isinstance(found, Finding):
        # in the soft zone this is no failure: at the next turn more messages may be old enough to be removed
        return failed(draft, found) if urgent(context) else (yield from _noop(context, draft, found.reason))
    chosen, update = found
    context.tell("selective_done", before, chosen.tokens, chosen.counts, "done")
    return update


def _nothing_left(context: NodeContext) -> Update:
    """Follow the stored route, but raise if the request exceeds the limit by usage and by a full count as well."""
    refused = context.compaction.get("trigger") == "overflow"
    if not urgent(context) or (not refused and context.meter.request(context.messages) <= context.sizes.limit):
        return {"compaction": _passed_on(context)}
    sizes = context.sizes
    if context.dependencies.fills_window:
        last, size = context.compaction.get("last") or {}, context.meter.request(context.messages)
        raise ContextExhaustedError(
            f"the messages hold {size} tokens and at most {sizes.limit} are wanted, "
            f"{sizes.fixed} of them for system messages; what must stay does not fit ({last.get('reason', 'noop')})"
        )
    raise ContextExhaustedError(
        f"the request needs {context.size} tokens and the limit is {sizes.limit} (window {sizes.window}, output "
        f"reserve {sizes.reserve}, system prompt, system messages and tools {sizes.fixed}), and everything that "
        f"may be removed is gone. {_advice(context)}"
    )


def _passed_on(context: NodeContext) -> dict[str, Any]:
    """Return the keys of a turn that goes on without a compaction."""
    route, breaker = context.compaction.get("route", "model"), context.breaker
    return {"step": route, "draft": None, **({"breaker": over(breaker)} if breaker else {})}


def _advice(context: NodeContext) -> str:
    """Return what to do if the messages that must stay do not fit; pins are named if they hold much of the room."""
    other = "Start a new thread, use a model with a larger window, shorten the system prompt, or "
    held = pinned_tokens(context)
    if held <= context.sizes.most_pinned:
        kept = context.settings.long_input == "keep"
        shorter = "let a long input be summarized or shortened (long_input='summarize')"
        return f"{other}{shorter if kept else 'send a shorter message'}."
    pins = ", ".join(repr(message.id) for message in context.messages if is_pinned(message, context.call.pins))
    return (
        f"Pins hold {held} tokens of a room of {context.sizes.room}: the messages {pins}. {other}remove pins with "
        "CompactionThread(graph, config).unpin(message_id), then go on with invoke(None) or a new message."
    )


def _noop(context: NodeContext, draft: Draft, reason: str) -> Effects[Update]:
    """End an attempt that can gain nothing now; such an attempt does not count as a failure."""
    before = draft["tokens_before"]
    draft["window"] = window_before(context, draft)
    context.tell("selective_done", before, before, NO_COUNTS, reason)
    key = context.key(draft["base_fingerprint"], draft["level"], draft["attempt"])
    yield from close(context, key, outcome_of(context, draft, "noop", reason=reason, tokens_after=before))
    last = finish_attempt(context, "noop", reason=reason, before=before, after=before, draft=draft)
    return {"compaction": {**_passed_on(context), "last": last, **_counted_anew(context)}}


def _counted_anew(context: NodeContext) -> dict[str, Any]:
    """Return the keys by which a trigger that found nothing to compact does not fire again at the next turn.

    Turns and calls of the model are counted anew, as after a commit. For a trigger that counts messages or rounds,
    the present number of messages or rounds is stored.
    """
    trigger = context.compaction.get("trigger", "")
    if trigger in RESTARTING:
        return counted_anew(context.compaction)
    unit = next((one for one in get_args(Unit) if one == trigger), None)
    if unit is None:
        return {}
    known = context.compaction.get("in_vain") or {}
    return {"in_vain": {**known, unit: counted(context.messages, unit)}}
