"""`rollback`: drop the draft, restore the snapshot if the conversation differs from it, choose the next step."""

from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage

from .compaction_request import WISHES
from .events import emit, log, meta_event, replaced_event
from .gate.invariants import Finding
from .runtime import ledger_io
from .runtime.effects import Effects
from .runtime.engine import counts_of
from .runtime.finish_attempt import failure, finish_attempt, outcome_of
from .runtime.levels import count_failure, draft_level, keeps_everything, untried_level, urgent
from .runtime.node_context import NodeContext, Update
from .runtime.trigger_and_warning import check
from .state import Draft, replace

NO_FAILURE = frozenset({"recovered", "stale"})
"""Verdicts that change neither the level nor the number of failures."""

CHANGED_LEVELS = Finding("recovered", "changed_settings")
"""The end of an attempt whose run goes on with another summarizer, by its settings or its model."""


def rollback(context: NodeContext) -> Effects[Update]:
    """Close the attempt. Afterwards the conversation is the exact snapshot plus the messages that arrived since.

    A draft without a failure was left open by a run that died; its verdict is `recovered`. If the snapshot is
    needed but cannot be read, the draft stays open, the turn goes on, and the next check tries again.
    """
    draft = context.draft
    found = Finding(*(draft.get("failure") or ["recovered", "interrupted_run"]))
    if draft_level(context) is None:
        found = CHANGED_LEVELS
    verdict, reason, detail = found.verdict, found.reason, found.detail
    update: Update = {}
    try:
        restored = None if verdict == "stale" else (yield from _restored(context, draft))
    except Exception as error:  # noqa: BLE001 - a failure becomes a verdict
        return (yield from _put_off(context, draft, failure(error, "restore")))
    if restored is not None:
        update["messages"] = replace(restored)
        emit(context.writer, replaced_event(len(restored)))
        context = context.with_state(messages=restored)
    outcome = outcome_of(context, draft, verdict, reason=reason, detail=detail)
    log.warning("Rolled back a compaction (压缩失败，已回滚): %s: %s %s", verdict, reason, outcome.detail[:200])
    if verdict == "recovered":
        yield from ledger_io.recover(context, draft, outcome)
    else:
        yield from ledger_io.close(context, context.draft_key, outcome)
    if "prepared" in draft and verdict != "recovered":
        yield from ledger_io.settle(context, draft["prepared"], verdict, reason)
    last = _finished(context, draft, found, restored=restored is not None)
    compaction: dict[str, Any] = {"draft": None}
    if verdict not in NO_FAILURE:
        compaction |= count_failure(context, draft["base_fingerprint"], draft["level"], found)
    if verdict == "recovered":
        compaction |= yield from _decided_anew(context)
    else:
        compaction["seconds_left"] = draft.get("seconds_left")
        compaction["step"] = _next(context, compaction)
        if compaction["step"] != "selective_compaction":
            compaction["seconds_left"] = None  # a later compaction has its own time
    compaction["last"] = last
    return {**update, "compaction": compaction}


def _put_off(context: NodeContext, draft: Draft, found: Finding) -> Effects[Update]:
    """Leave the draft open and mark it as `unrestored`, because the snapshot cannot be read; the turn goes on.

    The failure stays in the draft and is counted when a later check closes the draft. The ledger row of a run that
    died stays open as well, because the attempt may get its verdict on another branch of the thread.
    """
    log.error(
        "The snapshot of attempt %s cannot be read (%s); the next check tries again",
        draft["snapshot_id"],
        found.reason,
    )
    if draft["failure"]:
        outcome = outcome_of(context, draft, found.verdict, reason=found.reason, detail=found.detail)
        yield from ledger_io.close(context, context.draft_key, outcome)
    last = _finished(context, draft, found, restored=False)
    left: Draft = {**draft, "unrestored": True}
    route = context.compaction.get("route", "model")
    return {"compaction": {"draft": left, "step": route, "last": last}}


def _restored(context: NodeContext, draft: Draft) -> Effects[list[AnyMessage] | None]:
    """Return the snapshot plus later messages; `None` if the conversation already equals them.

    Raises the error of reading the snapshot, after the database's own retries.
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


def _decided_anew(context: NodeContext) -> Effects[dict[str, Any]]:
    """Return the keys of the next step once a dead run's draft is dropped; a person is not asked again."""
    if context.compaction.get("trigger") in WISHES:
        return {"step": "selective_compaction"}
    decided = yield from check(context, context.size, "precheck", "model")
    return {**decided, "step": "selective_compaction"} if decided["step"] == "confirm" else decided


def _next(context: NodeContext, counted: dict[str, Any]) -> str:
    """Return the step after a failure: another level if urgent or requested by a person, else the stored route.

    The stored route also follows if the settings leave everything as it is after a failed summary.
    """
    route = context.compaction.get("route", "model")
    if urgent(context):
        return "selective_compaction"
    if keeps_everything(context):
        return route
    wish = context.compaction.get("trigger") in WISHES
    left = untried_level(context.after(counted), context.base_fingerprint()) is not None
    return "selective_compaction" if wish and left else route


def _finished(context: NodeContext, draft: Draft, found: Finding, *, restored: bool) -> dict[str, Any]:
    """Emit the rollback's events; `restored` says whether the snapshot replaced the conversation."""
    before = draft["tokens_before"]
    context.tell(meta_event("rollback", before, before, counts_of(draft.get("counts")), found.reason))
    return finish_attempt(
        context,
        found.verdict,
        reason=found.reason,
        before=before,
        after=before,
        draft=draft,
        compaction_id=context.draft_key.compaction_id,
        detail=found.detail,
        restored=restored,
    )
