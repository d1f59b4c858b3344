"""The end of an attempt: one event, and the same figures for the state."""

from typing import Any

from ..events import CompactionEvent, cost_of, emit
from ..state import Draft
from .node_context import NodeContext


def finish_attempt(
    context: NodeContext,
    verdict: str,
    *,
    reason: str = "",
    strategy: str = "",
    before: int,
    after: int,
    draft: Draft | None = None,
    compaction_id: str | None = None,
    blocks_dropped: int = 0,
    **more: Any,
) -> dict[str, Any]:
    """Emit the `CompactionEvent` of an attempt that ended with this verdict; return its `compaction["last"]`.

    `before` and `after` are tokens of the request before and after the attempt, `compaction_id` the id of its ledger
    row. With a `draft` the cost of its summary is reported. `more` goes into the state only.
    """
    known: dict[str, Any] = {
        "verdict": verdict,
        "reason": reason,
        "strategy": strategy or (draft["strategy"] if draft else ""),
        "tokens_before": before,
        "tokens_after": after,
        "tokens_remaining": max(0, context.sizes.limit - after),
        **cost_of(draft or {}),
    }
    emit(context.writer, CompactionEvent(**known, blocks_dropped=blocks_dropped, compaction_id=compaction_id))
    last = {**known, "id": compaction_id, **more}
    return {name: value for name, value in last.items() if value not in (None, "")}  # the channel is small
