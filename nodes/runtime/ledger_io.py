"""The nodes' reads and writes of an attempt's records in SQL.

Snapshot, archive and recorded summaries are part of the transaction: if one cannot be written, the attempt fails.
The ledger only reports: if a row cannot be written, the error is logged and nothing else changes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage

from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome
from langgraph_compaction.checkpoint.compaction.ledger import Opening
from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all, handle

from ..conversation.clipping import with_recall_handle
from ..conversation.message_marks import marks, with_mark
from ..events import log
from ..state import Draft
from .effects import Effects
from .node_context import NodeContext

EPHEMERAL, REFUSAL = 1, 2
"""Attempt numbers in the keys of two kinds of rows that belong to no level: the removal of ephemeral messages, and
the refusal of an input.

Attempts at a level have the number 0, so for the same messages all three get different rows.
"""


def begin(context: NodeContext, key: AttemptKey, *, strategy: str, trigger: str, tokens_before: int) -> Effects[None]:
    """Write the snapshot and the open ledger row; close the rows that dead runs left open."""
    opening = opening_of(context, strategy, trigger, tokens_before)
    messages: Sequence[BaseMessage] = [stored(context, message) for message in context.messages]
    yield from context.query(lambda: context.records.begin(key, messages, now=context.now(), **opening))
    yield from abandon(context, keep=key)


def abandon(context: NodeContext, *, keep: AttemptKey | None = None) -> Effects[None]:
    """Close the ledger rows that dead runs left open, except the row with the key `keep`."""
    thread, now = context.thread_id or "", context.now()
    yield from write_ledger(
        context, lambda: context.records.abandon_open(thread, context.namespace, keep=keep, now=now)
    )


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
    """Write a ledger row for a compaction that was not begun: it was refused, deferred or declined.

    By default the row has the key that the next attempt would have.
    """
    level = context.breaker.get("level", 0)
    key = key or context.key(context.base_fingerprint(), level, context.attempt_in_epoch(0))
    outcome = Outcome(verdict=verdict, now=context.now(), reason=reason)
    opening = opening_of(context, strategy, trigger, size)
    yield from write_ledger(context, lambda: context.records.note(key, outcome, **opening))


def store(context: NodeContext, key: AttemptKey, messages: Sequence[AnyMessage]) -> Effects[list[str]]:
    """Archive messages that are replaced without a compaction (refused messages); return their handles."""
    kept: Sequence[BaseMessage] = [stored(context, message) for message in messages]
    names = (key.thread_id, key.namespace, key.compaction_id)
    yield from context.query(lambda: context.records.archive(*names, kept, now=context.now()))
    return [handle(message) for message in kept]


def recallable(context: NodeContext, clip: Mapping[int, AnyMessage]) -> dict[int, AnyMessage]:
    """Return shortened messages, by index, with the handles that their originals will have in the archive.

    A handle is a hash of the stored message, so the handle changes if the archive is redacted.
    """
    redaction = context.dependencies.redaction
    if not (redaction and redaction.store):
        return dict(clip)
    return {index: _named(context, context.messages[index], message) for index, message in clip.items()}


def _named(context: NodeContext, original: AnyMessage, short: AnyMessage) -> AnyMessage:
    mark = marks(short)
    if "handle" not in mark or marks(original).get("clipped"):
        return short
    named = with_mark(short, {**mark, "handle": handle(stored(context, original))})
    return with_recall_handle(named) if context.settings.has_recall_tool and named.text != original.text else named


def as_begun(context: NodeContext, draft: Draft) -> bool:
    """Whether the conversation still begins with exactly the messages of the draft's snapshot."""
    return fingerprint_all(context.messages[: draft["count"]]) == draft["base_fingerprint"]


def stored(context: NodeContext, message: AnyMessage) -> AnyMessage:
    """Return the message in the form for snapshot and archive, redacted if the settings ask for that."""
    redaction = context.dependencies.redaction
    return redaction.message(message) if redaction and redaction.store else message


def commit(
    context: NodeContext,
    key: AttemptKey,
    outcome: Outcome,
    archived: Sequence[AnyMessage],
    *,
    prepared: str | None = None,
) -> Effects[None]:
    """Archive removed and shortened messages and write the verdict, in one transaction, before the state changes.

    `prepared` is the id of the preparation whose summary is used.
    """
    leaving = [stored(context, message) for message in archived]
    yield from context.query(lambda: context.records.commit(key, outcome, archived=leaving, used=prepared))


def close(context: NodeContext, key: AttemptKey, outcome: Outcome) -> Effects[None]:
    """Write the verdict of an attempt that was not committed."""
    yield from write_ledger(context, lambda: context.records.close(key, outcome))


def settle(context: NodeContext, preparation: str, verdict: str, reason: str) -> Effects[None]:
    """Write into the ledger why a prepared summary is not used."""
    thread = context.thread_id or ""
    yield from write_ledger(
        context,
        lambda: context.records.settle_preparation(thread, preparation, verdict=verdict, reason=reason),
    )


def recover(context: NodeContext, draft: Draft, outcome: Outcome) -> Effects[None]:
    """Write the verdict `recovered` for an attempt whose run died, unless another branch gave it a verdict."""
    opening = opening_of(context, draft["strategy"], draft["trigger"], draft["tokens_before"])
    yield from write_ledger(context, lambda: context.records.note(context.draft_key, outcome, **opening))


def opening_of(context: NodeContext, strategy: str, trigger: str, tokens_before: int) -> Opening:
    """Return the facts that the ledger holds about an attempt when it begins."""
    return Opening(
        parent_id=context.compaction.get("head"),
        checkpoint_id=checkpoint_of(context),
        epoch=context.epoch,
        trigger=trigger,
        strategy=strategy,
        tokens_before=tokens_before,
        counter=context.counter.name,
    )


def checkpoint_of(context: NodeContext) -> str | None:
    """Return the id of the checkpoint from which this node started."""
    info = context.runtime.execution_info
    return info.checkpoint_id or None if info else None


def write_ledger(context: NodeContext, write: Callable[[], Any]) -> Effects[None]:
    """Write to the ledger; a failure is logged and changes nothing."""
    try:
        yield from context.query(write)
    except Exception:  # noqa: BLE001 - the ledger only reports
        log.exception("The ledger of thread %r could not be written; the turn continues", context.thread_id)
