"""What the nodes write to SQL about an attempt. Without a thread nothing is written.

Snapshot, archive and recorded summaries are part of the transaction: their failure fails the attempt. The
ledger only tells: a row that cannot be written is logged and changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage

from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome, SummaryRecord
from langgraph_compaction.checkpoint.compaction.ledger import Opening
from langgraph_compaction.checkpoint.messages.message_codec import (
    fingerprint_all,
    handle,
)

from ..conversation.clipping import with_recall_handle
from ..conversation.message_marks import MARK, marks
from ..conversation.transcript import message_id
from ..effects import Effects, querying
from ..events import log
from ..state import Draft
from .node_context import NodeContext
from .summarize_chunks import WrittenSummary

REFUSAL = 2
"""The attempt number in a refusal's key.

An attempt that takes a level on the same messages is 0, and one that takes ephemeral messages out of view is 1. With
a number of its own a refusal has rows of its own, whatever was tried on these messages before.
"""


def begin(context: NodeContext, key: AttemptKey, *, strategy: str, trigger: str, tokens_before: int) -> Effects[None]:
    """Write the snapshot, then the ledger's open row; close what earlier runs left open."""
    if context.thread_id is None:
        return
    records, opening = context.dependencies.records, _opening(context, strategy, trigger, tokens_before)
    messages: Sequence[BaseMessage] = [stored(context, message) for message in context.messages]
    yield from querying(records, lambda: records.begin(key, messages, now=context.now(), **opening))
    yield from abandon(context, keep=key)


def abandon(context: NodeContext, *, keep: AttemptKey | None = None) -> Effects[None]:
    """Close the rows that runs which died left open, but the one to keep."""
    if context.thread_id is not None:
        close_open, thread = context.dependencies.records.abandon_open, context.thread_id
        yield from write_ledger(context, partial(close_open, thread, context.namespace, keep=keep, now=context.now()))


def note(
    context: NodeContext,
    trigger: str,
    verdict: str,
    size: int,
    *,
    reason: str = "",
    key: AttemptKey | None = None,
    strategy: str = "",
) -> Effects[None]:
    """Write a ledger row for something that was no attempt: refused, deferred, declined.

    Under the key of the next attempt, unless it has a `key` of its own.
    """
    if context.thread_id is None:
        return
    key = key or context.key(context.base_fingerprint(), context.compaction.get("level", 0), 0)
    outcome = Outcome(verdict=verdict, now=context.now(), reason=reason)
    opening = _opening(context, strategy, trigger, size)
    yield from write_ledger(context, lambda: context.dependencies.records.note(key, outcome, **opening))


def store(context: NodeContext, key: AttemptKey, message: AnyMessage) -> Effects[str]:
    """Archive one message that leaves the state without a compaction (a refused one); its handle."""
    kept, archive = stored(context, message), context.dependencies.records.archive
    if context.thread_id is not None:
        names = (key.thread_id, key.namespace, key.compaction_id)
        yield from querying(context.dependencies.records, lambda: archive(*names, [kept], now=context.now()))
    return handle(kept)


def recallable(context: NodeContext, clip: Mapping[int, AnyMessage]) -> dict[int, AnyMessage]:
    """Shortened messages, by index, with the handles of what the archive will hold: redacted, where it is to be."""
    redaction = context.dependencies.redaction
    if not (redaction and redaction.store):
        return dict(clip)
    return {index: _named(context, context.messages[index], message) for index, message in clip.items()}


def _named(context: NodeContext, original: AnyMessage, short: AnyMessage) -> AnyMessage:
    mark = marks(short)
    if "handle" not in mark or marks(original).get("clipped"):
        return short
    kwargs = {**short.additional_kwargs, MARK: {**mark, "handle": handle(stored(context, original))}}
    named = short.model_copy(update={"additional_kwargs": kwargs})
    return with_recall_handle(named) if context.settings.recall and named.text != original.text else named


def as_begun(context: NodeContext, draft: Draft) -> bool:
    """Whether the messages of the attempt's snapshot stand as they did."""
    return fingerprint_all(context.messages[: draft["count"]]) == draft["base_fingerprint"]


def stored(context: NodeContext, message: AnyMessage) -> AnyMessage:
    """The message as snapshot and archive may hold it."""
    redaction = context.dependencies.redaction
    return redaction.message(message) if redaction and redaction.store else message


def _told_text(context: NodeContext, text: str | None) -> str | None:
    """A text as ledger and log may hold it; nothing of it where the hook fails."""
    redaction = context.dependencies.redaction
    if redaction is None or not text:
        return text
    try:
        return redaction.hook(text)
    except Exception:  # noqa: BLE001 - the hook is the application's own; what it did not pass is not told
        log.error("The redaction hook failed; the text is left out")  # a traceback might quote it
        return "[left out: the redaction hook failed]"


def known_summary(context: NodeContext, key: AttemptKey, input_digest: str) -> Effects[SummaryRecord | None]:
    """The summary that was already paid for, for the same attempt and the same input."""
    if context.thread_id is None:
        return None
    records = context.dependencies.records
    return (yield from querying(records, lambda: records.find_summary(key, input_digest=input_digest)))


def keep_summary(context: NodeContext, key: AttemptKey, input_digest: str, written: WrittenSummary) -> Effects[None]:
    """Record a summary before it is used, so that it is never paid for twice."""
    if context.thread_id is None:
        return
    record = SummaryRecord(
        input_digest=input_digest,
        text=written.body,
        model=written.model,
        input_tokens=written.input_tokens,
        output_tokens=written.output_tokens,
        calls=written.calls,
    )
    yield from querying(
        context.dependencies.records, lambda: context.dependencies.records.record_summary(key, record)
    )


def commit(context: NodeContext, key: AttemptKey, outcome: Outcome, archived: Sequence[AnyMessage]) -> Effects[None]:
    """Archive what leaves the view and write the verdict: both, before the state changes (invariant 9)."""
    if context.thread_id is not None:
        leaving = [stored(context, message) for message in archived]
        yield from querying(
            context.dependencies.records, lambda: context.dependencies.records.commit(key, outcome, archived=leaving)
        )


def close(context: NodeContext, key: AttemptKey, outcome: Outcome) -> Effects[None]:
    """Write the verdict of an attempt that was not committed."""
    if context.thread_id is not None:
        yield from write_ledger(context, lambda: context.dependencies.records.close(key, outcome))


def recover(context: NodeContext, draft: Draft, outcome: Outcome) -> Effects[None]:
    """Write that an attempt died; what became of it on another branch stands."""
    if context.thread_id is not None:
        opening = _opening(context, draft["strategy"], draft["trigger"], draft["tokens_before"])
        yield from write_ledger(
            context, lambda: context.dependencies.records.note(context.draft_key, outcome, **opening)
        )


def snapshot(context: NodeContext, key: AttemptKey) -> Effects[list[BaseMessage] | None]:
    """The messages the attempt began with, from SQL."""
    if context.thread_id is None:
        return None
    return (yield from querying(context.dependencies.records, lambda: context.dependencies.records.snapshot(key)))


def originals_of(context: NodeContext, messages: Sequence[AnyMessage]) -> Effects[dict[str, AnyMessage]]:
    """What earlier compactions clipped of these messages, from the archive, by id."""
    thread = context.thread_id
    clipped = {message_id(m): marks(m)["handle"] for m in messages if marks(m).get("clipped")}
    if thread is None or not clipped:
        return {}
    recall = context.dependencies.records.recall
    found = yield from querying(
        context.dependencies.records, lambda: {name: recall(thread, handle) for name, handle in clipped.items()}
    )
    return {name: cast("AnyMessage", message) for name, message in found.items() if message is not None}


def outcome_of(
    context: NodeContext,
    draft: Draft,
    verdict: str,
    *,
    reason: str = "",
    detail: str = "",
    tokens_after: int | None = None,
) -> Outcome:
    """The ledger's closing fields from a draft."""
    counts: Mapping[str, Any] = draft.get("counts") or {}
    summary = draft.get("summary")
    return Outcome(
        verdict=verdict,
        now=context.now(),
        reason=reason,
        detail=_told_text(context, detail) or "",
        strategy=draft["strategy"],
        tokens_after=tokens_after,
        blocks_kept=counts.get("blocks_kept"),
        blocks_dropped=counts.get("blocks_dropped"),
        calls_clipped=counts.get("calls_clipped"),
        results_clipped=counts.get("results_clipped"),
        floor=draft.get("floor"),
        seen=draft.get("seen"),
        summary=_told_text(context, summary.text) if summary is not None else None,
        model=draft.get("model"),
        summary_input_tokens=draft.get("input_tokens"),
        summary_output_tokens=draft.get("output_tokens"),
        summary_calls=draft.get("calls"),
        duration_s=max(0.0, context.now() - draft.get("opened_at", context.now())),
    )


def _opening(context: NodeContext, strategy: str, trigger: str, tokens_before: int) -> Opening:
    return Opening(
        parent_id=context.compaction.get("head"),
        checkpoint_id=context.checkpoint_id,
        epoch=context.epoch,
        trigger=trigger,
        strategy=strategy,
        tokens_before=tokens_before,
        counter=context.counter.name,
    )


def write_ledger(context: NodeContext, write: Callable[[], Any]) -> Effects[None]:
    """Write to the ledger; a failure is logged and changes nothing."""
    try:
        yield from querying(context.dependencies.records, write)
    except Exception:  # noqa: BLE001 - the ledger only tells
        log.exception("The ledger of thread %r could not be written; the turn continues", context.thread_id)
