"""`confirm`: ask a person before a compaction, by LangGraph's interrupt."""

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

from langgraph.types import interrupt

from .config.prompts import Language
from .errors import ContextExhaustedError
from .events import log
from .gate.invariants import Finding
from .runtime.collect_key_information import foreseen
from .runtime.effects import Effects
from .runtime.finish_attempt import failure, finish_attempt
from .runtime.ledger_io import note
from .runtime.levels import at_level, untried_level
from .runtime.node_context import NEW_THREAD, NodeContext, Update
from .selection.selector import Demand
from .state import FOCUS_CHARACTERS
from .text.quoting import clip

Way = Literal["compact", "drop_oldest", "new_thread", "raise"]

QUESTIONS: Mapping[Language, tuple[str, str]] = {
    "en": (
        "Compact the conversation?",
        "The conversation is over the limit. It does not fit without a compaction. How shall it go on?",
    ),
    "zh": ("是否压缩当前对话？", "对话已超出上限，不压缩就无法发送。要如何继续？"),
}
"""By language, the question in the soft zone and the question over the limit."""

WAYS: tuple[Way, ...] = get_args(Way)
"""The answers among which a person chooses if the conversation is over the limit."""


def confirm(context: NodeContext) -> Effects[Update]:
    """Ask a person; go on to the compaction if the person accepts, else follow the stored route.

    The answer is "approve" or `True`, "reject" or `False`, or a mapping `{"accept": bool, "focus": text}`. Any other
    answer declines. If the request is over the limit, the answers are those that `ways` returns, and any other counts
    as "raise".
    """
    if context.compaction.get("awaiting_choice"):
        return (yield from _choose(context))
    accepted, focus = understood(interrupt(question(context)))
    if accepted:
        return {"compaction": {"step": "selective_compaction", "focus": focus, "declined_at": None}}
    return (yield from _declined(context, {"declined_at": context.size}))


def _choose(context: NodeContext) -> Effects[Update]:
    """Ask how a conversation over the limit goes on; do not ask if it fits because messages were deleted."""
    if room_made(context):
        return {"compaction": {"step": context.compaction.get("route", "model")}}
    way, focus = chosen(interrupt(last_question(context)), ways(context))
    on = {"step": "selective_compaction", "awaiting_choice": 0}
    if way == "compact":
        return {"compaction": {**on, "focus": focus, "declined_at": None}}
    if way == "drop_oldest":
        return {"compaction": {**on, **at_level(context, len(context.fallback_chain) - 1), "declined_at": None}}
    if way == "new_thread":
        return {"compaction": {**on, "trigger": NEW_THREAD, "summarize_all": True}}
    if context.dependencies.embedded:
        raise ContextExhaustedError(by_hand(context))  # no later node of this graph could raise
    return (yield from _declined(context, {}, "raise"))


def _declined(context: NodeContext, changed: dict[str, Any], reason: str = "") -> Effects[Update]:
    """Follow the stored route: to the end, or to the node `model`, which raises if the request is over the limit."""
    yield from note(context, context.compaction.get("trigger", "precheck"), "declined", context.size, reason=reason)
    route, size = context.compaction.get("route", "model"), context.size
    last = finish_attempt(context, "declined", reason=reason, before=size, after=size)
    return {"compaction": {**changed, "step": route, "last": last}}


def room_made(context: NodeContext) -> bool:
    """Whether messages were deleted since the question was asked, so that the request fits.

    The whole request is counted: the usage that the provider reported still includes the deleted messages.
    """
    size = context.meter.request(context.messages)
    return size <= context.sizes.limit and size < context.compaction.get("awaiting_choice", 0)


def by_hand(context: NodeContext) -> str:
    """Return the error's text if a person chose "raise" for a conversation over the limit."""
    return (
        f"the request holds {context.size} tokens and the limit is {context.sizes.limit}; it was not sent and "
        "nothing was compacted, as was chosen. Delete messages with update_state, then go on with invoke(None); or "
        "call CompactionThread.compact()"
    )


def ways(context: NodeContext) -> tuple[Way, ...]:
    """Return the answers to offer, without "new_thread" in a parent graph, whose run cannot be ended from here."""
    return tuple(way for way in WAYS if way != "new_thread" or not context.dependencies.embedded)


def question(context: NodeContext) -> dict[str, Any]:
    """Return what the interrupt shows: sizes now, the number of messages to remove, and the size afterwards.

    `max_tokens` is the window, `limit` the part of it that a request may fill. `language` is that of the question.
    """
    return {
        "question": QUESTIONS[context.settings.language][0],
        "language": context.settings.language,
        "answers": ["approve", "reject", {"accept": True, "focus": "what to keep above all"}],
        **_sizes(context),
    }


def last_question(context: NodeContext) -> dict[str, Any]:
    """Return what the interrupt shows for a conversation over the limit: sizes, and the answers to choose from."""
    return {
        "question": QUESTIONS[context.settings.language][1],
        "language": context.settings.language,
        "answers": list(ways(context)),
        **_sizes(context),
    }


def _sizes(context: NodeContext) -> dict[str, Any]:
    sizes = {"current_tokens": context.size, "max_tokens": context.sizes.window, "limit": context.sizes.limit}
    try:
        return {**sizes, **_foreseen(context)}
    except Exception as error:  # noqa: BLE001 - an application's strategy or redaction may fail, or the database
        log.warning("The question does not say what would be removed (%s)", failure(error, "confirm").reason)
        return sizes


def _foreseen(context: NodeContext) -> dict[str, int]:
    """Return what the next attempt would remove and leave; empty if no attempt is left or it can remove nothing."""
    index = untried_level(context, context.base_fingerprint())
    if index is None:
        return {}
    before, level = context.meter.request(context.messages), context.fallback_chain[index]

    def demanded(texts: Mapping[str, str]) -> Demand:
        return context.demand(before, level, texts)

    proposal = foreseen(context.call, context.messages, level, demanded)
    chosen = proposal.chosen
    if isinstance(chosen, Finding):
        return {}
    leaving = {"messages_leaving": len(chosen.drop), "messages_clipped": len(chosen.clip)}
    return {**leaving, "tokens_after_about": chosen.tokens + proposal.goal.summary}


def understood(answer: Any) -> tuple[bool, str | None]:
    """Return the answer as (accepted, focus); an answer that does not accept counts as declining."""
    if isinstance(answer, Mapping):
        given = cast("Mapping[str, Any]", answer)
        focus = given.get("focus")
        kept = clip(str(focus), FOCUS_CHARACTERS) if focus else None
        return _accepts(given.get("accept", focus is not None)), kept
    return _accepts(answer), None


def _accepts(answer: Any) -> bool:
    return answer is True or (isinstance(answer, str) and answer.strip().lower() == "approve")


def chosen(answer: Any, offered: tuple[Way, ...]) -> tuple[Way, str | None]:
    """Return the chosen way to go on, one of `offered`, and what the summary must keep (or `None`).

    Accepting means "compact"; an answer that was not offered means "raise".
    """
    accepted, focus = understood(answer)
    said = "compact" if accepted else str(answer).strip().lower()
    way: Way = offered[offered.index(said)] if said in offered else "raise"
    return way, focus if accepted else None
