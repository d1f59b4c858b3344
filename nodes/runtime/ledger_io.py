"""What the nodes write to SQL about an attempt. Without a thread nothing is written.

Snapshot, archive and recorded summaries are part of the transaction: their failure fails the attempt. The
ledger only tells: a row that cannot be written is logged and changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage

from langgraph_compaction.checkpoint import (
    AttemptKey,
    Outcome,
    SummaryRecord,
)
from langgraph_compaction.checkpoint.compaction.ledger import Opening
from langgraph_compaction.checkpoint.messages.message_codec import (
    digest_all,
    handle,
)

from ..conversation.clipping import told_handle
from ..conversation.transcript import MARK, marks, message_id
from ..effects import Step, querying
from ..events import log
from ..state import Draft
from .node_context import Turn
from .summarize_chunks import Written

REFUSAL = 2
"""The attempt number in a refusal's key.

An attempt that takes a rung on the same messages is 0, and one that takes ephemeral messages out of view is 1. With a
number of its own a refusal has rows of its own, whatever was tried on these messages before.
"""


def begin(turn: Turn, key: AttemptKey, *, strategy: str, trigger: str, tokens_before: int) -> Step[None]:
    """Write the snapshot, then the ledger's open row; close what earlier runs left open."""
    if turn.thread_id is None:
        return
    records, opening = turn.team.records, _opening(turn, strategy, trigger, tokens_before)
    messages: Sequence[BaseMessage] = [stored(turn, message) for message in turn.messages]
    yield from querying(records, lambda: records.begin(key, messages, now=turn.now(), **opening))
    yield from abandon(turn, keep=key)


def abandon(turn: Turn, *, keep: AttemptKey | None = None) -> Step[None]:
    """Close the rows that runs which died left open, but the one to keep."""
    if turn.thread_id is not None:
        close_open, thread = turn.team.records.abandon_open, turn.thread_id
        yield from told(turn, partial(close_open, thread, turn.namespace, keep=keep, now=turn.now()))


def note(
    turn: Turn,
    trigger: str,
    verdict: str,
    size: int,
    *,
    reason: str = "",
    key: AttemptKey | None = None,
    strategy: str = "",
) -> Step[None]:
    """Write a ledger row for something that was no attempt: refused, deferred, declined.

    Under the key of the next attempt, unless it has a `key` of its own.
    """
    if turn.thread_id is None:
        return
    key = key or turn.key(turn.base_digest(), turn.compaction.get("rung", 0), 0)
    outcome = Outcome(verdict=verdict, now=turn.now(), reason=reason)
    opening = _opening(turn, strategy, trigger, size)
    yield from told(turn, lambda: turn.team.records.note(key, outcome, **opening))


def store(turn: Turn, key: AttemptKey, message: AnyMessage) -> Step[str]:
    """Archive one message that leaves the state without a compaction (a refused one); its handle."""
    kept, archive = stored(turn, message), turn.team.records.archive
    if turn.thread_id is not None:
        names = (key.thread_id, key.namespace, key.compaction_id)
        yield from querying(turn.team.records, lambda: archive(*names, [kept], now=turn.now()))
    return handle(kept)


def recallable(turn: Turn, clip: Mapping[int, AnyMessage]) -> dict[int, AnyMessage]:
    """Shortened messages, by index, with the handles of what the archive will hold: redacted, where it is to be."""
    redaction = turn.team.redaction
    if not (redaction and redaction.store):
        return dict(clip)
    return {index: _named(turn, turn.messages[index], message) for index, message in clip.items()}


def _named(turn: Turn, original: AnyMessage, short: AnyMessage) -> AnyMessage:
    mark = marks(short)
    if "handle" not in mark or marks(original).get("clipped"):
        return short
    kwargs = {**short.additional_kwargs, MARK: {**mark, "handle": handle(stored(turn, original))}}
    named = short.model_copy(update={"additional_kwargs": kwargs})
    return told_handle(named) if turn.settings.recall and named.text != original.text else named


def as_begun(turn: Turn, draft: Draft) -> bool:
    """Whether the messages of the attempt's snapshot stand as they did."""
    return digest_all(turn.messages[: draft["count"]]) == draft["base_digest"]


def stored(turn: Turn, message: AnyMessage) -> AnyMessage:
    """The message as snapshot and archive may hold it."""
    redaction = turn.team.redaction
    return redaction.message(message) if redaction and redaction.store else message


def _told_text(turn: Turn, text: str | None) -> str | None:
    """A text as ledger and log may hold it; nothing of it where the hook fails."""
    redaction = turn.team.redaction
    if redaction is None or not text:
        return text
    try:
        return redaction.hook(text)
    except Exception:  # noqa: BLE001 - the hook is the application's own; what it did not pass is not told
        log.error("The redaction hook failed; the text is left out")  # a traceback might quote it
        return "[left out: the redaction hook failed]"


def known_summary(turn: Turn, key: AttemptKey, input_digest: str) -> Step[SummaryRecord | None]:
    """The summary that was already paid for, for the same attempt and the same input."""
    if turn.thread_id is None:
        return None
    records = turn.team.records
    return (yield from querying(records, lambda: records.find_summary(key, input_digest=input_digest)))


def keep_summary(turn: Turn, key: AttemptKey, input_digest: str, written: Written) -> Step[None]:
    """Record a summary before it is used, so that it is never paid for twice."""
    if turn.thread_id is None:
        return
    record = SummaryRecord(
        input_digest=input_digest,
        text=written.body,
        model=written.model,
        input_tokens=written.input_tokens,
        output_tokens=written.output_tokens,
        calls=written.calls,
    )
    yield from querying(turn.team.records, lambda: turn.team.records.record_summary(key, record))


def commit(turn: Turn, key: AttemptKey, outcome: Outcome, archived: Sequence[AnyMessage]) -> Step[None]:
    """Archive what leaves the view and write the verdict: both, before the state changes (invariant 9)."""
    if turn.thread_id is not None:
        leaving = [stored(turn, message) for message in archived]
        yield from querying(turn.team.records, lambda: turn.team.records.commit(key, outcome, archived=leaving))


def close(turn: Turn, key: AttemptKey, outcome: Outcome) -> Step[None]:
    """Write the verdict of an attempt that was not committed."""
    if turn.thread_id is not None:
        yield from told(turn, lambda: turn.team.records.close(key, outcome))


def recover(turn: Turn, draft: Draft, outcome: Outcome) -> Step[None]:
    """Write that an attempt died; what became of it on another branch stands."""
    if turn.thread_id is not None:
        opening = _opening(turn, draft["strategy"], draft["trigger"], draft["tokens_before"])
        yield from told(turn, lambda: turn.team.records.note(turn.draft_key, outcome, **opening))


def snapshot(turn: Turn, key: AttemptKey) -> Step[list[BaseMessage] | None]:
    """The messages the attempt began with, from SQL."""
    if turn.thread_id is None:
        return None
    return (yield from querying(turn.team.records, lambda: turn.team.records.snapshot(key)))


def originals_of(turn: Turn, messages: Sequence[AnyMessage]) -> Step[dict[str, AnyMessage]]:
    """What earlier compactions clipped of these messages, from the archive, by id."""
    thread = turn.thread_id
    clipped = {message_id(m): marks(m)["handle"] for m in messages if marks(m).get("clipped")}
    if thread is None or not clipped:
        return {}
    recall = turn.team.records.recall
    found = yield from querying(
        turn.team.records, lambda: {name: recall(thread, handle) for name, handle in clipped.items()}
    )
    return {name: cast("AnyMessage", message) for name, message in found.items() if message is not None}


def outcome_of(
    turn: Turn,
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
        now=turn.now(),
        reason=reason,
        detail=_told_text(turn, detail) or "",
        strategy=draft["strategy"],
        tokens_after=tokens_after,
        blocks_kept=counts.get("blocks_kept"),
        blocks_dropped=counts.get("blocks_dropped"),
        calls_clipped=counts.get("calls_clipped"),
        results_clipped=counts.get("results_clipped"),
        floor=draft.get("floor"),
        seen=draft.get("seen"),
        summary=_told_text(turn, summary.text) if summary is not None else None,
        model=draft.get("model"),
        summary_input_tokens=draft.get("input_tokens"),
        summary_output_tokens=draft.get("output_tokens"),
        summary_calls=draft.get("calls"),
        duration_s=max(0.0, turn.now() - draft.get("opened_at", turn.now())),
    )


def _opening(turn: Turn, strategy: str, trigger: str, tokens_before: int) -> Opening:
    return Opening(
        parent_id=turn.compaction.get("head"),
        checkpoint_id=turn.checkpoint_id,
        epoch=turn.epoch,
        trigger=trigger,
        strategy=strategy,
        tokens_before=tokens_before,
        counter=turn.counter.name,
    )


def told(turn: Turn, write: Callable[[], Any]) -> Step[None]:
    """Write to the ledger; a failure is logged and changes nothing."""
    try:
        yield from querying(turn.team.records, write)
    except Exception:  # noqa: BLE001 - the ledger only tells
        log.exception("The ledger of thread %r could not be written; the turn continues", turn.thread_id)
