"""`faithful`: keep the newest messages as long as they are worth more than a digest of the same size.

The strategy compares tails, that is, the newest messages from some index on. The worth of a tail is the worth of the
tail's facts, sentences and steps and a small worth of its words, plus the worth of those entries of the dropped
messages that fit into the remaining tokens. Results that the model has not read stay whole, or are replaced by their
facts.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from ...conversation.clipping import with_clipped_text
from ...conversation.message_marks import earlier_summary, is_real_user, is_summary
from ...conversation.tokens import texts_of
from ...digest.digest import WeightedEntry, digest, weighted_entries
from ...digest.entry import Section
from ...text.identifiers import identifiers
from ...text.sentences import rare_words
from ..selector import MIN_PREVIEW, Choice, Demand, Selector

_WORD_WORTH, _UNREAD_WORTH = 0.01, 0.02
"""Worth of each token of the newest message, and of each token of an unread result, in addition to their facts."""

_ROOMY_WORTH = 0.5
"""Worth of each token of an unread result if a digest of the whole conversation would fit."""

_UNCHOSEN_FACTOR = 0.1
"""Factor for kept messages' entries that a digest of the whole conversation would not have chosen."""

_DECAY_SHARE = 0.15
"""Share of the aim's tokens over which the worth of words falls by the factor e."""

_TAILS = 24
"""Approximate number of tails that are compared."""

_MARKER = 16
"""Number of tokens of a clipped result's overhead and marker line."""


@dataclass(frozen=True)
class Plan:
    """One way to divide the available tokens between a tail and a digest."""

    drop: frozenset[int]
    worth: float
    shown: Mapping[int, int] = field(default_factory=dict[int, int])
    """For the index of each result that is replaced by its facts, the number of tokens of these facts."""


def faithful(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Yield tails, most valuable first; then only clipped messages that must stay, first with a summary."""
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
    """Yield plans for each start of a tail: one plan keeps unread results whole, another keeps only their facts."""
    view, found = selector.view, _weighed(selector)
    waiting = [i for i in view.unseen if isinstance(view.messages[i], ToolMessage) and i not in selector.pinned]
    silent = frozenset(i for i, m in enumerate(view.messages) if isinstance(m, AIMessage) and not texts_of(m))
    for start in _starts(selector, demand):
        drop = selector.resolve(demand, Choice(drop=frozenset(range(start)) - view.header | silent)).drop
        yield _plan(selector, demand, found, drop, ())
        if waiting:
            yield _plan(selector, demand, found, drop, waiting)


def _starts(selector: Selector, demand: Demand) -> Iterator[int]:
    """Yield the starts of tails, never inside a block, from an empty tail to one that fills the aim."""
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


def _weighed(selector: Selector) -> list[tuple[int, WeightedEntry]]:
    """Return (message index, entry) for each entry a digest could choose; index -1 for an earlier digest's entry."""
    messages = selector.view.messages
    earlier = earlier_summary([message for message in messages if is_summary(message)])
    place = [index for index, message in enumerate(messages) if not is_summary(message)]
    found = weighted_entries([messages[index] for index in place], previous=earlier.record or earlier.facts)
    return [(place[entry.at] if entry.at >= 0 else -1, entry) for entry in found]


def _plan(
    selector: Selector,
    demand: Demand,
    found: Sequence[tuple[int, WeightedEntry]],
    drop: frozenset[int],
    extracted: Sequence[int],
) -> Plan:
    """Return the plan that drops `drop` and replaces the results in `extracted` by their facts, with its worth."""
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
    worth = sum(entry.worth * entry.cost * (1.0 if entry.worth >= least else _UNCHOSEN_FACTOR) for entry in stays)
    worth += sum(entry.worth * entry.cost for _, entry in chosen)
    worth += _words_worth(selector, gone, demand.aim, _UNREAD_WORTH if least else _ROOMY_WORTH)
    return Plan(drop, worth, {index: max(MIN_PREVIEW, shown[index]) for index in extracted})


def _words_worth(selector: Selector, gone: Collection[int], aim: int, unread: float) -> float:
    """Return the worth of the kept messages' words; a word's worth decreases with the number of tokens after it."""
    view, behind, worth = selector.view, 0, 0.0
    for index in range(len(view.messages) - 1, -1, -1):
        if index not in gone and index not in view.header:
            size = selector.meter.counter.message(view.messages[index])
            each = unread if index in view.unseen else _WORD_WORTH * math.exp(-behind / (_DECAY_SHARE * aim))
            worth += each * size
            behind += size
    return worth


def _marginal(found: Sequence[tuple[int, WeightedEntry]], room: int) -> float:
    """Return the lowest worth among the entries that a digest of `room` tokens chooses; 0 if it chooses all."""
    chosen = _packed(found, room)
    return chosen[-1][1].worth if chosen and len(chosen) < len(found) else 0.0


def _packed(entries: Sequence[tuple[int, WeightedEntry]], room: int) -> list[tuple[int, WeightedEntry]]:
    """Return the entries that fit into `room` tokens, chosen by worth per token."""
    chosen: list[tuple[int, WeightedEntry]] = []
    for placed in sorted(entries, key=lambda placed: -placed[1].worth):
        if placed[1].cost <= room:
            chosen.append(placed)
            room -= placed[1].cost
    return chosen


def _asked(messages: Sequence[AnyMessage]) -> str:
    """Return the identifiers and the rare words of the user's last message, which a result is to answer."""
    text = next((message.text for message in reversed(messages) if is_real_user(message)), "")
    return " ".join(dict.fromkeys([*identifiers(text), *sorted(rare_words(text))]))


def _extracted(selector: Selector, index: int, tokens: int) -> AnyMessage:
    """Return a result with its facts in place of its text, or the result itself if the facts would not be shorter."""
    view, counter = selector.view, selector.meter.counter
    message = view.messages[index]
    if not isinstance(message, ToolMessage) or counter.message(message) <= tokens + _MARKER:
        return message
    only: tuple[Section, ...] = ("Facts",)
    call = view.messages[view.block_of[index].start]
    asked = _asked(view.messages[:index])
    made = digest([message], budget=tokens, counter=counter, sections=only, beside=[call], focus=asked)
    lines = [line.removeprefix("- ") for line in made.text.splitlines()[1:]]
    return with_clipped_text(message, "\n".join(lines), counter, recall=selector.settings.has_recall_tool)
