"""`confirm`: ask a person before a compaction, by LangGraph's interrupt."""

from collections.abc import Mapping, Sequence
from functools import partial
from textwrap import indent
from typing import Any, Literal, cast, get_args

from langchain_core.messages import AnyMessage
from langgraph.types import interrupt

from .config.prompts import Language
from .errors import ContextExhaustedError
from .events import log
from .gate.invariants import Finding
from .runtime.collect_key_information import Choosing
from .runtime.effects import Effects
from .runtime.finish_attempt import beginnings, failure, finish_attempt
from .runtime.ledger_io import note
from .runtime.levels import at_level, untried_level
from .runtime.node_context import NEW_THREAD, NodeContext, Update
from .runtime.summarize_chunks import expected_summary
from .runtime.window_usage import WindowUsage, bars, legend
from .state import FOCUS_CHARACTERS
from .text.quoting import clip

Way = Literal["compact", "drop_oldest", "new_thread", "raise"]

ACTION = "compact_conversation"
"""Name of the action that a person approves, edits or rejects."""

QUESTIONS: Mapping[Language, tuple[str, str]] = {
    "en": (
        "Compact the conversation?",
        "The conversation is over the limit. It does not fit without a compaction. How shall it go on?",
    ),
    "zh": ("是否压缩当前对话？", "对话已超出上限，不压缩就无法发送。要如何继续？"),
}
"""By language, the question in the soft zone and the question over the limit."""
_NOW: Mapping[Language, str] = {
    "en": "The request holds {current_tokens:,} tokens. A compaction starts at {trigger:,}, the limit is {limit:,}.",
    "zh": "当前请求 {current_tokens:,} tokens，触发线 {trigger:,}，上限 {limit:,}。",
}
_THEN: Mapping[Language, str] = {
    "en": (
        "{messages_leaving} messages would leave the model's view, {messages_clipped} would be shortened, and about "
        "{tokens_after_about:,} tokens would be left. The chat keeps all messages. To leave:"
    ),
    "zh": (
        "将有 {messages_leaving} 条消息移出模型视野，{messages_clipped} 条被截短，之后约剩 {tokens_after_about:,} "
        "tokens。聊天记录完整保留。将移出："
    ),
}
_EDIT: Mapping[Language, str] = {
    "en": "Edit `focus` to say what the summary must keep above all.",
    "zh": "编辑 `focus` 可说明摘要须优先保留的内容。",
}
_INSTEAD: Mapping[Language, str] = {
    "en": "Or edit `instead`: {}. To reject sends nothing and raises an error.",
    "zh": "或编辑 `instead`：{}。拒绝则不发送并报错。",
}
SHOWN_LEAVING, SHOWN_CHARACTERS = 8, 80
"""How many of the messages that would leave the description shows, and how much of each."""
BAR_WIDTH = 60
"""Characters of the bars of the window in the description."""

WAYS: tuple[Way, ...] = get_args(Way)
"""The answers among which a person chooses if the conversation is over the limit."""


def confirm(context: NodeContext) -> Effects[Update]:
    """Ask a person; go on to the compaction if the person accepts, else follow the stored route.

    The answer has the form of LangChain's human-in-the-loop: `{"decisions": [{"type": "approve"}]}`, "reject", or
    "edit" with the `focus`. "approve" or `True` is short for the first; any other answer declines. If the request is
    over the limit, `instead` of the edited arguments, or the answer itself, is one of those that `ways` returns, and
    any other counts as "raise".
    """
    if context.compaction.get("awaiting_choice"):
        return (yield from _choose(context))
    accepted, focus, _ = understood(interrupt(question(context)))
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
        return {"compaction": {**on, "breaker": at_level(context, len(context.chain) - 1), "declined_at": None}}
    if way == "new_thread":
        return {"compaction": {**on, "trigger": NEW_THREAD, "summarize_all": True}}
    if context.dependencies.embedded:
        raise ContextExhaustedError(by_hand(context))  # no later node of this graph could raise
    return (yield from _declined(context, {}, "raise"))


def _declined(context: NodeContext, changed: dict[str, Any], reason: str = "") -> Effects[Update]:
    """Follow the stored route: to the end, or to the node `model`, which raises if the request is over the limit."""
    yield from note(context, context.compaction.get("trigger", "precheck"), "declined", context.size, reason=reason)
    route, size = context.compaction.get("route", "model"), context.size
    last = finish_attempt(
        context, "declined", reason=reason, before=size, after=size, trigger=context.compaction.get("trigger")
    )
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
    """Return what the interrupt shows in the form of LangChain's human-in-the-loop, and the sizes beside it.

    `max_tokens` is the window, `limit` the part of it that a request may fill, and `trigger` the size at which a
    compaction starts. `language` is that of the question.
    """
    return _asked(context, QUESTIONS[context.settings.language][0], ())


def last_question(context: NodeContext) -> dict[str, Any]:
    """Return what the interrupt shows for a conversation over the limit: also the ways among which to choose."""
    return _asked(context, QUESTIONS[context.settings.language][1], ways(context))


def _asked(context: NodeContext, asked: str, offered: Sequence[Way]) -> dict[str, Any]:
    language, (sizes, lines, usages) = context.settings.language, _sizes(context)
    filled = "\n".join([*bars(usages, BAR_WIDTH), *legend(usages, language)])
    described = [asked, _NOW[language].format_map(sizes), indent(filled, "    ")]  # a code block
    if lines:
        described += [_THEN[language].format_map(sizes), "\n".join(lines)]
    described.append(_EDIT[language])
    if offered:
        described.append(_INSTEAD[language].format(", ".join(offered)))
    arguments = {"focus": "", **({"instead": ""} if offered else {})}
    properties: dict[str, Any] = {"focus": {"type": "string", "maxLength": FOCUS_CHARACTERS}}
    if offered:
        properties["instead"] = {"enum": ["", *offered]}
    schema = {"type": "object", "properties": properties}
    decisions = ["approve", "edit", "reject"]
    return {
        "action_requests": [{"name": ACTION, "args": arguments, "description": "\n\n".join(described)}],
        "review_configs": [{"action_name": ACTION, "allowed_decisions": decisions, "args_schema": schema}],
        "question": asked,
        "answers": list(offered) or ["approve", "reject"],
        "language": context.settings.language,
        **sizes,
    }


def _sizes(context: NodeContext) -> tuple[dict[str, Any], list[str], list[WindowUsage]]:
    """Return the sizes now and then, the beginnings of the messages that would leave, and what fills the window."""
    usages = [context.usage_of(context.messages, context.size)]
    known, size = context.sizes, context.size
    sizes = {"current_tokens": size, "max_tokens": known.window, "trigger": known.trigger, "limit": known.limit}
    try:
        foreseen_sizes, leaving, after = _foreseen(context)
        shown = beginnings(context, leaving, SHOWN_LEAVING, SHOWN_CHARACTERS)
        return {**sizes, **foreseen_sizes}, [f"- {line}" for line in shown], usages + after
    except Exception as error:  # noqa: BLE001 - an application's strategy or redaction may fail, or the database
        log.warning("The question does not say what would be removed (%s)", failure(error, "confirm").reason)
        return sizes, [], usages


def _foreseen(context: NodeContext) -> tuple[dict[str, int], list[AnyMessage], list[WindowUsage]]:
    """Return what the next attempt would leave and remove; empty if no attempt is left or it can remove nothing."""
    index = untried_level(context, context.base_fingerprint())
    if index is None:
        return {}, [], []
    before, level = context.meter.request(context.messages), context.chain[index]
    proposal = Choosing(context.call, context.messages, level, partial(context.demand, before, level)).foreseen()
    chosen = proposal.chosen
    if isinstance(chosen, Finding):
        return {}, [], []
    summary = expected_summary(context.call, level, context.messages, proposal.goal, chosen)
    left = chosen.applied(context.messages)
    tokens = chosen.tokens + summary
    counts = {"messages_leaving": len(chosen.drop), "messages_clipped": len(chosen.clip)}
    leaving = [context.messages[index] for index in sorted(chosen.drop)]
    after = context.usage_of(left, tokens, summary=summary)
    return {**counts, "tokens_after_about": tokens}, leaving, [after]


def understood(answer: Any) -> tuple[bool, str | None, str]:
    """Return the answer as (accepted, focus, instead); an answer that does not accept counts as declining."""
    if answer is True or (isinstance(answer, str) and answer.strip().lower() == "approve"):
        return True, None, ""
    match answer:
        case {"decisions": [{"type": "approve"}, *_]}:
            return True, None, ""
        case {"decisions": [{"type": "edit", "edited_action": {"args": Mapping() as given}}, *_]}:
            arguments = cast("Mapping[str, Any]", given)
            focus, instead = arguments.get("focus"), str(arguments.get("instead") or "").strip().lower()
            return True, clip(str(focus), FOCUS_CHARACTERS) if focus else None, instead
        case _:
            return False, None, str(answer).strip().lower() if isinstance(answer, str) else ""


def chosen(answer: Any, offered: tuple[Way, ...]) -> tuple[Way, str | None]:
    """Return the chosen way to go on, one of `offered`, and what the summary must keep (or `None`).

    Accepting means "compact"; an answer that was not offered means "raise".
    """
    accepted, focus, instead = understood(answer)
    said = instead or ("compact" if accepted else "raise")
    way: Way = offered[offered.index(said)] if said in offered else "raise"
    return way, focus if accepted else None
