"""Key information in a summary's message: how much room it gets, and how it is collected from its providers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable, iscoroutinefunction
from typing import Any, cast

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.messages.message_codec import handle

from ..config.settings import CompactionSettings
from ..conversation.message_marks import first_inputs, is_pinned, is_real_user
from ..effects import Effects, either
from ..events import KeyInformationEvent, emit, log
from ..gate.invariants import Finding
from ..selection.selector import Demand, Selection
from ..state import EMBEDDED
from ..summary.fallback_chain import Level
from ..summary.key_information import KeyContext, KeyInformation, fitted, key_share, ordered, original_request
from ..summary.summarizer_call import SummaryTimeoutError, abounded, bounded
from .engine import Call, needs_summary, propose
from .ledger_io import stored
from .node_context import NodeContext

Texts = Mapping[str, str]
"""Key information by name, in its order."""


Demanded = Callable[[Texts], Demand]
"""Returns the demand on a compaction whose summary carries these texts."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What leaves, the demand that it meets, and the key information for the summary's message."""

    chosen: Selection | Finding
    goal: Demand
    key_information: Texts


def bare(call: Call, messages: Sequence[AnyMessage], level: Level, demanded: Demanded) -> Proposal:
    """The choice without key information."""
    goal = demanded({})
    return Proposal(chosen=propose(call, messages, level, goal), goal=goal, key_information={})


def wants_key_information(settings: CompactionSettings, level: Level, first: Proposal) -> bool:
    """Whether a summary of what this choice drops will carry key information."""
    if isinstance(first.chosen, Finding) or level.hides or not settings.key_information:
        return False
    return needs_summary(settings, first.chosen, first.goal)


def with_key_information(
    call: Call, messages: Sequence[AnyMessage], level: Level, demanded: Demanded, *, first: Proposal, texts: Texts
) -> Proposal:
    """The choice that leaves room for these texts; `first` is the one that leaves none.

    They hold at most their share of the room, and half of what leaving everything would free. Where no choice leaves
    room for so much, they hold half of what the first choice frees: that one then still fits.
    """
    if isinstance(first.chosen, Finding):
        return first
    selector = call.selector(messages)
    least = selector.tokens(frozenset(range(len(messages))) - selector.untouchable, {})
    for left in (least, first.chosen.tokens):
        key_information = fitted(texts, _budget(call, first.goal, left), call.meter.counter)
        goal = demanded(key_information)
        chosen = propose(call, messages, level, goal) if any(key_information.values()) else first.chosen
        if not isinstance(chosen, Finding):
            return Proposal(chosen=chosen, goal=goal, key_information=key_information)
    return first


def _budget(call: Call, goal: Demand, left: int) -> int:
    """Most tokens of key information, in the counter's tokens, where `left` is what the request holds besides."""
    freed = goal.before - left - goal.summary
    return call.meter.unscaled(max(0, min(key_share(call.settings, call.sizes.room), freed // 2)))


def foreseen(call: Call, messages: Sequence[AnyMessage], level: Level, demanded: Demanded) -> Proposal:
    """What a compaction would choose, with the key information that is in the messages: goal and pins."""
    first = bare(call, messages, level, demanded)
    if not wants_key_information(call.settings, level, first):
        return first
    known = {"goal": original_request(messages), "pins": ""}
    texts = {name: known[name] for name in ordered(call.settings.key_information) if name in known}
    return with_key_information(call, messages, level, demanded, first=first, texts=texts)


def key_information(context: NodeContext) -> Effects[dict[str, str]]:
    """Collect the providers' texts for the next summary: by name, in their order, of any length."""
    names = ordered(context.settings.key_information)
    if not names:
        return {}
    given = KeyContext(
        state={**_parent(context), **context.state},
        config=context.config,
        settings=context.settings,
        store=context.runtime.store,
        goal=(yield from _goal(context)) if "goal" in names else "",
    )
    found: dict[str, str] = {}
    for name in names:
        text = yield from _collected(context, context.dependencies.key_information[name], given)
        if text or name == "pins":
            found[name] = text
    return found


def _parent(context: NodeContext) -> Mapping[str, Any]:
    """The state of the parent graph, where `as_node` runs this one."""
    given = context.config.get("configurable", {}).get(EMBEDDED)
    return cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}


def _goal(context: NodeContext) -> Effects[str]:
    """The first input: from the state, the archive or the earlier summary; else what `memory` keeps of it."""
    known, pins = context.memory.get("goal"), context.memory.get("pins") or ()
    if any(is_pinned(message, pins) for message in first_inputs(context.messages)):
        return ""  # it stays at the very front, word for word
    if not known:
        return original_request(context.messages)
    name, thread = context.memory.get("goal_handle"), context.thread_id
    if name is not None:
        here = next((m for m in context.messages if is_real_user(m) and handle(stored(context, m)) == name), None)
        try:
            archived = yield from context.query(lambda: context.records.recall(thread or "", name))
        except Exception:  # noqa: BLE001 - what is kept of it will do
            log.exception("The first input of thread %r could not be read from the archive", thread)
            archived = None
        if (first := here or archived) and first.text:
            return first.text
    return known


def _collected(context: NodeContext, provider: KeyInformation, given: KeyContext) -> Effects[str]:
    """The text of one provider, redacted; empty where the provider fails or exceeds its time."""
    seconds = context.settings.key_information_timeout_s

    def call() -> Any:
        found = provider.collect(given)
        return asyncio.run(_awaited(found)) if isawaitable(found) else found

    async def acall() -> Any:
        if iscoroutinefunction(provider.collect):
            return await abounded(lambda: cast("Any", provider.collect(given)), seconds)
        return await asyncio.to_thread(bounded, call, seconds)

    try:
        found = yield from either(lambda: bounded(call, seconds), acall)
        text = _text(found)
        redaction = context.dependencies.redaction
        return redaction.hook(text) if redaction and text else text
    except Exception as error:  # noqa: BLE001 - a compaction goes on without it
        reason = "timeout" if isinstance(error, SummaryTimeoutError) else type(error).__name__
        log.warning("A provider failed: the key information %r is left out (%s)", provider.name, reason)
        emit(context.writer, KeyInformationEvent(name=provider.name, reason=reason))
        return ""


def _text(found: Any) -> str:
    if not isinstance(found, str | None):
        raise TypeError(f"collect returned a {type(found).__name__}, not a text or None")
    return found or ""


async def _awaited(found: Any) -> Any:
    return await found
