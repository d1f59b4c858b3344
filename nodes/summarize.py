"""`summarize`: have the old part summarised; the result waits in the draft for the gate (S0.5, S0.26)."""

from dataclasses import replace
from hashlib import blake2b
from typing import Any

from langgraph_compaction.checkpoint import AttemptKey, digest_all

from .attempts import keep_summary, known_summary, originals_of
from .engine import (
    Written,
    applied_to,
    counts_of,
    demand,
    is_deterministic,
    rungs,
    shown,
    summarise,
    summary_budget,
)
from .events import log, meta_event
from .policies.gate import Finding
from .policies.summary import summary_message
from .policies.transcript import message_id
from .state import Draft
from .steps import Step
from .summarizers import Summarizer
from .turn import Turn, Update, failed


def summarize(turn: Turn) -> Step[Update]:
    """Write the summary into the draft, or what went wrong; never raises for a summariser's failure."""
    draft = turn.draft.copy()
    rung = rungs(turn.team.summarizer)[draft["rung"]]
    log.info("执行 LLM Summary (%s)", draft["strategy"])
    _meta(turn, draft, "summary_start", draft["tokens_selected"], "always_run")
    try:
        written = yield from _written(turn, draft, rung)
    except Exception as error:  # noqa: BLE001 - S0.22: a failure becomes a verdict
        return failed(draft, Finding("failed_permanent", f"summarize:{type(error).__name__}", str(error)[:500]))
    draft["calls"], draft["model"] = written.calls, written.model
    draft["input_tokens"], draft["output_tokens"] = written.input_tokens, written.output_tokens
    if written.finding is not None:
        return failed(draft, written.finding)
    summary = summary_message(written.body, turn.draft_key.compaction_id, written.record)
    draft["summary"], draft["seen"] = summary, dict(written.seen)
    after = draft["tokens_selected"] + turn.meter.scaled(turn.counter.message(summary))
    _meta(turn, draft, "summary_done", after, "success")
    return {"compaction": {"step": "commit", "draft": draft}}


def is_paid(turn: Turn) -> Step[bool]:
    """Whether the summary of the open draft was recorded before its run died, and the draft still fits with it."""
    draft = turn.draft
    try:
        known = yield from _known(turn, turn.draft_key, _input(turn, draft)[1])
    except Exception:  # noqa: BLE001 - a draft whose records cannot be read is dropped
        log.exception("the summaries of thread %r could not be read", turn.thread_id)
        return False
    if draft["failure"] or known is None:
        return False
    summary = summary_message(known.body, turn.draft_key.compaction_id)
    after = applied_to(turn.messages, drop=draft["drop"], clip=draft["clip"], summary=summary)
    return turn.meter.request(after) <= draft.get("ceiling", turn.sizes.limit)


def _written(turn: Turn, draft: Draft, rung: Summarizer) -> Step[Written]:
    focus, key = turn.compaction.get("focus"), turn.draft_key
    paid = not is_deterministic(rung)
    drop, name = _input(turn, draft)
    if paid and (known := (yield from _known(turn, key, name))) is not None:
        log.info("the summary of attempt %s was recorded before; it is not asked for again", key.compaction_id)
        return replace(known, seen=shown(turn.call, rung, turn.messages, drop))
    goal = demand(turn.call, trigger=draft["trigger"], before=draft["tokens_before"], last=_is_last(turn, draft))
    originals = yield from originals_of(turn, [turn.messages[index] for index in drop])
    written = yield from summarise(
        turn.call,
        rung,
        turn.messages,
        drop,
        budget=summary_budget(
            turn.call, rung, goal, tokens=draft["tokens_selected"], ceiling=draft.get("ceiling", goal.ceiling)
        ),
        originals=originals,
        focus=focus,
        callbacks=turn.callbacks,
    )
    if paid and written.finding is None:
        yield from keep_summary(turn, key, name, written)
    return written


def _known(turn: Turn, key: AttemptKey, name: str) -> Step[Written | None]:
    found = yield from known_summary(turn, key, name)
    if found is None:
        return None
    return Written(
        body=found.text,
        calls=found.calls,
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        model=found.model,
    )


def _input(turn: Turn, draft: Draft) -> tuple[frozenset[int], str]:
    """Indexes of the messages that leave, and the name under which their summary is recorded."""
    gone = set(draft["drop"])
    drop = [index for index, message in enumerate(turn.messages) if message_id(message) in gone]
    old = digest_all([turn.messages[index] for index in drop])
    name = f"{old}|{draft['strategy']}|{turn.compaction.get('focus')}"
    return frozenset(drop), blake2b(name.encode(), digest_size=16).hexdigest()


def _is_last(turn: Turn, draft: Draft) -> bool:
    return draft["rung"] == len(rungs(turn.team.summarizer)) - 1


def _meta(turn: Turn, draft: Draft, phase: Any, after: int, reason: str) -> None:
    turn.tell(meta_event(phase, draft["tokens_selected"], after, counts_of(draft.get("counts")), reason))
