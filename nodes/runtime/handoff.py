"""The input for the thread that a person opens instead of compacting this one."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from ..compaction_request import REQUEST, Memory
from ..effects import Effects
from ..state import Draft
from . import ledger_io
from .finish_attempt import finish_attempt
from .node_context import NEW_THREAD, NodeContext, Update


def handed_over(
    context: NodeContext, draft: Draft, after: Sequence[AnyMessage], goal: Memory | None
) -> Effects[Update]:
    """End the run with a proved draft as `compaction["handoff"]`; the conversation here stays as it is.

    `after` is what the new thread begins with: header, summary with pins, and the round that has no answer yet.
    """
    size, kept = context.meter.request(after), {message.id for message in after}
    outcome = ledger_io.outcome_of(context, draft, "declined", reason=NEW_THREAD, tokens_after=size)
    yield from ledger_io.close(context, context.draft_key, outcome)
    pins = [name for name in context.memory.get("pins") or () if name in kept]
    memory: dict[str, Any] = {**context.memory, **(goal or {}), "pins": pins}
    last = finish_attempt(
        context, "declined", reason=NEW_THREAD, before=draft["tokens_before"], after=size, draft=draft
    )
    return {
        "compaction": {
            "step": "end",
            "route": "end",
            "draft": None,
            "focus": None,
            "handoff": {"messages": list(after), REQUEST: {"memory": memory}},
            "last": last,
        }
    }
