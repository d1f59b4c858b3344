"""`summarize`: have the old part summarised; the result waits in the draft for the gate (S0.5, S0.26)."""

from hashlib import blake2b
from typing import Any

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint import AttemptKey, digest_all

from .attempts import keep_summary, known_summary
from .engine import Written, counts_of, demand, rungs, summarise, summary_budget
from .events import emit, meta_event
from .policies.summary import summary_message
from .policies.transcript import message_id
from .state import Draft
from .steps import Step
from .summarizers import Summarizer
from .turn import Turn, Update, log


def summarize(turn: Turn) -> Step[Update]:
    """Write the summary into the draft, or what went wrong; never raises for a summariser's failure."""
    draft = turn.draft.copy()
    rung = rungs(turn.team.summarizer)[draft["rung"]]
    log.info("执行 LLM Summary (%s)", draft["strategy"])
    _meta(turn, draft, "summary_start", draft["tokens_selected"], "always_run")
    try:
        written = yield from _written(turn, draft, rung)
    except Exception as error:  # noqa: BLE001 - S0.22: a failure becomes a verdict
        draft["failure"] = ["failed_permanent", f"summarize:{type(error).__name__}", str(error)[:500]]
        return {"compaction": {"step": "rollback", "draft": draft}}
    draft["calls"], draft["model"] = written.calls, written.model
    draft["input_tokens"], draft["output_tokens"] = written.input_tokens, written.output_tokens
    if written.finding is not None:
        found = written.finding
        draft["failure"] = [found.verdict, found.reason, found.detail]
        return {"compaction": {"step": "rollback", "draft": draft}}
    summary = summary_message(written.body, turn.draft_key.compaction_id, written.record)
    draft["summary"], draft["seen"] = summary, dict(written.seen)
    after = draft["tokens_selected"] + turn.meter.scaled(turn.counter.message(summary))
    _meta(turn, draft, "summary_done", after, "success")
    return {"compaction": {"step": "commit", "draft": draft}}


def _written(turn: Turn, draft: Draft, rung: Summarizer) -> Step[Written]:
    gone = set(draft["drop"])
    drop = frozenset(i for i, message in enumerate(turn.messages) if message_id(message) in gone)
    focus, key = turn.compaction.get("focus"), turn.draft_key
    paid = not getattr(rung, "whole", False)
    name = _input_digest([turn.messages[index] for index in sorted(drop)], draft["strategy"], focus)
    if paid and (known := (yield from _known(turn, key, name))) is not None:
        return known
    goal = demand(turn.call, trigger=draft["trigger"], before=draft["tokens_before"], last=_is_last(turn, draft))
    written = yield from summarise(
        turn.call,
        rung,
        turn.messages,
        drop,
        budget=summary_budget(turn.call, draft["tokens_selected"], goal),
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
    log.info("the summary of attempt %s was recorded before; it is not asked for again", key.compaction_id)
    return Written(
        body=found.text,
        calls=found.calls,
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        model=found.model,
    )


def _input_digest(old: list[AnyMessage], strategy: str, focus: str | None) -> str:
    return blake2b(f"{digest_all(old)}|{strategy}|{focus}".encode(), digest_size=16).hexdigest()


def _is_last(turn: Turn, draft: Draft) -> bool:
    return draft["rung"] == len(rungs(turn.team.summarizer)) - 1


def _meta(turn: Turn, draft: Draft, phase: Any, after: int, reason: str) -> None:
    if turn.settings.emit_compaction_meta_events:
        counts = counts_of(draft.get("counts"))
        emit(turn.writer, meta_event(phase, draft["tokens_selected"], after, counts, reason))
