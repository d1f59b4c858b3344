"""`faithful`: the newest messages stay as long as they are worth more than what a digest would hold in their place.

What leaves is worth what its facts, rules, requests and steps are worth that fit into the room beside the tail;
what stays is worth all of its own, and something for its words. Results that the model waits for stay whole, or
as the facts in them.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from ...conversation.clipping import clipped_to
from ...conversation.message_marks import earlier_summary, is_summary
from ...conversation.tokens import texts_of
from ...digest.digest import Weighed, digest, weighed
from ...digest.model import Section
from ..selector import LEAST_PREVIEW, Choice, Demand, Selector

_WORDS, _UNREAD = 0.01, 0.02
"""Worth of a token of the newest message, and of a result that the model waits for, beside that of its facts."""

_ROOMY = 0.5
"""Worth of a token of a result that the model waits for, where a digest of everything would find room."""

_STANDING = 0.1
"""What the facts of a message that stays count where a digest of everything would not have chosen them."""

_NEAR = 0.15
"""Share of the aim over which the worth of words falls to a third."""

_TAILS = 24
"""Tails that are compared, about."""

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
    """Tails by worth, the best first; then what must stay, its fields clipped; at last without even a summary."""
    for plan in sorted(_plans(selector, demand), key=lambda plan: -plan.worth):
        clip = {index: _extracted(selector, index, tokens) for index, tokens in plan.shown.items()}
        yield Choice(drop=plan.drop, clip=clip, summary=demand.least)
    must = selector.untouchable
    drop = frozenset(range(len(selector.view.messages))) - must
    for share in (2, 1):
        clip = selector.tight_clip(must, drop, demand.aim // share - demand.least)
        yield Choice(drop=drop, clip=clip, summary=demand.least)
    yield Choice(drop=drop, clip=selector.tight_clip(must, drop, demand.aim), summarize=False)


def _plans(selector: Selector, demand: Demand) -> Iterator[Plan]:
    """Every place where a tail may begin; where results are waited for, with them whole and as their facts."""
    view, found = selector.view, _weighed(selector)
    waiting = [i for i in view.unseen if isinstance(view.messages[i], ToolMessage) and i not in selector.pinned]
    silent = frozenset(i for i, m in enumerate(view.messages) if isinstance(m, AIMessage) and not texts_of(m))
    for start in _starts(selector, demand):
        drop = selector.closed(demand, Choice(drop=frozenset(range(start)) - view.header | silent)).drop
        yield _plan(selector, demand, found, drop, ())
        if waiting:
            yield _plan(selector, demand, found, drop, waiting)


def _starts(selector: Selector, demand: Demand) -> Iterator[int]:
    """Where a tail may begin, never inside a block: from none to what fills the aim, in steps of tokens."""
    view, count = selector.view, selector.meter.counter.message
    inside = {i for block in view.blocks for i in range(block.start + 1, block.end + 1)}
    yield len(view.messages)
    kept, last = 0, 0
    for start in range(len(view.messages) - 1, -1, -1):
        kept += selector.meter.scaled(count(view.messages[start]))
        if kept > demand.aim:
            return
        if start not in inside and kept - last >= demand.aim // _TAILS:
            yield start
            last = kept


def _weighed(selector: Selector) -> list[tuple[int, Weighed]]:
    """What a digest of everything would choose from, with the index of its message; -1 for an earlier digest's."""
    messages = selector.view.messages
    earlier = earlier_summary([message for message in messages if is_summary(message)])
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
    room = selector.meter.unscaled(demand.aim - demand.least - selector.tokens(drop, {})) + saved
    if room < 0:
        return Plan(drop, float(room))
    gone = {-1, *drop, *extracted}
    chosen = _packed([(at, entry) for at, entry in found if at in gone], room)
    shown = Counter[int]()
    for at, entry in chosen:
        shown[at] += entry.cost
    least = _marginal(found, selector.meter.unscaled(demand.aim - demand.least))
    stays = [entry for at, entry in found if at not in gone]
    worth = sum(entry.worth * entry.cost * (1.0 if entry.worth >= least else _STANDING) for entry in stays)
    worth += sum(entry.worth * entry.cost for _, entry in chosen)
    worth += _words(selector, gone, demand.aim, _UNREAD if least else _ROOMY)
    return Plan(drop, worth, {index: max(LEAST_PREVIEW, shown[index]) for index in extracted})


def _words(selector: Selector, gone: Collection[int], aim: int, unread: float) -> float:
    """What the words of the messages that stay are worth beside their facts: the less, the more stands behind."""
    view, behind, worth = selector.view, 0, 0.0
    for index in range(len(view.messages) - 1, -1, -1):
        if index not in gone and index not in view.header:
            size = selector.meter.counter.message(view.messages[index])
            each = unread if index in view.unseen else _WORDS * math.exp(-behind / (_NEAR * aim))
            worth += each * size
            behind += size
    return worth


def _marginal(found: Sequence[tuple[int, Weighed]], room: int) -> float:
    """Worth of the last that a digest of everything would choose for so many tokens; 0 where it takes all."""
    chosen = _packed(found, room)
    return chosen[-1][1].worth if chosen and len(chosen) < len(found) else 0.0


def _packed(entries: Sequence[tuple[int, Weighed]], room: int) -> list[tuple[int, Weighed]]:
    """The entries that fit, those first whose tokens are worth most."""
    chosen: list[tuple[int, Weighed]] = []
    for placed in sorted(entries, key=lambda placed: -placed[1].worth):
        if placed[1].cost <= room:
            chosen.append(placed)
            room -= placed[1].cost
    return chosen


def _extracted(selector: Selector, index: int, tokens: int) -> AnyMessage:
    """A result with its facts in place of its text: itself, where it is no longer than that."""
    view, counter = selector.view, selector.meter.counter
    message = view.messages[index]
    if not isinstance(message, ToolMessage) or counter.message(message) <= tokens + _MARKER:
        return message
    only: tuple[Section, ...] = ("Facts",)
    call = view.messages[view.block_of[index].start]
    made = digest([message], budget=tokens, counter=counter, sections=only, beside=[call])
    lines = [line.removeprefix("- ") for line in made.text.splitlines()[1:]]
    return clipped_to(message, "\n".join(lines), counter, recall=selector.settings.recall)
