"""`faithful`: the newest messages stay as long as they are worth more than what a digest would hold in their place.

What leaves is worth what its facts, rules, requests and steps are worth that fit into the room beside the tail;
what stays is worth all of its own, and something for its words. Results that the model waits for stay whole, or
as the facts in them.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from langchain_core.messages import AnyMessage, ToolMessage

from ..clip import clipped_to
from ..digest import Weighed, digest, weighed
from ..selection import LEAST_PREVIEW, Choice, Demand, Selector
from ..summary import absorbed
from ..transcript import is_summary

_WORDS, _UNREAD = 0.02, 0.03
"""Worth of a token of the newest message, and of a result that the model waits for, beside that of its facts."""

_STANDING = 0.3
"""What the facts of a message that stays count: a digest chooses among them, a message brings all."""

_OLDER = 0.8
"""How much of the worth of its words a message keeps with each one that follows it."""

_MARKER = 16
"""Tokens of a clipped result beside what it shows."""


@dataclass(frozen=True)
class Plan:
    """One way to divide the room."""

    drop: frozenset[int]
    worth: float
    shown: Mapping[int, int] = field(default_factory=dict[int, int])
    """Tokens of facts that stand in place of results, by index."""


def faithful(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Tails by worth, the best first; at last what must stay, its fields clipped."""
    for plan in sorted(_plans(selector, demand), key=lambda plan: -plan.worth):
        clip = {index: _extracted(selector, index, tokens) for index, tokens in plan.shown.items()}
        yield Choice(drop=plan.drop, clip=clip, summary=demand.least)
    must = selector.untouchable
    drop = frozenset(range(len(selector.view.messages))) - must
    for share in (2, 1):
        clip = selector.tight_clip(must, drop, demand.aim // share - demand.least)
        yield Choice(drop=drop, clip=clip, summary=demand.least)


def _plans(selector: Selector, demand: Demand) -> Iterator[Plan]:
    """Every place where a tail may begin; where results are waited for, with them whole and as their facts."""
    view, found = selector.view, _weighed(selector)
    waiting = [i for i in view.unseen if isinstance(view.messages[i], ToolMessage) and i not in selector.pinned]
    inside = {i for block in view.blocks for i in range(block.start + 1, block.end + 1)}
    for start in range(len(view.messages) + 1):
        if start not in inside:
            drop = selector.closed(demand, Choice(drop=frozenset(range(start)) - view.header)).drop
            yield _plan(selector, demand, found, drop, ())
            if waiting:
                yield _plan(selector, demand, found, drop, waiting)


def _weighed(selector: Selector) -> list[tuple[int, Weighed]]:
    """What a digest of everything would choose from, with the index of its message; -1 for an earlier digest's."""
    messages = selector.view.messages
    earlier = absorbed([message for message in messages if is_summary(message)])
    place = [index for index, message in enumerate(messages) if not is_summary(message)]
    found = weighed([messages[index] for index in place], previous=earlier.record or earlier.facts)
    return [(place[entry.at] if entry.at >= 0 else -1, entry) for entry in found]


def _plan(
    selector: Selector,
    demand: Demand,
    found: Sequence[tuple[int, Weighed]],
    drop: frozenset[int],
    extracted: Sequence[int],
) -> Plan:
    """What a conversation without `drop` is worth, with the facts of the results in `extracted` in their place."""
    messages, count = selector.view.messages, selector.meter.counter.message
    saved = sum(count(messages[index]) - _MARKER for index in extracted)
    room = selector.meter.unscaled(max(0, demand.aim - demand.least - selector.tokens(drop, {}))) + saved
    if selector.tokens(drop, {}) - saved > demand.aim - demand.least:
        return Plan(drop, -1.0 * selector.tokens(drop, {}))
    gone = {-1, *drop, *extracted}
    chosen = _packed([(at, entry) for at, entry in found if at in gone], room)
    shown = Counter[int]()
    for at, entry in chosen:
        shown[at] += entry.cost
    worth = _STANDING * sum(entry.worth * entry.cost for at, entry in found if at not in gone)
    worth += sum(entry.worth * entry.cost for _, entry in chosen)
    worth += sum(_words(selector, i) for i in range(len(messages)) if i not in gone and i not in selector.view.header)
    return Plan(drop, worth, {index: max(LEAST_PREVIEW, shown[index]) for index in extracted})


def _words(selector: Selector, index: int) -> float:
    """What the words of a message are worth beside its facts."""
    view = selector.view
    if index in view.unseen:
        return _UNREAD * selector.meter.counter.message(view.messages[index])
    return _WORDS * _OLDER ** (len(view.messages) - 1 - index) * selector.meter.counter.message(view.messages[index])


def _packed(entries: Sequence[tuple[int, Weighed]], room: int) -> Sequence[tuple[int, Weighed]]:
    """The entries that fit, those first whose tokens are worth most."""
    ordered = sorted(entries, key=lambda placed: -placed[1].worth)
    costs = list(accumulate(entry.cost for _, entry in ordered))
    return ordered[: bisect_right(costs, room)]


def _extracted(selector: Selector, index: int, tokens: int) -> AnyMessage:
    """A result with its facts in place of its text: itself, where it is no longer than that."""
    view, counter = selector.view, selector.meter.counter
    message = view.messages[index]
    if not isinstance(message, ToolMessage) or counter.message(message) <= tokens + _MARKER:
        return message
    made = digest(
        [view.messages[view.block_of[index].start], message], budget=tokens, counter=counter, sections=("Facts",)
    )
    lines = [line.removeprefix("- ") for line in made.text.splitlines()[1:]]
    return clipped_to(message, "\n".join(lines), counter, recall=selector.settings.recall)
