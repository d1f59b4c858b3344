"""`rollback`: drop the draft, so that the view before stands, and choose the next step."""

from typing import Any

from .compaction_request import WISHES
from .events import NO_COUNTS, log
from .gate.invariants import Finding
from .runtime import ledger_io
from .runtime.effects import Effects
from .runtime.finish_attempt import finish_attempt, outcome_of, window_before
from .runtime.levels import count_failure, draft_level, keeps_everything, over, untried_level, urgent
from .runtime.node_context import NodeContext, Update
from .runtime.trigger_and_warning import check
from .state import Breaker, Draft

NO_FAILURE = frozenset({"recovered", "stale"})
"""Verdicts that change neither the level nor the number of failures."""

CHANGED_LEVELS = Finding("recovered", "changed_settings")
"""The end of an attempt whose run goes on with another summarizer, by its settings or its model."""


def rollback(context: NodeContext) -> Effects[Update]:
    """Close the attempt and drop the draft; the view stays the one before.

    A draft without a failure was left open by a run that died; its verdict is `recovered`.
    """
    draft = context.draft.copy()
    draft["window"] = window_before(context, draft)
    found = Finding(*(draft.get("failure") or ["recovered", "interrupted_run"]))
    if draft_level(context) is None:
        found = CHANGED_LEVELS
    verdict, reason, detail = found.verdict, found.reason, found.detail
    outcome = outcome_of(context, draft, verdict, reason=reason, detail=detail)
    log.warning("Rolled back a compaction (压缩失败，已回滚): %s: %s %s", verdict, reason, outcome.detail[:200])
    if verdict == "recovered":
        yield from ledger_io.recover(context, draft, outcome)
    else:
        yield from ledger_io.close(context, context.draft_key, outcome)
    if "prepared" in draft and verdict != "recovered":
        yield from ledger_io.settle(context, draft["prepared"], verdict, reason)
    last = _finished(context, draft, found)
    if verdict == "recovered":
        return {"compaction": {"draft": None, **(yield from _decided_anew(context)), "last": last}}
    breaker, base, names = context.breaker, draft["base_fingerprint"], draft.get("selected", "")
    if verdict not in NO_FAILURE:
        breaker = count_failure(context, base, draft["level"], found, names)
    if (left := draft.get("seconds_left")) is not None:
        breaker = Breaker({**breaker, "seconds_left": left})
    step = _next(context, breaker)
    if step != "selective_compaction":
        breaker = over(breaker)  # a later compaction has its own time
    return {"compaction": {"draft": None, "breaker": breaker, "step": step, "last": last}}


def _decided_anew(context: NodeContext) -> Effects[dict[str, Any]]:
    """Return the keys of the next step once a dead run's draft is dropped; a person is not asked again."""
    if context.compaction.get("trigger") in WISHES:
        return {"step": "selective_compaction"}
    decided = yield from check(context, context.size, "precheck", "model")
    return {**decided, "step": "selective_compaction"} if decided["step"] == "confirm" else decided


def _next(context: NodeContext, breaker: Breaker) -> str:
    """Return the step after a failure: another level if urgent or requested by a person, else the stored route.

    If the settings leave everything as it is after a failed summary, the next strategy follows where the policy says
    so, and else the stored route.
    """
    route = context.compaction.get("route", "model")
    if urgent(context):
        return "selective_compaction"
    if keeps_everything(context):
        return "selective_compaction" if breaker.get("failed") else route
    wish = context.compaction.get("trigger") in WISHES
    left = untried_level(context.after({"breaker": breaker}), context.base_fingerprint()) is not None
    return "selective_compaction" if wish and left else route


def _finished(context: NodeContext, draft: Draft, found: Finding) -> dict[str, Any]:
    before = draft["tokens_before"]
    context.tell("rollback", before, before, draft.get("counts", NO_COUNTS), found.reason)
    return finish_attempt(
        context,
        found.verdict,
        reason=found.reason,
        before=before,
        after=before,
        draft=draft,
        compaction_id=context.draft_key.compaction_id,
        detail=found.detail,
    )
