"""Use a summary that was prepared ahead, when a trigger fires.

The compaction makes exactly the prepared choice, finds the summary as one that is already paid for, and passes the
gate as any other. What was said since the preparation stays in view after it.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.compaction.ledger import ABANDONED
from langgraph_compaction.checkpoint.compaction.prepared import STALE, Preparation
from langgraph_compaction.checkpoint.db.owner import owner
from langgraph_compaction.checkpoint.messages.message_codec import fingerprint, loads
from langgraph_compaction.checkpoint.telemetry import record

from ..compaction_request import WISHES
from ..conversation.transcript import message_id
from ..events import PreparationEvent, emit, log
from ..gate.invariants import Finding
from ..runtime.effects import Effects, either
from ..runtime.ledger_io import known_summary, settle
from ..runtime.levels import count_failure, names, urgent
from ..runtime.node_context import NEW_THREAD, NodeContext, Update
from ..runtime.propose_draft import choose_messages, summary_name
from ..selection.selector import Choice, Selection
from ..state import Draft
from .preparations import Place, is_working_on
from .prepare import place_of

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.2
"""Shortest and longest pause between two looks at a preparation that a turn waits for."""


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """What the compaction of this turn finds prepared."""

    preparation: Preparation | None = None
    """A preparation that may be used."""
    waited_s: float = 0.0
    """Seconds that this turn has waited for the preparation."""
    waits: bool = False
    """Whether the turn goes on without a compaction, because the summary is not ready yet."""
    changed: Update = field(default_factory=dict[str, Any])
    """Keys of the channel `compaction`: a failed preparation counts as a failed attempt, and waiting takes time. A
    preparation that was abandoned with its event loop is no failure of the summarizer."""


def find_prepared(context: NodeContext) -> Effects[Ahead]:
    """Return what is prepared for this thread.

    If the summary is not ready, the turn goes on without a compaction as long as the request fits. It waits if the
    request is over the limit, or if a person asked for the compaction. A summary that is on its way is not asked for
    a second time.
    """
    compaction = context.compaction
    special = compaction.get("focus") or compaction.get("summarize_all") or compaction.get("max_messages")
    place = place_of(context)
    by_model = context.settings.summary_ahead and not context.fallback_chain[0].is_deterministic
    if place is None or special or compaction.get("trigger") == NEW_THREAD or not by_model:
        return Ahead()
    found, changed, waited = (yield from _read(context, place)), Update(), 0.0
    is_worked_on = False
    if found is not None and found.is_under_way:
        found, is_worked_on = yield from _looked(context, place, found)
    if found is not None and is_worked_on:
        if not urgent(context) and compaction.get("trigger") not in WISHES:
            emit(context.writer, PreparationEvent(state="waiting", compaction_id=found.compaction_id))
            return Ahead(waits=True)
        found, waited = yield from _joined(context, place, found)
        changed["seconds_left"] = max(0.0, context.settings.summary_deadline_s - waited)
    if found is None or not found.has_failed:
        return Ahead(preparation=found, waited_s=waited, changed=changed)
    yield from settle(context, found.compaction_id, found.verdict, found.reason)
    told = PreparationEvent(state="failed", reason=found.reason, compaction_id=found.compaction_id)
    emit(context.writer, told)
    if found.verdict != ABANDONED and found.body["levels"] == names(context):
        changed |= count_failure(context, found.body["base"], found.body["level"], Finding(*found.body["failure"]))
    return Ahead(changed=changed)


def _read(context: NodeContext, place: Place) -> Effects[Preparation | None]:
    """Return the stored preparation; `None` if it cannot be read, because a compaction can do without it."""
    try:
        return (yield from context.query(lambda: context.records.preparation(*place)))
    except Exception:  # noqa: BLE001 - the compaction goes on without the preparation
        log.exception("The prepared summary of thread %r could not be read", context.thread_id)
        return None


def _looked(context: NodeContext, place: Place, before: Preparation) -> Effects[tuple[Preparation | None, bool]]:
    """Return a preparation as it is now, and whether somebody still works on it.

    It is read after the look at its worker, so that a result is not missed. While this process works on it, it is not
    read.
    """
    if before.owner == owner() and is_working_on(before.compaction_id):
        return before, True
    now = yield from _read(context, place)
    if now is None or not now.is_under_way:
        return now, False
    return now, is_working_on(now.compaction_id) if now.owner == owner() else now.may_end(context.now())


def _joined(context: NodeContext, place: Place, found: Preparation) -> Effects[tuple[Preparation | None, float]]:
    """Wait until the summary is there or cannot be expected any more; return it, and the seconds that it took."""
    began, pause, left = time.monotonic(), _FIRST_PAUSE_S, context.settings.summary_deadline_s
    now: Preparation | None = found
    is_worked_on = True
    while now is not None and is_worked_on and time.monotonic() - began < left:
        yield from _slept(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)
        now, is_worked_on = yield from _looked(context, place, now)
    waited = time.monotonic() - began
    ready = now is not None and not now.is_under_way and not now.has_failed
    record("preparation.wait", waited, {"ready": ready})
    emit(
        context.writer,
        PreparationEvent(state="joined", seconds=round(waited, 3), compaction_id=found.compaction_id),
    )
    return now, waited


def _slept(seconds: float) -> Effects[None]:
    yield from either(lambda: time.sleep(seconds), lambda: asyncio.sleep(seconds))


def use_prepared(context: NodeContext, draft: Draft, ahead: Ahead) -> Effects[tuple[Selection, Update] | None]:
    """Complete the draft with a prepared choice, and return what `choose_messages` returns; `None` if it is stale.

    It is stale if a message that it removes was changed, if the choice is not allowed or does not fit any more, or if
    another summarizer is set.
    """
    if (found := ahead.preparation) is None:
        return None
    trial = draft.copy()
    outcome = yield from _examined(context, trial, found)
    if isinstance(outcome, str):
        verdict = ABANDONED if found.is_under_way else STALE
        yield from settle(context, found.compaction_id, verdict, outcome)
        emit(context.writer, PreparationEvent(state="stale", reason=outcome, compaction_id=found.compaction_id))
        log.info("The prepared summary of thread %r is not used: %s", context.thread_id, outcome)
        return None
    seconds = None if found.duration_s is None else round(max(0.0, found.duration_s - ahead.waited_s), 3)
    emit(context.writer, PreparationEvent(state="swapped", seconds=seconds, compaction_id=found.compaction_id))
    return outcome


def _examined(context: NodeContext, draft: Draft, found: Preparation) -> Effects[tuple[Selection, Update] | str]:
    """Return the choice, with the completed draft, or why the preparation is stale."""
    body, level = found.body, context.fallback_chain[draft["level"]]
    if (body["levels"], body["level"]) != (names(context), draft["level"]) or level.is_deterministic:
        return "changed_settings"
    choice = _choice(context.messages, body)
    chosen = None if choice is None else (yield from choose_messages(context, draft, choice))
    if isinstance(chosen, Finding) or (chosen and chosen[1]["compaction"]["step"] != "summarize"):
        return "does_not_fit"
    if choice is None or chosen is None or summary_name(context, draft) != body["name"]:
        return "messages_changed"
    key = context.key(draft["base_fingerprint"], draft["level"], draft["attempt"])
    if (yield from known_summary(context, key, body["name"])) is None:
        return "no_summary"
    draft["prepared"] = found.compaction_id
    return chosen


def _choice(messages: Sequence[AnyMessage], body: Mapping[str, Any]) -> Choice | None:
    """Return a stored choice by the present positions; `None` if a message of it is gone or was changed."""
    place = {message_id(message): index for index, message in enumerate(messages)}
    clip: dict[int, AnyMessage] = {}
    for name, (known, short) in body["clip"].items():
        if name not in place or fingerprint(messages[place[name]]) != known:
            return None
        clip[place[name]] = cast("AnyMessage", loads(short))
    with suppress(KeyError):
        return Choice(
            drop=frozenset(place[name] for name in body["drop"]),
            clip=clip,
            floor=body["floor"],
            summarize=body["summarize"],
            sections=tuple(frozenset(place[name] for name in part) for part in body["sections"]),
            name=body["strategies"],
        )
    return None
