"""A summary without a model: extracted, chosen by worth under a budget, never invented (DESIGN §6, §8)."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AnyMessage

from .deeds import errors, steps
from .demands import RULE_WORTH, goal, prose, requests, rules
from .entries import VERSION, Entry, Section, unpacked
from .facts import facts
from .page import page
from .quoting import clip
from .rules import MILD
from .tokens import TokenCounter, approximate_counter

RECORD_BYTES = 6
"""Bytes of a record, as JSON, for each token of the budget."""

RECORD_LEAST = 256
"""Bytes that a record may always hold."""

_SHARES: dict[Section, float] = {
    "Goal": 0.15,
    "Rules": 0.3,
    "Earlier": 0.3,
    "Facts": 1.0,
    "Steps": 0.15,
    "Open": 0.15,
}
"""Share of the budget that a section may take before the others have had theirs."""

_AGES: dict[Section, float] = {"Goal": 1, "Rules": 1, "Earlier": 1, "Facts": 3, "Steps": 12, "Open": 3}
"""How many times the newest entry outweighs an equal one from the beginning."""

_FOCUS = 3.0
"""How many times an entry that has to do with the focus outweighs an equal one."""

_LEAST_LINE = 24
"""Characters that a line may always have."""

_LAST_TRIES = 40
"""Entries after the first that does not fit which are still tried."""

_ENVELOPE, _SMALLEST = 48, 16
"""Bytes of a record without entries, and of its smallest entry."""

_COST = approximate_counter()


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
) -> Digest:
    """What is worth most of `old` and of an earlier digest, in at most `budget` tokens of text.

    `previous` is the record of the digest that this one absorbs; `previous_text` a summary in prose. What has
    to do with `focus` comes first. The same input gives the same digest.
    """
    start, known = unpacked(previous)
    entries = _entries(old, start, known, previous_text)
    shown = [_clipped(entry, budget) for entry in entries]
    ranked = _ranked(shown, start + len(old), budget, _words(focus))
    said = _said_elsewhere(shown)
    chosen = _fitting(shown, [index for index in ranked if index not in said], budget, counter)
    kept = _recorded(entries, ranked, budget)
    record = {"v": VERSION, "count": start + len(old), "entries": kept}
    return Digest(_page(shown, chosen), record)


def record_limit(budget: int) -> int:
    """The most bytes of JSON that the record of a digest of `budget` tokens holds."""
    return max(RECORD_LEAST, RECORD_BYTES * budget)


def _entries(old: Sequence[AnyMessage], start: int, known: Sequence[Entry], text: str | None) -> list[Entry]:
    earlier: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in known:
        earlier[entry.section].append(entry)
    failed = [entry for entry in earlier["Open"] if entry.path]
    asked = [entry for entry in earlier["Open"] if not entry.path]
    aim = goal(old, start, earlier["Goal"])
    said = {entry.at for entry in aim}
    return [
        *aim,
        *rules(old, start, earlier["Rules"]),
        *prose(text, start, earlier["Earlier"]),
        *facts(old, start, earlier["Facts"]),
        *steps(old, start, earlier["Steps"]),
        *(entry for entry in requests(old, start, asked) if entry.at not in said),
        *errors(old, start, failed),
    ]


def _clipped(entry: Entry, budget: int) -> Entry:
    """The entry with a line cut to its section's share; a fact is shown whole or not at all."""
    if entry.section == "Facts":
        return entry
    return replace(entry, value=clip(entry.value, max(_LEAST_LINE, int(4 * _SHARES[entry.section] * budget))))


def _said_elsewhere(shown: Sequence[Entry]) -> frozenset[int]:
    """Rules that stand word for word in the goal, and wishes that stand in an open request."""
    aims = [entry.value for entry in shown if entry.section == "Goal"]
    asked = [entry.value for entry in shown if entry.section == "Open" and not entry.path]
    return frozenset(
        index
        for index, entry in enumerate(shown)
        if entry.section == "Rules"
        and any(entry.value in text for text in (aims if entry.worth > RULE_WORTH[MILD] else [*aims, *asked]))
    )


def _words(focus: str | None) -> list[str]:
    return [word.lower() for word in (focus or "").split() if len(word) > 1]


def _ranked(entries: Sequence[Entry], total: int, budget: int, focus: Sequence[str]) -> list[int]:
    """Indexes by worth; what goes beyond its section's share comes after all that does not."""

    def weight(entry: Entry) -> float:
        age = _AGES[entry.section] ** ((entry.at + 1) / max(1, total) - 1)
        text = f"{entry.path} {entry.key} {entry.value}".lower() if focus else ""
        return entry.worth * age * (_FOCUS if any(word in text for word in focus) else 1)

    order = sorted(range(len(entries)), key=lambda i: (-weight(entries[i]), -entries[i].at, i))
    spent: defaultdict[str, float] = defaultdict(float)
    within, beyond = list[int](), list[int]()
    for index in order:
        entry = entries[index]
        spent[entry.section] += _COST.text(entry.value) + 1
        (within if spent[entry.section] <= _SHARES[entry.section] * budget else beyond).append(index)
    return [*within, *beyond]


def _page(entries: Sequence[Entry], chosen: Iterable[int]) -> str:
    return page(entries[index] for index in sorted(chosen))


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
    for index in ranked[low : low + _LAST_TRIES]:
        if fits([*chosen, index]):
            chosen.append(index)
    return chosen if fits(chosen) else []


def _recorded(entries: Sequence[Entry], ranked: Iterable[int], budget: int) -> list[list[Any]]:
    """The entries worth most as JSON, in reading order, within the record's limit."""
    left = record_limit(budget) - _ENVELOPE
    kept: dict[int, list[Any]] = {}
    for index in ranked:
        packed = entries[index].packed()
        size = len(json.dumps(packed, ensure_ascii=False).encode("utf-8", "replace")) + 2
        if size <= left:
            kept[index] = packed
            left -= size
        if left < _SMALLEST:
            break
    return [kept[index] for index in sorted(kept)]
