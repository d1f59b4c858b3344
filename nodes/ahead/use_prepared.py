"""Use a summary that was prepared ahead, when a trigger fires.

The compaction makes exactly the prepared choice, finds the summary as one that is already paid for, and passes the
gate as any other. What was said since the preparation stays in view after it.
"""

import asyncio
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass

from langgraph_compaction.checkpoint.compaction.ledger import ABANDONED
from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all
from langgraph_compaction.checkpoint.telemetry import record

from ..compaction_request import WISHES
from ..events import PreparationEvent, emit, log
from ..gate.invariants import Finding
from ..runtime.effects import Effects, either
from ..runtime.ledger_io import settle
from ..runtime.levels import count_failure, urgent
from ..runtime.node_context import NEW_THREAD, NodeContext, Update
from ..runtime.propose_draft import choose_messages, summary_name
from ..selection.selector import Selection
from ..state import Breaker, Draft
from ..summary.fallback_chain import names_of
from .preparations import PREPARATIONS, Preparation, Prepared
from .prepare import place_of


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """What the compaction of this turn finds prepared."""

    preparation: Preparation | None = None
    """A preparation whose result may be used."""
    failed: bool = False
    """Whether the summary failed, which counts as the attempt of this turn."""
    waits: bool = False
    """Whether the turn goes on without a compaction, because the summary is not ready yet."""
    breaker: Breaker | None = None
    """The breaker, if it changed: a failed preparation counts as a failed attempt, and waiting takes time. A
    preparation that was abandoned with its event loop is no failure of the summarizer."""


def find_prepared(context: NodeContext) -> Effects[Ahead]:
    """Return what this process has prepared for this thread.

    If the summary is not ready, the turn goes on without a compaction as long as the request fits. It waits if the
    request is over the limit, or if a person asked for the compaction. A summary that is on its way is not asked for
    a second time.
    """
    compaction = context.compaction
    special = compaction.get("focus") or compaction.get("summarize_all") or compaction.get("max_messages")
    place = place_of(context)
    by_model = context.settings.summary_ahead and not context.chain[0].is_deterministic
    if place is None or special or compaction.get("trigger") == NEW_THREAD or not by_model:
        return Ahead()
    known, breaker = PREPARATIONS.find(place), None
    if known is None:
        return Ahead()
    if not known.result.done():
        if not urgent(context) and compaction.get("trigger") not in WISHES:
            emit(context.writer, PreparationEvent(state="waiting"))
            return Ahead(waits=True)
        left = max(0.0, context.settings.summary_deadline_s - (yield from _joined(context, known)))
        breaker = Breaker({**context.breaker, "seconds_left": left})
    if (found := known.found) is None:
        return Ahead(breaker=breaker)
    known.is_over = True
    if (failure := found.failure) is None:
        return Ahead(preparation=known, breaker=breaker)
    known.unused = 0
    return _failed(context, found, failure, breaker)


def _failed(context: NodeContext, found: Prepared, failure: Finding, breaker: Breaker | None) -> Ahead:
    """Tell that the summary of a preparation has failed, and count the failure if it was that of this chain."""
    told = PreparationEvent(state="failed", reason=failure.reason, compaction_id=found.compaction_id)
    emit(context.writer, told)
    if failure.verdict == ABANDONED or found.levels != names_of(context.chain):
        return Ahead(breaker=breaker)
    now = context if breaker is None else context.after({"breaker": breaker})
    counted = count_failure(now, found.base_fingerprint, found.level, failure, found.choice.name)
    return Ahead(breaker=counted, failed=True)


def _joined(context: NodeContext, known: Preparation) -> Effects[float]:
    """Wait until the summary is there, or the time for summaries is over; return the seconds that it took."""
    began = time.monotonic()
    yield from _awaited(known.result, context.settings.summary_deadline_s)
    waited = time.monotonic() - began
    found = known.found
    record("preparation.wait", waited, {"ready": found is not None and found.failure is None})
    emit(context.writer, PreparationEvent(state="joined", seconds=round(waited, 3)))
    return waited


def _awaited(result: Future[Prepared | None], seconds: float) -> Effects[None]:
    async def awaited() -> None:
        await asyncio.wait([asyncio.wrap_future(result)], timeout=seconds)

    yield from either(lambda: wait([result], timeout=seconds), awaited)


def use_prepared(context: NodeContext, draft: Draft, ahead: Ahead) -> Effects[tuple[Selection, Update] | None]:
    """Complete the draft with a prepared choice, and return what `choose_messages` returns; `None` if it is stale.

    It is stale if a message up to the last one of the choice was changed, if the choice is not allowed or does not
    fit any more, or if another summarizer is set.
    """
    known = ahead.preparation
    if known is None or (found := known.found) is None:
        return None
    trial = draft.copy()
    outcome = yield from _examined(context, trial, found)
    if isinstance(outcome, str):
        yield from settle(context, found.compaction_id, "stale", outcome)
        emit(context.writer, PreparationEvent(state="stale", reason=outcome, compaction_id=found.compaction_id))
        log.info("The prepared summary of thread %r is not used: %s", context.thread_id, outcome)
        return None
    known.unused = 0
    seconds = round(found.seconds, 3)
    emit(context.writer, PreparationEvent(state="swapped", seconds=seconds, compaction_id=found.compaction_id))
    return outcome


def _examined(context: NodeContext, draft: Draft, found: Prepared) -> Effects[tuple[Selection, Update] | str]:
    """Return the choice, with the completed draft, or why the preparation is stale."""
    if fingerprint_all(context.messages[: found.covered]) != found.fingerprint:
        return "messages_changed"
    chosen = yield from choose_messages(context, draft, found.choice)
    if isinstance(chosen, Finding) or chosen[1]["compaction"]["step"] != "summarize":
        return "does_not_fit"
    if summary_name(context, draft) != found.summary_name:
        return "changed_settings"
    draft["prepared"] = found.compaction_id
    return chosen
