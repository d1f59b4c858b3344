"""`rollback`: drop the draft, restore the snapshot where the conversation differs, choose what follows."""

from dataclasses import replace as changed
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage

from .compaction_request import WISHES
from .effects import Effects
from .events import CompactionEvent, cost_of, emit, log, meta_event, replaced_event
from .gate.invariants import Finding
from .runtime import ledger_io
from .runtime.engine import counts_of
from .runtime.failure_description import failure
from .runtime.node_context import NodeContext, Update
from .runtime.trigger_check import check
from .selective_compaction import urgent
from .state import CompactionState, Draft, replace
from .summary.fallback_chain import after_failure, strategy

NO_FAILURE = frozenset({"recovered", "stale"})
"""Verdicts that leave level and streak as they are."""

REMEMBERED = 8


def rollback(context: NodeContext) -> Effects[Update]:
    """Close the attempt. Afterwards the conversation is the snapshot, byte for byte, plus what arrived since.

    A draft without a failure is one that an earlier run left open: it died, and this run recovers. Where the
    snapshot is needed and cannot be read, the draft stays open, the turn goes on, and the next check tries again.
    """
    draft = context.draft
    found = Finding(*(draft.get("failure") or ["recovered", "interrupted_run"]))
    verdict, reason, detail = found.verdict, found.reason, found.detail
    update: Update = {}
    try:
        restored = None if verdict == "stale" else (yield from _restored(context, draft))
    except Exception as error:  # noqa: BLE001 - a failure becomes a verdict
        return (yield from _put_off(context, draft, failure(error, "restore")))
    if restored is not None:
        update["messages"] = replace(restored)
        emit(context.writer, replaced_event(len(restored)))
        context = _holding(context, restored)
    outcome = ledger_io.outcome_of(context, draft, verdict, reason=reason, detail=detail)
    log.warning("Rolled back a compaction (压缩失败，已回滚): %s: %s %s", verdict, reason, outcome.detail[:200])
    if verdict == "recovered":
        yield from ledger_io.recover(context, draft, outcome)
    else:
        yield from ledger_io.close(context, context.draft_key, outcome)
    _tell(context, draft, verdict, reason)
    compaction: dict[str, Any] = {"draft": None}
    if verdict not in NO_FAILURE:
        compaction |= _counted(context, draft, found)
    if verdict == "recovered":
        compaction |= yield from _decided_anew(context)
    else:
        compaction["step"] = _next(context, compaction)
    compaction["last"] = _last(draft, found, restored=restored is not None)
    return {**update, "compaction": compaction}


def _put_off(context: NodeContext, draft: Draft, found: Finding) -> Effects[Update]:
    """Leave the draft open, marked as unrestored, and go on along the stored route.

    Its own failure stays in it, and counts when it is closed. The row of a run that died stays open with it: what
    became of it on another branch stands.
    """
    log.error(
        "The snapshot of attempt %s cannot be read (%s); the next check tries again",
        draft["snapshot_id"],
        found.reason,
    )
    if draft["failure"]:
        outcome = ledger_io.outcome_of(context, draft, found.verdict, reason=found.reason, detail=found.detail)
        yield from ledger_io.close(context, context.draft_key, outcome)
    _tell(context, draft, found.verdict, found.reason)
    left: Draft = {**draft, "unrestored": True}
    route, last = context.compaction.get("route", "model"), _last(draft, found, restored=False)
    return {"compaction": {"draft": left, "step": route, "last": last}}


def _last(draft: Draft, found: Finding, *, restored: bool) -> dict[str, Any]:
    """What the state says of the attempt."""
    return {
        "verdict": found.verdict,
        "reason": found.reason,
        "strategy": draft["strategy"],
        "tokens_before": draft["tokens_before"],
        "tokens_after": draft["tokens_before"],
        "restored": restored,
    }


def _holding(context: NodeContext, messages: list[AnyMessage]) -> NodeContext:
    """The turn as it is with the restored messages: what follows is decided by their size."""
    return changed(context, state=cast("CompactionState", {**context.state, "messages": messages}))


def _restored(context: NodeContext, draft: Draft) -> Effects[list[AnyMessage] | None]:
    """The snapshot followed by what arrived since, where the conversation is not just that already.

    Raises what reading the snapshot raises; the database has asked again by then, where that could help.
    """
    if ledger_io.as_begun(context, draft):
        return None
    original: list[BaseMessage] | None = yield from ledger_io.snapshot(context, context.draft_key)
    if original is None:
        log.error("No snapshot of attempt %s was found; the conversation stays as it is", draft["snapshot_id"])
        return None
    known = {message.id for message in original}
    arrived = [message for message in context.messages if message.id not in known]
    return [*original, *arrived]  # type: ignore[list-item] # a snapshot holds the messages it was given


def _counted(context: NodeContext, draft: Draft, finding: Finding) -> dict[str, Any]:
    """A failure changes the next attempt, and repeated ones start the cool-down."""
    streak = context.compaction.get("streak", 0) + 1
    tried = [
        *(context.compaction.get("tried") or []),
        [draft["base_fingerprint"], strategy(context.settings, context.fallback_chain[draft["level"]])],
    ]
    counted: dict[str, Any] = {
        "streak": streak,
        "level": after_failure(context.fallback_chain, draft["level"], finding),
        "tried": tried[-REMEMBERED:],
    }
    if streak >= context.settings.cooldown_after:
        counted["cooldown_until"] = context.now() + context.settings.cooldown_s
    return counted


def _decided_anew(context: NodeContext) -> Effects[dict[str, Any]]:
    """What this turn does, now that the draft of a run that died is gone. Nobody is asked a second time."""
    if context.compaction.get("trigger") in WISHES:
        return {"step": "selective_compaction"}
    decided = yield from check(context, context.size, "precheck", "model")
    return {**decided, "step": "selective_compaction"} if decided["step"] == "confirm" else decided


def _next(context: NodeContext, counted: dict[str, Any]) -> str:
    """The hard zone and a person's wish go on to the next level; else one failed attempt is enough."""
    route = context.compaction.get("route", "model")
    if urgent(context):
        return "selective_compaction"
    wish = context.compaction.get("trigger") in WISHES
    return "selective_compaction" if wish and _level_left(context, counted) else route


def _level_left(context: NodeContext, counted: dict[str, Any]) -> bool:
    tried, base = counted.get("tried") or [], context.base_fingerprint()
    left = context.fallback_chain[counted.get("level", 0) :]
    return any([base, strategy(context.settings, level)] not in tried for level in left)


def _tell(context: NodeContext, draft: Draft, verdict: str, reason: str) -> None:
    before = draft["tokens_before"]
    counts = counts_of(draft.get("counts"))
    context.tell(meta_event("rollback", before, before, counts, reason))
    emit(
        context.writer,
        CompactionEvent(
            verdict=verdict,
            reason=reason,
            strategy=draft["strategy"],
            tokens_before=before,
            tokens_after=before,
            blocks_dropped=0,
            compaction_id=context.draft_key.compaction_id,
            tokens_remaining=max(0, context.sizes.limit - before),
            **cost_of(draft),
        ),
    )
