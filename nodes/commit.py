"""`commit`: check the draft against the messages as they are now, then make it the view."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.messages.message_codec import fingerprint

from .compaction_request import REQUEST, Memory
from .conversation.message_marks import is_summary
from .conversation.transcript import Transcript, message_id
from .conversation.view import View, hidden_count, unarchived
from .events import NO_COUNTS, committed_events, emit, log
from .gate.invariants import Finding
from .runtime import ledger_io
from .runtime.effects import Effects
from .runtime.engine import judge
from .runtime.finish_attempt import failed, failure, finish_attempt, outcome_of
from .runtime.levels import draft_level
from .runtime.node_context import NEW_THREAD, NodeContext, Update
from .runtime.propose_draft import view_of
from .runtime.trigger_and_warning import counted_anew
from .selection.breaker import COMPACTIONS
from .state import Breaker, Draft, moved
from .summary.fallback_chain import verdict_of

MOST_COMPACTED = 1_000
"""Number of threads of a process that are remembered, to warn where a graph around the compaction forgets it."""
GOAL_CHARACTERS = 300
"""Maximum number of characters of the user's first input that the state stores as the goal."""


def commit(context: NodeContext) -> Effects[Update]:
    """Make the draft the view if the gate accepts the result; otherwise make `rollback` the next step.

    Messages that arrived after the snapshot are seen after it. The hidden and shortened messages are archived before
    the state changes.
    """
    draft = context.draft.copy()
    if draft_level(context) is None:
        return {"compaction": {"step": "rollback"}}
    try:
        stale = yield from _stale(context, draft)
    except Exception as error:  # noqa: BLE001 - a failure becomes a verdict
        stale = failure(error, "snapshot")
    if stale:
        return failed(draft, stale)
    view = view_of(context, draft, draft.get("summary"))
    after = context.seen_in(view)
    ceiling, floor = draft.get("ceiling", context.sizes.limit), draft.get("floor", 0)
    if finding := judge(context.call, context.messages, after, ceiling=ceiling, floor=floor):
        if not ledger_io.as_begun(context, draft):  # another writer's messages: no failure of the draft's level
            finding = Finding("stale", "messages_changed", f"{finding.reason} {finding.detail}".strip())
        return failed(draft, finding)
    draft["drop"] = [*unarchived(context.view), *draft["drop"]]
    if "seen" not in draft:
        summaries = {message_id(message) for message in context.messages if is_summary(message)}
        draft["seen"] = {"not_seen": [name for name in draft["drop"] if name not in summaries]}
    size = context.meter.request(after)
    usages = context.usage_of(context.messages, draft["tokens_before"]), context.usage_of(after, size)
    draft["window"] = [*map(asdict, usages)]
    if draft["trigger"] == NEW_THREAD:
        return (yield from _handed_over(context, draft, after, _goal(context)))
    verdict = verdict_of(context.chain, draft["level"])
    outcome = outcome_of(context, draft, verdict, tokens_after=size)
    try:
        leaving = _leaving(context, draft)
        yield from ledger_io.commit(context, context.draft_key, outcome, leaving, prepared=draft.get("prepared"))
    except Exception as error:  # noqa: BLE001 - what is not archived must not leave the view
        return failed(draft, failure(error, "archive"))
    log.info(
        "Committed a compaction: %d -> %d tokens (%s, %s)", draft["tokens_before"], size, draft["strategy"], verdict
    )
    _tell(context, draft, size, len(after), outcome.summary)
    return _committed(context, draft, size, verdict, view)


def _tell(context: NodeContext, draft: Draft, size: int, count: int, summary: str | None) -> None:
    """Emit the events of a commit; `summary` is the redacted text that the ledger holds."""
    if draft.get("summary") is not None:
        context.tell("summary_done", draft["tokens_selected"], size, draft.get("counts", NO_COUNTS), "success")
    for event in committed_events(draft["trigger"], draft["tokens_before"], size, count, summary):
        emit(context.writer, event)


def _stale(context: NodeContext, draft: Draft) -> Effects[Finding | None]:
    """Return a finding if a message that the draft names was changed or removed since the snapshot."""
    if ledger_io.as_begun(context, draft):
        return None
    key, records = context.draft_key, context.records
    original = (yield from context.query(lambda: records.snapshot(key))) or []
    before = {message.id: fingerprint(message) for message in original}
    now = {message.id: fingerprint(ledger_io.stored(context, message)) for message in context.messages}
    named = [*draft["drop"], *draft["clip"]]
    changed = [name for name in named if name not in now or before.get(name) != now[name]]
    return Finding("stale", "messages_changed", ", ".join(changed[:5])) if changed else None


def _leaving(context: NodeContext, draft: Draft) -> list[AnyMessage]:
    """Return the messages that the draft drops or clips, as the model sees them until now."""
    named, silent = {*draft["drop"], *draft["clip"]}, set(unarchived(context.view))
    unseen = [message for message in context.conversation if message.id in silent]
    return [*unseen, *(message for message in context.messages if message_id(message) in named)]


def _committed(context: NodeContext, draft: Draft, size: int, verdict: str, view: View) -> Update:
    source = context.draft_key.compaction_id
    last = finish_attempt(
        context,
        verdict,
        reason="success",
        before=draft["tokens_before"],
        after=size,
        draft=draft,
        compaction_id=source,
        blocks_dropped=draft.get("counts", NO_COUNTS)["blocks_dropped"],
        level=draft["level"],
        floor=draft.get("floor", 0),
    )
    compaction: dict[str, Any] = {
        "step": context.compaction.get("route", "model"),
        "epoch": context.epoch + 1,
        "draft": None,
        "focus": None,
        "usage": None,
        **counted_anew(context.compaction),
        "breaker": Breaker(
            recent=[*context.breaker.get("recent", ()), context.compaction.get("calls", 0)][-COMPACTIONS:]
        ),
        "sizes": {
            "trigger": context.call.sizes.trigger,
            "limit": context.call.sizes.limit,
            **({"fixed": fixed} if (fixed := context.meter.overhead) else {}),
        },
        "declined_at": None,
        "warned": False,
        "held": False,
        "head": source,
        "last": last,
    }
    if context.compaction.get("in_vain") is not None:
        compaction["in_vain"] = None
    if not context.owns_list and len(context.dependencies.compacted) < MOST_COMPACTED:
        context.dependencies.compacted.add((context.thread_id, context.namespace))
    return {"compaction": {**compaction, **_goal(context)}, **_moving(context, view)}


def _moving(context: NodeContext, view: View) -> Update:
    """Return the update with the new view, by which hidden messages leave the state if it holds too many of them.

    Without a thread that is kept, the caller alone has the messages, and none leaves.
    """
    most, kept = context.settings.messages_in_state, context.thread_id is not None and bool(context.saver)
    if most is None or not kept or not context.owns_list or hidden_count(view) <= most:
        return {"compaction_view": view}
    return moved(context.conversation, view, keep=most // 2)


def _handed_over(context: NodeContext, draft: Draft, after: Sequence[AnyMessage], goal: Memory) -> Effects[Update]:
    """End the run and store the accepted result as input for a new thread, in `compaction["handoff"]`.

    The conversation of this thread does not change. `after` holds the first messages of the new thread: system
    messages, the summary with pins, and the unanswered round.
    """
    size, kept = context.meter.request(after), {message.id for message in after}
    outcome = outcome_of(context, draft, "declined", reason=NEW_THREAD, tokens_after=size)
    yield from ledger_io.close(context, context.draft_key, outcome)
    known: Memory = {"goal": context.compaction["goal"]} if "goal" in context.compaction else {}
    summary, rest = draft.get("summary"), [message for message in after if not is_summary(message)]
    memory: dict[str, Any] = {
        **known,
        **goal,
        "pins": [name for name in context.compaction.get("pins") or () if name in kept],
    }
    if summary is not None:
        memory["summary"] = summary
    last = finish_attempt(
        context, "declined", reason=NEW_THREAD, before=draft["tokens_before"], after=size, draft=draft
    )
    return {
        "compaction": {
            "step": "end",
            "route": "end",
            "draft": None,
            "focus": None,
            "handoff": {"messages": rest, REQUEST: {"memory": memory}},
            "last": last,
        }
    }


def _goal(context: NodeContext) -> Memory:
    """Return the beginning of the user's first input; empty if the state has them already."""
    starts = [] if context.compaction.get("goal") else Transcript(context.messages).round_starts
    if not starts:
        return {}
    first = context.messages[starts[0]]
    return {"goal": first.text[:GOAL_CHARACTERS]}
