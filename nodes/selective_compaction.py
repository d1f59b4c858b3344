"""`selective_compaction`: begin the transaction and choose the messages to remove or shorten."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, get_args

from .compaction_request import WISHES
from .config.triggers import SINCE_COMPACTION, Unit
from .conversation.transcript import message_id
from .errors import ContextExhaustedError
from .events import Counts, log, meta_event
from .gate.invariants import Finding
from .runtime.collect_key_information import (
    Proposal,
    bare,
    key_information,
    wants_key_information,
    with_key_information,
)
from .runtime.effects import Effects
from .runtime.engine import needs_summary
from .runtime.finish_attempt import failed, failure, finish_attempt, outcome_of
from .runtime.ledger_io import begin, close, recallable
from .runtime.levels import attempt_number, names, untried_level, urgent
from .runtime.node_context import NodeContext, Update
from .selection.selector import Demand, Selection
from .selection.trigger_evaluation import counted
from .state import Draft
from .summary.fallback_chain import strategy

RESTARTING = WISHES | {"marker", *SINCE_COMPACTION}
"""Triggers after which turns and calls of the model are counted anew even if nothing could be compacted, so that they
do not fire at every turn."""


def selective_compaction(context: NodeContext) -> Effects[Update]:
    """Write the snapshot, then a draft; `messages` is not touched.

    Takes the thread's current level, or the next level whose strategy was not yet tried on these messages. Raises
    `ContextExhaustedError` if no level is left and the request is over the limit.
    """
    if context.compaction.get("draft") and context.draft.get("unrestored"):
        return {"compaction": {"step": "rollback"}}  # read the open draft's snapshot first
    base, trigger = context.base_fingerprint(), context.compaction.get("trigger", "precheck")
    level = untried_level(context, base)
    if level is None:
        return _nothing_left(context)
    name = strategy(context.settings, context.fallback_chain[level])
    before = context.meter.request(context.messages)
    draft = _opened(context, base, level=level, name=name, trigger=trigger, before=before)
    log.info("Starting a selective compaction (开始选择性压缩): %s, %d tokens", name, before)
    context.tell(meta_event("selective_start", before, before, Counts(), "started"))
    try:
        key = context.key(base, level, draft["attempt"])
        yield from begin(context, key, strategy=name, trigger=trigger, tokens_before=before)
        proposal = yield from _proposal(context, level, before)
        chosen = proposal.chosen
        if not isinstance(chosen, Finding):
            chosen = replace(chosen, clip=recallable(context, chosen.clip))
        draft["key_information"] = dict(proposal.key_information)
    except Exception as error:  # noqa: BLE001 - a failure becomes a verdict, and the turn goes on
        return failed(draft, failure(error, "selective"))
    if isinstance(chosen, Finding):
        # in the soft zone this is no failure: at the next turn more messages may be old enough to be removed
        return failed(draft, chosen) if urgent(context) else (yield from _noop(context, draft, chosen.reason))
    context.tell(meta_event("selective_done", before, chosen.tokens, chosen.counts, "done"))
    return _proposed(context, draft, chosen, proposal.goal)


def _proposal(context: NodeContext, level: int, before: int) -> Effects[Proposal]:
    """Choose the messages to remove; collect key information only if the choice needs a summary that carries it."""

    def demanded(texts: Mapping[str, str]) -> Demand:
        return context.demand(before, context.fallback_chain[level], texts)

    first = bare(context.call, context.messages, context.fallback_chain[level], demanded)
    if not wants_key_information(context.settings, context.fallback_chain[level], first):
        return first
    texts = yield from key_information(context)
    return with_key_information(
        context.call, context.messages, context.fallback_chain[level], demanded, first=first, texts=texts
    )


def _nothing_left(context: NodeContext) -> Update:
    """Follow the stored route, but raise if the request exceeds the limit by usage and by a full count as well."""
    refused = context.compaction.get("trigger") == "overflow"
    if not urgent(context) or (not refused and context.meter.request(context.messages) <= context.sizes.limit):
        return {"compaction": {"step": context.compaction.get("route", "model"), "draft": None, "seconds_left": None}}
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
        "may be removed is gone. Use a model with a larger window, shorten the system prompt, remove pins, or let "
        "a long input be summarized or shortened (long_input='summarize')."
    )


def _opened(context: NodeContext, base: str, *, level: int, name: str, trigger: str, before: int) -> Draft:
    attempt, left = attempt_number(context, base, level), context.compaction.get("seconds_left")
    return Draft(
        snapshot_id=context.key(base, level, attempt).compaction_id,
        base_fingerprint=base,
        count=len(context.messages),
        level=level,
        levels=names(context),
        attempt=attempt,
        strategy=name,
        trigger=trigger,
        drop=[],
        clip={},
        summary=None,
        tokens_before=before,
        tokens_selected=before,
        opened_at=context.now(),
        seconds_left=context.settings.summary_deadline_s if left is None else left,
        owner=context.dependencies.owner(),
        failure=[],
    )


def _proposed(context: NodeContext, draft: Draft, chosen: Selection, goal: Demand) -> Update:
    ids = [message_id(message) for message in context.messages]
    draft["drop"] = [ids[index] for index in sorted(chosen.drop)]
    draft["clip"] = {ids[index]: message for index, message in chosen.clip.items()}
    draft["floor"], draft["ceiling"] = chosen.floor, chosen.ceiling
    draft["sections"] = [[ids[index] for index in sorted(part)] for part in chosen.sections]
    summary = needs_summary(context.settings, chosen, goal)
    draft["strategy"] = strategy(
        context.settings, context.fallback_chain[draft["level"]], chosen.name, summary=summary
    )
    draft["counts"] = asdict(chosen.counts)
    draft["tokens_selected"] = chosen.tokens
    return {"compaction": {"step": "summarize" if summary else "commit", "draft": draft}}


def _noop(context: NodeContext, draft: Draft, reason: str) -> Effects[Update]:
    """End an attempt that can gain nothing now; such an attempt does not count as a failure."""
    before = draft["tokens_before"]
    context.tell(meta_event("selective_done", before, before, Counts(), reason))
    key = context.key(draft["base_fingerprint"], draft["level"], draft["attempt"])
    yield from close(context, key, outcome_of(context, draft, "noop", reason=reason, tokens_after=before))
    last = finish_attempt(context, "noop", reason=reason, before=before, after=before, draft=draft)
    step = context.compaction.get("route", "model")
    return {"compaction": {"step": step, "draft": None, "last": last, **_counted_anew(context)}}


def _counted_anew(context: NodeContext) -> dict[str, Any]:
    """Return the keys by which a trigger that found nothing to compact does not fire again at the next turn.

    Turns and calls of the model are counted anew, as after a commit. For a trigger that counts messages or rounds,
    the present number of messages or rounds is stored.
    """
    trigger = context.compaction.get("trigger", "")
    if trigger in RESTARTING:
        return context.counted_anew()
    unit = next((one for one in get_args(Unit) if one == trigger), None)
    if unit is None:
        return {}
    known = context.compaction.get("in_vain") or {}
    return {"in_vain": {**known, unit: counted(context.messages, unit)}}
