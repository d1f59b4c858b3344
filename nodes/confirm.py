"""`confirm`: a person is asked before a compaction, by LangGraph's interrupt (S4.23)."""

from collections.abc import Mapping
from typing import Any, cast

from langgraph.types import interrupt

from .attempts import note
from .engine import demand, propose
from .policies.gate import Finding
from .steps import Step
from .turn import Turn, Update


def confirm(turn: Turn) -> Step[Update]:
    """Ask; go on to the compaction, or along the stored route where it is declined.

    The answer is `True`/"accept", `False`/"decline", or a mapping `{"accept": bool, "focus": text}`.
    """
    answer = interrupt(question(turn))
    accepted, focus = understood(answer)
    if accepted:
        return {"compaction": {"step": "selective_compaction", "focus": focus}}
    yield from note(turn, turn.compaction.get("trigger", "precheck"), "declined", turn.size)
    route = turn.compaction.get("route", "model")
    return {"compaction": {"step": route, "declined_at": turn.size, "last": {"verdict": "declined"}}}


def question(turn: Turn) -> dict[str, Any]:
    """What the person is told: sizes now, what would go, and about how much would be left."""
    trigger = turn.compaction.get("trigger", "precheck")
    pins = turn.call.pinned_texts(turn.messages)
    before = turn.meter.request(turn.messages)
    goal = demand(turn.call, trigger=trigger, before=before, last=False, pins=pins)
    chosen = propose(turn.call, turn.messages, turn.ladder[0], goal)
    asked: dict[str, Any] = {
        "question": "Compact the conversation?",
        "current_tokens": turn.size,
        "max_tokens": turn.sizes.limit,
        "answers": ["accept", "decline", {"accept": True, "focus": "what to keep above all"}],
    }
    if not isinstance(chosen, Finding):
        asked["messages_leaving"] = len(chosen.drop)
        asked["messages_clipped"] = len(chosen.clip)
        asked["tokens_after_about"] = chosen.tokens + goal.summary
    return asked


def understood(answer: Any) -> tuple[bool, str | None]:
    """The answer as (accepted, focus); anything that does not clearly accept declines."""
    if isinstance(answer, Mapping):
        given = cast("Mapping[str, Any]", answer)
        focus = given.get("focus")
        return bool(given.get("accept", focus is not None)), focus
    return answer is True or str(answer).strip().lower() in {"accept", "yes", "y", "true"}, None
