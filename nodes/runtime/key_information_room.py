"""Room for key information beside a summary: as much as it takes, but no more than a compaction can spare. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage

from ..config.settings import CompactionSettings
from ..gate.invariants import Finding
from ..selection.selector import Demand, Selection
from ..summary.fallback_chain import Level
from ..summary.key_information_text import fitted, key_share, ordered, original_request
from .engine import Call, needs_summary, propose

Texts = Mapping[str, str]
"""Key information by name, in its order."""


Demanded = Callable[[Texts], Demand]
"""What a compaction has to reach that carries these texts."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What leaves, the demand that it meets, and the key information that will stand beside the summary."""

    chosen: Selection | Finding
    goal: Demand
    key_information: Texts


def bare(call: Call, messages: Sequence[AnyMessage], level: Level, demanded: Demanded) -> Proposal:
    """The choice as it is without key information."""
    goal = demanded({})
    return Proposal(chosen=propose(call, messages, level, goal), goal=goal, key_information={})


def wants_key_information(settings: CompactionSettings, level: Level, first: Proposal) -> bool:
    """Whether key information will stand beside a summary of what this choice drops."""
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
    """What a compaction would choose, as far as the messages themselves tell the key information: goal and pins."""
    first = bare(call, messages, level, demanded)
    if not wants_key_information(call.settings, level, first):
        return first
    known = {"goal": original_request(messages), "pins": ""}
    texts = {name: known[name] for name in ordered(call.settings.key_information) if name in known}
    return with_key_information(call, messages, level, demanded, first=first, texts=texts)
