"""`commit`: prove the draft on the conversation as it stands now, then write it in one update."""

from typing import Any, cast

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.messages.message_codec import (
    digest,
    handle,
)

from .compaction_request import Memory
from .conversation.transcript import Transcript, is_summary, message_id
from .effects import Step
from .events import CompactionEvent, committed_events, cost_of, emit, log, meta_event
from .gate.invariants import Finding
from .runtime import ledger_io
from .runtime.engine import applied_to, counts_of, judge
from .runtime.failure_description import failure
from .runtime.handoff import handed_over
from .runtime.node_context import NEW_THREAD, Turn, Update, failed
from .selection.breaker import REMEMBERED
from .state import Draft, EmbeddedState, replace
from .summary.fallback_chain import verdict_of

GOAL_CHARACTERS = 300
"""Keeps the channel small in any script; the whole message is in the archive."""


def commit(turn: Turn) -> Step[Update]:
    """Apply the draft where the gate lets it pass, else hand it to `rollback` with the gate's finding.

    Messages that arrived since the snapshot stay behind the draft. What leaves the view is in the archive
    before the state changes.
    """
    draft = turn.draft.copy()
    try:
        stale = yield from _stale(turn, draft)
    except Exception as error:  # noqa: BLE001 - a failure becomes a verdict
        stale = failure(error, "snapshot")
    if stale:
        return failed(draft, stale)
    after = applied_to(turn.messages, drop=draft["drop"], clip=draft["clip"], summary=draft.get("summary"))
    ceiling, floor = draft.get("ceiling", turn.sizes.limit), draft.get("floor", 0)
    needed = draft.get("needed") or ()
    if finding := judge(turn.call, turn.messages, after, ceiling=ceiling, floor=floor, needed=needed):
        return failed(draft, finding if ledger_io.as_begun(turn, draft) else _overtaken(finding))
    if "seen" not in draft:
        summaries = {message_id(message) for message in turn.messages if is_summary(message)}
        draft["seen"] = {"not_seen": [name for name in draft["drop"] if name not in summaries]}
    if draft["trigger"] == NEW_THREAD:
        return (yield from handed_over(turn, draft, after, _goal(turn)))
    size, verdict = turn.meter.request(after), verdict_of(turn.ladder, draft["rung"])
    outcome = ledger_io.outcome_of(turn, draft, verdict, tokens_after=size)
    try:
        yield from ledger_io.commit(turn, turn.draft_key, outcome, _leaving(turn, draft))
    except Exception as error:  # noqa: BLE001 - what is not archived must not leave the view
        return failed(draft, failure(error, "archive"))
    log.info(
        "Committed a compaction: %d -> %d tokens (%s, %s)", draft["tokens_before"], size, draft["strategy"], verdict
    )
    _tell(turn, draft, size, len(after), outcome.summary)
    return _committed(turn, draft, after, size, verdict)


def _tell(turn: Turn, draft: Draft, size: int, count: int, summary: str | None) -> None:
    """What became of the conversation; `summary` as the ledger may hold it."""
    if draft.get("summary") is not None:
        counts = counts_of(draft.get("counts"))
        turn.tell(meta_event("summary_done", draft["tokens_selected"], size, counts, "success"))
    for event in committed_events(draft["trigger"], draft["tokens_before"], size, count, summary):
        emit(turn.writer, event)


def _stale(turn: Turn, draft: Draft) -> Step[Finding | None]:
    """A finding where a message that the draft names has changed or gone since the snapshot."""
    if ledger_io.as_begun(turn, draft):
        return None
    original = (yield from ledger_io.snapshot(turn, turn.draft_key)) or []
    before = {message.id: digest(message) for message in original}
    now = {message.id: digest(ledger_io.stored(turn, message)) for message in turn.messages}
    named = [*draft["drop"], *draft["clip"]]
    changed = [name for name in named if name not in now or before.get(name) != now[name]]
    return Finding("stale", "messages_changed", ", ".join(changed[:5])) if changed else None


def _overtaken(finding: Finding) -> Finding:
    """A draft that would have passed another writer by is no failure of its rung."""
    return Finding("stale", "messages_changed", f"{finding.reason} {finding.detail}".strip())


def _leaving(turn: Turn, draft: Draft) -> list[AnyMessage]:
    """The originals of what is dropped or clipped."""
    named = {*draft["drop"], *draft["clip"]}
    return [message for message in turn.messages if message_id(message) in named]


def _committed(turn: Turn, draft: Draft, after: list[AnyMessage], size: int, verdict: str) -> Update:
    key = turn.draft_key.compaction_id
    dropped = (draft.get("counts") or {}).get("blocks_dropped", 0)
    known = {"tokens_remaining": max(0, turn.sizes.limit - size), **cost_of(draft)}
    emit(
        turn.writer,
        CompactionEvent(
            verdict=verdict,
            reason="success",
            strategy=draft["strategy"],
            tokens_before=draft["tokens_before"],
            tokens_after=size,
            blocks_dropped=dropped,
            compaction_id=key,
            **known,
        ),
    )
    last: dict[str, Any] = {
        "verdict": verdict,
        "id": key,
        "strategy": draft["strategy"],
        "rung": draft["rung"],
        "trigger": draft["trigger"],
        "tokens_before": draft["tokens_before"],
        "tokens_after": size,
        "threshold": turn.sizes.trigger,
        "limit": turn.sizes.limit,
        "floor": draft.get("floor", 0),
        **known,
    }
    compaction: dict[str, Any] = {
        "step": turn.compaction.get("route", "model"),
        "epoch": turn.epoch + 1,
        "draft": None,
        "focus": None,
        "usage": None,
        "turns_then": turn.compaction.get("turns", 0),
        "recent": [*(turn.compaction.get("recent") or []), turn.compaction.get("calls", 0)][-REMEMBERED:],
        "unproven": True,
        "streak": 0,
        "rung": 0,
        "cooldown_until": 0.0,
        "declined_at": None,
        "warned": False,
        "held": False,
        "head": key,
        "last": last,
    }
    if turn.compaction.get("in_vain"):
        compaction["in_vain"] = None
    earlier = cast("EmbeddedState", turn.state).get("applied") or {"drop": [], "clip": {}}  # before the check
    applied = {
        "drop": [*earlier["drop"], *draft["drop"]],
        "clip": {**earlier["clip"], **draft["clip"]},
        "summary": draft.get("summary"),
    }
    update: Update = {"messages": replace(after), "compaction": compaction, "applied": applied}
    if goal := _goal(turn):
        update["memory"] = goal
    return update


def _goal(turn: Turn) -> Memory | None:
    """The first thing the user asked for, kept from the first commit on."""
    if turn.memory.get("goal"):
        return None
    starts = Transcript(turn.messages).round_starts
    if not starts:
        return None
    first = turn.messages[starts[0]]
    return {"goal": first.text[:GOAL_CHARACTERS], "goal_handle": handle(ledger_io.stored(turn, first))}
