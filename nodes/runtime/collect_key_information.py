"""Key information in a summary's message: its budget in tokens, and how it is collected from its providers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable, iscoroutinefunction
from typing import Any, cast

from langchain_core.messages import AnyMessage

from ..conversation.message_marks import first_inputs, is_pinned, is_real_user
from ..events import KeyInformationEvent, emit, log
from ..gate.invariants import Finding
from ..selection.selector import Choice, Demand, Selection, Selector
from ..summary.fallback_chain import Level
from ..summary.key_information import KeyContext, KeyInformation, fitted, key_share, ordered, original_request
from .effects import Effects, either
from .engine import Call, needs_summary, propose
from .node_context import NodeContext
from .summarizer_call import SummaryTimeoutError, abounded, bounded

Texts = Mapping[str, str]
"""Texts of key information by name, in the order of the summary's message."""

TIMEOUT_S = 5.0
"""Seconds after which a summary is written without the text of a source."""


Demanded = Callable[[Texts], Demand]
"""Function that returns the sizes which a compaction's result must have if its summary contains these texts."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """The messages to remove or shorten, the sizes that the result must have, and the summary's key information."""

    chosen: Selection | Finding
    goal: Demand
    key_information: Texts


@dataclass(frozen=True)
class Choosing:
    """What a choice of messages depends on, with and without key information in the summary's message."""

    call: Call
    messages: Sequence[AnyMessage]
    level: Level
    demanded: Demanded
    prepared: Choice | None = None
    """The choice whose summary was prepared ahead; exactly it is made, or none."""

    def bare(self) -> Proposal:
        """Return the messages to remove if the summary's message contains no key information."""
        goal = self.demanded({})
        return Proposal(chosen=self._proposed(goal), goal=goal, key_information={})

    def _proposed(self, goal: Demand) -> Selection | Finding:
        return propose(self.call, self.messages, self.level, goal, self.prepared)

    def wants_key_information(self, first: Proposal) -> bool:
        """Whether the proposal `first` leads to a summary, and the settings add key information to it."""
        settings = self.call.settings
        if isinstance(first.chosen, Finding) or self.level.hides or not settings.key_information:
            return False
        return needs_summary(settings, first.chosen, first.goal)

    def with_key_information(self, first: Proposal, texts: Texts) -> Proposal:
        """Return the choice with room for these texts; `first` is the choice without room for them.

        The texts take at most their share of the room, and half of the tokens of all removable messages. If no choice
        of messages makes enough room for texts of this length, they are cut to half of the tokens that `first` frees.
        For their sake the unanswered user message is neither shortened nor removed.
        """
        if isinstance(first.chosen, Finding):
            return first
        selector = self.call.selector(self.messages)
        least = selector.tokens(frozenset(range(len(self.messages))) - selector.untouchable, {})
        for left in (least, first.chosen.tokens):
            key_information = fitted(texts, _budget(self.call, first.goal, left), self.call.meter.counter)
            goal = self.demanded(key_information)
            chosen = self._proposed(goal) if any(key_information.values()) else first.chosen
            if not isinstance(chosen, Finding) and _leaves_input(selector, chosen, first.chosen):
                return Proposal(chosen=chosen, goal=goal, key_information=key_information)
        return first

    def foreseen(self) -> Proposal:
        """Return what a compaction would choose, without calling providers of key information but goal and pins."""
        first = self.bare()
        if not self.wants_key_information(first):
            return first
        known = {"goal": original_request(self.messages), "pins": ""}
        texts = {name: known[name] for name in ordered(self.call.settings.key_information) if name in known}
        return self.with_key_information(first, texts)


def _leaves_input(selector: Selector, chosen: Selection, first: Selection) -> bool:
    """Whether a choice changes the unanswered user message no more than the choice `first` does."""
    changed_too = (chosen.drop | chosen.clip.keys()) - first.drop - first.clip.keys()
    return changed_too.isdisjoint(selector.yielding_input | selector.shortened_input)


def _budget(call: Call, goal: Demand, left: int) -> int:
    """Return the maximum number of tokens of key information; `left` is the size of the request without it."""
    freed = goal.before - left - goal.summary
    return call.meter.unscaled(max(0, min(key_share(call.settings, call.sizes.room), freed // 2)))


def key_information(context: NodeContext) -> Effects[dict[str, str]]:
    """Return the providers' texts for the next summary by name, in the message's order, not yet cut to a budget."""
    names = ordered(context.settings.key_information)
    if not names:
        return {}
    given = KeyContext(
        state=context.values,
        config=context.config,
        settings=context.settings,
        store=context.runtime.store,
        goal=_goal(context) if "goal" in names else "",
    )
    found: dict[str, str] = {}
    for name in names:
        text = yield from _collected(context, context.dependencies.key_information[name], given)
        if text or name == "pins":
            found[name] = text
    return found


def _goal(context: NodeContext) -> str:
    """Return the user's first input; on a thread that continues another one, the beginning of that one's input."""
    known = context.compaction.get("goal")
    if any(is_pinned(message, context.pins) for message in first_inputs(context.messages)):
        return ""  # the pinned first input stays at the very front, word for word
    if not known:
        return original_request(context.messages)
    said = (message.text for message in context.conversation if is_real_user(message))
    return next((text for text in said if text.startswith(known)), known)


def _collected(context: NodeContext, provider: KeyInformation, given: KeyContext) -> Effects[str]:
    """Return the text of one provider, redacted; an empty text if the provider fails or exceeds its time."""
    seconds = TIMEOUT_S

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
    except Exception as error:  # noqa: BLE001 - a compaction goes on without this text
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
