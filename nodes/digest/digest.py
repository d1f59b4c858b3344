"""A summary without a model: extracted, chosen by worth under a budget, never invented."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AnyMessage

from ..conversation.tokens import TokenCounter, approximate_counter
from ..text.quoting import clip
from .facts import facts
from .model import SECTIONS, Entry, Section, pack, record_bytes, record_limit, unpack
from .render import page
from .rules_and_requests import goal, prose, requests, rules, said
from .step_extraction import errors, steps

_SHARES: dict[Section, float] = {
    "Goal": 0.12,
    "Rules": 0.3,
    "Earlier": 0.3,
    "Facts": 0.9,
    "Steps": 0.1,
    "Open": 0.15,
    "Said": 0.2,
}
"""Share of the budget that a section may take before the others have had theirs."""

_AGES: dict[Section, float] = {"Goal": 1, "Rules": 1, "Earlier": 1, "Facts": 3, "Steps": 12, "Open": 3, "Said": 1}
"""How many times the newest entry outweighs an equal one from the beginning."""

_FOCUS = 3.0
"""How many times an entry that has to do with the focus outweighs an equal one."""

_TELLING = 4
"""Letters from which a word of the focus tells something."""

_LEAST: dict[Section, int] = {"Goal": 12, "Rules": 24, "Earlier": 24, "Open": 12, "Said": 24}
"""Tokens that a sentence of a section may always have."""

_HEADING = 6
"""Tokens that a section's name and a list's dash take."""

_LAST_TRIES = 40
"""Entries after the first that does not fit which are still tried."""

_COST = approximate_counter()

_LONG = 4
"""Part of a record that one line may take whole."""


@dataclass(frozen=True)
class Digest:
    """A summary that was extracted, and what the next one absorbs of it."""

    text: str
    """Sections under English headings; empty where the budget holds nothing."""
    record: dict[str, Any]
    """The same as JSON, with what came next in worth."""


def digest(
    old: Sequence[AnyMessage],
    *,
    budget: int,
    counter: TokenCounter,
    previous: Mapping[str, Any] | None = None,
    previous_text: str | None = None,
    focus: str | None = None,
    sections: Collection[Section] = SECTIONS,
    beside: Sequence[AnyMessage] = (),
) -> Digest:
    """What is worth most of `old` and of an earlier digest, in at most `budget` tokens of text.

    `previous` is the record of the digest that this one absorbs; `previous_text` a summary in prose. What has
    to do with `focus` comes first; what messages that stay `beside` the digest show, it need not. The same input
    gives the same digest.
    """
    start, known = unpack(previous)
    entries = [entry for entry in _entries(old, start, known, previous_text, beside) if entry.section in sections]
    shown = [_clipped(entry, budget, counter) for entry in entries]
    count = start + len(old)
    ranked = _ranked(shown, count, budget, counter, _words(focus))
    chosen = _fitting(shown, ranked, budget, counter)
    limit = record_limit(budget)
    whole = [
        full if full is cut or record_bytes(full.value) <= limit // _LONG else cut
        for full, cut in zip(entries, shown, strict=True)
    ]
    earlier = _earlier(whole, ranked, limit // 2)
    return Digest(_page(shown, chosen), pack(whole, [*chosen, *earlier, *ranked], count, limit))


@dataclass(frozen=True, slots=True)
class Weighed:
    """What an entry would be worth to a digest."""

    at: int
    """Index of its message among those that were read; negative for what an earlier digest brings."""
    worth: float
    """Of each of its tokens, its age counted."""
    cost: int
    """Tokens, about."""


def weighed(old: Sequence[AnyMessage], *, previous: Mapping[str, Any] | None = None) -> list[Weighed]:
    """Every entry that a digest of `old` and of an earlier one would choose from."""
    start, known = unpack(previous)
    total = start + len(old)
    return [
        Weighed(entry.at - start, _aged(entry, total), 2 + _COST.text(f"{entry.key} {entry.value}"))
        for entry in _entries(old, start, known, None, ())
    ]


def _aged(entry: Entry, total: int) -> float:
    """Worth with its age counted, among so many messages."""
    return entry.worth * math.pow(_AGES[entry.section], (entry.at + 1) / max(1, total) - 1)


def _entries(
    old: Sequence[AnyMessage], start: int, known: Sequence[Entry], text: str | None, beside: Sequence[AnyMessage]
) -> list[Entry]:
    earlier: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in known:
        earlier[entry.section].append(entry)
    failed = [entry for entry in earlier["Open"] if entry.path]
    asked = [entry for entry in earlier["Open"] if not entry.path]
    first_is_gone = bool(text or earlier["Earlier"])
    aim = earlier["Goal"] if first_is_gone else goal(old, start, earlier["Goal"])
    told = {entry.at for entry in aim}
    return [
        *aim,
        *rules(old, start, earlier["Rules"]),
        *prose(text, start, earlier["Earlier"]),
        *facts(old, start, earlier["Facts"], beside),
        *steps(old, start, earlier["Steps"]),
        *(entry for entry in requests(old, start, asked) if entry.at not in told),
        *errors(old, start, failed),
        *said(old, start, earlier["Said"]),
    ]


def _clipped(entry: Entry, budget: int, counter: TokenCounter) -> Entry:
    """The entry with a sentence cut to its section's share; facts and steps are shown whole or not at all."""
    if entry.section not in _LEAST:
        return entry
    most = max(_LEAST[entry.section], int(_SHARES[entry.section] * budget))
    most = min(most, max(1, budget - _HEADING))
    if len(entry.value) <= most or counter.text(entry.value) <= most:
        return entry
    return replace(entry, value=clip(entry.value, len(counter.head(entry.value, most))))


def _words(focus: str | None) -> list[str]:
    """The words of a focus that tell something; of a script without spaces, every two characters."""
    words = (focus or "").lower().split()
    pairs = [word[i : i + 2] for word in words if not word.isascii() for i in range(len(word) - 1)]
    return [*(word for word in words if word.isascii() and len(word) >= _TELLING), *pairs]


def _ranked(
    entries: Sequence[Entry], total: int, budget: int, counter: TokenCounter, focus: Sequence[str]
) -> list[int]:
    """Indexes by worth; what goes beyond its section's share comes after all that does not."""

    def weight(entry: Entry) -> float:
        text = f"{entry.path} {entry.key} {entry.value}".lower() if focus else ""
        return _aged(entry, total) * (_FOCUS if any(word in text for word in focus) else 1)

    order = sorted(range(len(entries)), key=lambda i: (-weight(entries[i]), -entries[i].at, i))
    spent: defaultdict[str, float] = defaultdict(float)
    within, beyond = list[int](), list[int]()
    for index in order:
        entry = entries[index]
        if spent[entry.section] < _SHARES[entry.section] * budget:
            spent[entry.section] += counter.text(f"{entry.key} {entry.value}") + 2
            within.append(index)
        else:
            beyond.append(index)
    return [*within, *beyond]


def _page(entries: Sequence[Entry], chosen: Iterable[int]) -> str:
    return page([entries[index] for index in sorted(chosen)])


def _earlier(entries: Sequence[Entry], ranked: Sequence[int], limit: int) -> Iterator[int]:
    """Lines of earlier summaries, about `limit` bytes of them: no other entry holds what they say."""
    left = limit
    for index in ranked:
        if entries[index].section == "Earlier" and left > 0:
            left -= record_bytes(entries[index].value)
            yield index


def _fitting(entries: Sequence[Entry], ranked: Sequence[int], budget: int, counter: TokenCounter) -> list[int]:
    """The longest beginning of the ranking that fits, and of what follows what still does."""

    def fits(chosen: Sequence[int]) -> bool:
        return counter.text(_page(entries, chosen)) <= budget

    low, high = 0, 16
    while high < len(ranked) and fits(ranked[:high]):
        low, high = high, 2 * high
    high = min(high, len(ranked))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(ranked[:middle]) else (low, middle - 1)
    chosen = list(ranked[:low])
    left = budget - counter.text(_page(entries, chosen))
    for index in ranked[low : low + _LAST_TRIES]:
        if counter.text(entries[index].value) <= left and fits([*chosen, index]):
            chosen.append(index)
            left = budget - counter.text(_page(entries, chosen))
    return chosen if left >= 0 else []


_FACTS: tuple[Section, ...] = ("Rules", "Facts")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts for a summary that someone else writes."""

    text: str = ""
    """The lines that show them; empty where there are none."""
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the next facts absorb of them."""
    needed: tuple[tuple[str, ...], ...] = ()
    """For each fact its value and the words that give it meaning, as they must stand in the request."""


NO_FACTS = Facts()


def facts_of(
    old: Sequence[AnyMessage], earlier: Mapping[str, Any] | None, *, budget: int, counter: TokenCounter
) -> Facts:
    """Rules and facts of what leaves, and of an earlier summary, that are worth most in `budget` tokens of text."""
    made = digest(old, budget=budget, counter=counter, previous=earlier, sections=_FACTS)
    shown = [entry for entry in unpack(made.record)[1] if entry.value in made.text]
    needed = tuple(tuple(w for w in (e.value, e.key, e.path) if w and w in made.text) for e in shown)
    return Facts(text=made.text, record=made.record, needed=needed)
