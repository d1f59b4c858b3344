"""`summarize`: write the summary of the messages to be removed or shortened into the draft."""

from dataclasses import replace
from typing import Any

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, SummaryRecord

from .config.prompts import is_tagged
from .conversation.message_marks import is_clipped
from .conversation.transcript import message_id
from .digest.listed_sentences import NOTHING_LISTED, ListedSentences, split_list
from .events import NO_COUNTS, CompactingEvent, emit, log
from .runtime.effects import Effects
from .runtime.engine import (
    demand,
    fitted_summary,
    has_space,
    shortened_blocks,
    summary_budget,
    summary_parts,
)
from .runtime.finish_attempt import failed, failure
from .runtime.levels import draft_level
from .runtime.node_context import NodeContext, Update, rendered_request
from .runtime.propose_draft import dropped, summary_name, view_of
from .runtime.sections import summarize_by_sections
from .runtime.summarize_chunks import TimeLeft, Work, WrittenSummary, seen_of
from .state import Draft
from .summary.fallback_chain import Level
from .summary.summarizers import is_asked_behind
from .summary.summary_message import SummaryParts


def summarize(context: NodeContext) -> Effects[Update]:
    """Write the summary into the draft, or hand the draft to `rollback`; a summarizer's failure never raises."""
    draft = context.draft.copy()
    if (level := draft_level(context)) is None:
        return {"compaction": {"step": "rollback"}}
    size = draft["tokens_selected"]
    context.tell("summary_start", size, size, draft.get("counts", NO_COUNTS), "always_run")
    try:
        extra = _summary_parts(context, draft)
        time = TimeLeft(draft.get("seconds_left", context.settings.summary_deadline_s), context.now)
        written = yield from _written(context, draft, level, extra, time)
    except Exception as error:  # noqa: BLE001 - a failure becomes a verdict
        return failed(draft, failure(error, "summarize"))
    draft["seconds_left"] = time.left()
    draft["usage"], draft["model"] = written.usage.named(), written.model
    if written.finding is not None:
        return failed(draft, written.finding)
    body = written.body
    if not level.is_deterministic:
        body, extra = _fitted(context, draft, written, extra)
    summary = extra.message(body, context.draft_key.compaction_id, written.record)
    draft["summary"], draft["seen"] = summary, _seen(written, draft)
    return {"compaction": {"step": "commit", "draft": draft}}


def _seen(written: WrittenSummary, draft: Draft) -> dict[str, Any]:
    """Return what the summarizer read, with the messages that stay, shortened, apart from those that are removed."""
    full, cut, gone = written.seen.get("full", ()), written.seen.get("cut", {}), set(draft["drop"])
    seen: dict[str, Any] = {
        "full": [name for name in full if name in gone],
        "cut": {name: sizes for name, sizes in cut.items() if name in gone},
    }
    kept = [name for name in (*full, *cut) if name not in gone]
    return {**seen, "shortened": kept} if kept else seen


def is_paid(context: NodeContext) -> Effects[bool]:
    """Whether a dead run's draft has a recorded summary, already paid for, and the request fits with it."""
    draft = context.draft
    if draft_level(context) is None:
        return False
    try:
        known = yield from _known(context, context.draft_key, summary_name(context, draft))
    except Exception:  # noqa: BLE001 - a draft whose records cannot be read is dropped
        log.exception(
            "The recorded summaries of thread %r could not be read; its open draft is dropped", context.thread_id
        )
        return False
    if draft["failure"] or known is None:
        return False
    body, parts = _fitted(context, draft, known, _summary_parts(context, draft))
    summary = parts.message(body, context.draft_key.compaction_id)
    after = context.seen_in(view_of(context, draft, summary))
    return context.meter.request(after) <= draft.get("ceiling", context.sizes.limit)


def _fitted(
    context: NodeContext, draft: Draft, written: WrittenSummary, extra: SummaryParts
) -> tuple[str, SummaryParts]:
    """Return a model's summary, cut at the end of a sentence if it is a little too long, and the parts beside it.

    The sentences that the model listed are among the parts if there is space for them beside the whole summary.
    """
    tokens, ceiling = draft["tokens_selected"], draft.get("ceiling", context.sizes.limit)
    body = fitted_summary(context.call, written.body, tokens=tokens, ceiling=ceiling, extra=extra)
    if written.listed:
        wider = _summary_parts(context, draft, written.listed)
        if has_space(context.call, body, tokens=tokens, ceiling=ceiling, extra=wider):
            return body, wider
    return body, extra


def _summary_parts(context: NodeContext, draft: Draft, listed: ListedSentences = NOTHING_LISTED) -> SummaryParts:
    return summary_parts(
        context.call,
        context.chain[draft["level"]],
        context.messages,
        dropped(context, draft),
        clip=draft["clip"],
        tokens=draft["tokens_selected"],
        ceiling=draft.get("ceiling", context.sizes.limit),
        key_information=draft.get("key_information"),
        listed=listed,
    )


def _written(
    context: NodeContext, draft: Draft, level: Level, extra: SummaryParts, time: TimeLeft
) -> Effects[WrittenSummary]:
    key, call = context.draft_key, context.call
    drop = dropped(context, draft)
    goal = demand(call, trigger=draft["trigger"], before=draft["tokens_before"], last=level.hides)
    ceiling = draft.get("ceiling", goal.ceiling)
    shortened = (
        frozenset[int]() if level.is_deterministic else shortened_blocks(context.messages, drop, draft["clip"])
    )
    names = {message_id(context.messages[index]) for index in drop | shortened if is_clipped(context.messages[index])}
    originals = {message_id(message): message for message in context.conversation if message.id in names}
    work = Work(
        call=call,
        level=level,
        messages=context.messages,
        drop=drop,
        shortened=shortened,
        budget=summary_budget(call, level, goal, tokens=draft["tokens_selected"], ceiling=ceiling, extra=extra),
        originals=originals,
        focus=context.compaction.get("focus"),
        callbacks=context.config.get("callbacks"),
        configurable=context.configurable,
        sections=_sections(context, draft),
        clip=draft["clip"],
        time=time,
        behind=() if originals or shortened else _own_request(context, level),
    )
    if level.is_deterministic:
        return (yield from summarize_by_sections(work))
    name = summary_name(context, draft)
    if (known := (yield from _known(context, key, name))) is not None:
        log.info("Using the recorded summary of attempt %s; no model is called", key.compaction_id)
        return replace(known, seen=seen_of(work.parts()))
    log.info("Running the LLM summary (执行 LLM Summary): %s", draft["strategy"])
    before, limit = draft["tokens_before"], context.sizes.limit
    emit(context.writer, CompactingEvent(current_tokens=before, messages=len(drop), limit=limit))
    written = yield from summarize_by_sections(work)
    if written.finding is None:
        record = _record(name, written)  # before its use, so that a repeated attempt does not pay for it again
        yield from context.query(lambda: context.records.record_summary(key, record))
    return written


def _own_request(context: NodeContext, level: Level) -> tuple[AnyMessage, ...]:
    """Return the agent's own request, behind which its model can be asked for a summary between tags.

    It is empty for another summarizer, and where the summarizer is shown another text than the agent's model.
    """
    settings, dependencies = context.settings, context.dependencies
    cut = dependencies.redaction or dependencies.summary_input or settings.policy.input_guard
    if cut or settings.join_user_messages or not is_asked_behind(level.summarizer) or not is_tagged(settings.prompt):
        return ()
    return tuple(rendered_request(context))


def _known(context: NodeContext, key: AttemptKey, name: str) -> Effects[WrittenSummary | None]:
    """Return the summary recorded for this attempt and this input, which is already paid for; `None` without one."""
    found = yield from context.query(lambda: context.records.find_summary(key, input_digest=name))
    if found is None:
        return None
    return WrittenSummary(
        body=found.text,
        listed=split_list(found.listed)[1],
        usage=found.usage,
        model=found.model,
    )


def _record(name: str, written: WrittenSummary) -> SummaryRecord:
    return SummaryRecord(
        input_digest=name,
        text=written.body,
        model=written.model,
        usage=written.usage,
        listed=written.listed.written(),
    )


def _sections(context: NodeContext, draft: Draft) -> tuple[frozenset[int], ...]:
    place = {message_id(message): index for index, message in enumerate(context.messages)}
    return tuple(frozenset(place[name] for name in part if name in place) for part in draft.get("sections", ()))
