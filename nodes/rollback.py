"""`rollback`: drop the draft, restore the snapshot where the conversation differs, choose what follows (S0.6)."""

from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage

from langgraph_compaction.checkpoint import digest_all

from . import attempts
from .deciding import check
from .engine import counts_of
from .events import CompactionEvent, emit, log, meta_event
from .ladder import after_failure, strategy
from .policies.gate import Finding
from .selective_compaction import urgent
from .state import Draft, replace
from .steps import Step
from .turn import Turn, Update

NO_FAILURE = frozenset({"recovered", "stale"})
"""Verdicts that leave rung and streak as they are."""

REMEMBERED = 8


def rollback(turn: Turn) -> Step[Update]:
    """Close the attempt. Afterwards the conversation is the snapshot, byte for byte, plus what arrived since.

    A draft without a failure is one that an earlier run left open: it died, and this run recovers.
    """
    draft = turn.draft
    found = Finding(*(draft.get("failure") or ["recovered", "interrupted_run"]))
    verdict, reason, detail = found.verdict, found.reason, found.detail
    update: Update = {}
    restored = None if verdict == "stale" else (yield from _restored(turn, draft))
    if restored is not None:
        update["messages"] = replace(restored)
    outcome = attempts.outcome_of(turn, draft, verdict, reason=reason, detail=detail)
    log.warning("压缩失败，已回滚 (%s: %s %s)", verdict, reason, outcome.detail[:200])
    if verdict == "recovered":
        yield from attempts.recover(turn, draft, outcome)
    else:
        yield from attempts.close(turn, turn.draft_key, outcome)
    _tell(turn, draft, verdict, reason)
    compaction: dict[str, Any] = {"draft": None}
    if verdict not in NO_FAILURE:
        compaction |= _counted(turn, draft, found)
    if verdict == "recovered":
        compaction |= yield from _decided_anew(turn)
    else:
        compaction["step"] = _next(turn, compaction)
    compaction["last"] = {
        "verdict": verdict,
        "reason": reason,
        "strategy": draft["strategy"],
        "tokens_before": draft["tokens_before"],
        "tokens_after": draft["tokens_before"],
        "restored": restored is not None,
    }
    return {**update, "compaction": compaction}


def _restored(turn: Turn, draft: Draft) -> Step[list[AnyMessage] | None]:
    """The snapshot followed by what arrived since, where the conversation is not just that already."""
    if digest_all(turn.messages[: draft["count"]]) == draft["base_digest"]:
        return None
    original: list[BaseMessage] | None = yield from attempts.snapshot(turn, turn.draft_key)
    if original is None:
        log.error("no snapshot of attempt %s was found; the conversation is left as it is", draft["snapshot_id"])
        return None
    known = {message.id for message in original}
    arrived = [message for message in turn.messages if message.id not in known]
    return [*original, *arrived]  # type: ignore[list-item] # a snapshot holds the messages it was given


def _counted(turn: Turn, draft: Draft, finding: Finding) -> dict[str, Any]:
    """A failure changes the next attempt, and repeated ones start the cool-down (S0.47)."""
    streak = turn.compaction.get("streak", 0) + 1
    tried = [*(turn.compaction.get("tried") or []), [draft["base_digest"], draft["strategy"]]]
    counted: dict[str, Any] = {
        "streak": streak,
        "rung": after_failure(turn.ladder, draft["rung"], finding),
        "tried": tried[-REMEMBERED:],
    }
    if streak >= turn.settings.cooldown_after:
        counted["cooldown_until"] = turn.now() + turn.settings.cooldown_s
    return counted


def _decided_anew(turn: Turn) -> Step[dict[str, Any]]:
    """What this turn does, now that the draft of a run that died is gone. Nobody is asked a second time."""
    if turn.compaction.get("trigger") == "manual":
        return {"step": "selective_compaction"}
    decided = yield from check(turn, turn.size, "precheck", "model")
    return {**decided, "step": "selective_compaction"} if decided["step"] == "confirm" else decided


def _next(turn: Turn, counted: dict[str, Any]) -> str:
    """The hard zone and a person's wish go on to the next rung; else one failed attempt is enough (DESIGN §7)."""
    route = turn.compaction.get("route", "model")
    if urgent(turn):
        return "selective_compaction"
    manual = turn.compaction.get("trigger") == "manual"
    return "selective_compaction" if manual and _rung_left(turn, counted) else route


def _rung_left(turn: Turn, counted: dict[str, Any]) -> bool:
    tried, base = counted.get("tried") or [], turn.base_digest()
    left = turn.ladder[counted.get("rung", 0) :]
    return any([base, strategy(turn.settings, rung)] not in tried for rung in left)


def _tell(turn: Turn, draft: Draft, verdict: str, reason: str) -> None:
    before = draft["tokens_before"]
    counts = counts_of(draft.get("counts"))
    turn.tell(meta_event("rollback", before, before, counts, reason))
    emit(
        turn.writer,
        CompactionEvent(
            verdict=verdict,
            reason=reason,
            strategy=draft["strategy"],
            tokens_before=before,
            tokens_after=before,
            blocks_dropped=0,
            compaction_id=turn.draft_key.compaction_id,
        ),
    )
