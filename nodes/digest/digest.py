"""Write a summary without a model: extract entries, and show the most valuable entries within a token budget."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from langchain_core.messages import AnyMessage

from ..conversation.tokens import TokenCounter, approximate_counter
from ..text.identifiers import contains_whole
from ..text.quoting import clip
from .entry import SECTIONS, Entry, Section, entry_bytes, pack, record_bytes, record_limit, unpack
from .facts import facts, row_labels
from .listed_sentences import NOTHING_LISTED, ListedSentences, listed_decisions, with_listed_rules
from .render import Suffixes, render_entries
from .revisions import apply_revisions
from .rules_and_requests import earlier_lines, goal, requests, rules
from .statements import statements
from .step_extraction import errors, steps

_SHARES: dict[Section, float] = {
    "Goal": 0.12,
    "Rules": 0.5,
    "Earlier": 0.3,
    "Facts": 0.9,
    "Steps": 0.1,
    "Open": 0.15,
    "Said": 0.2,
    "Answers": 0.2,
    "Decisions": 0.1,
}
"""Share of the token budget that each section may use before entries of other sections are preferred."""

_AGES: dict[Section, float] = {
    "Goal": 1,
    "Rules": 1,
    "Earlier": 1,
    "Facts": 3,
    "Steps": 12,
    "Open": 3,
    "Said": 1,
    "Answers": 1,
    "Decisions": 1,
}
"""For each section, how many times an entry of the newest message is worth the same entry of the oldest message; 1
means that age does not matter."""

_FOCUS = 3.0
"""Factor for the worth of an entry that contains a word of `focus`, the subject on which the user asked the summary
to concentrate, or the subject of the question that a result is to answer."""

_CARRIED: dict[Section, float] = {"Said": 10.0, "Answers": 4.0}
"""For each section of statements, the factor for the worth of a statement of an earlier digest: later messages can
make a fact known again, but not what was said once."""
_MOST_CARRIED = 1.0
"""The most that `_CARRIED` makes of a statement's worth: more than most facts, and less than binding rules."""

_USED = 1_000.0
"""Factor for the worth of an entry that contains a text which the conversation has used again."""

_FOCUS_LETTERS = 4
"""Minimum length of an ASCII word of `focus` that is searched for in entries; shorter words such as `the` are in most
entries."""

_MIN_TOKENS: dict[Section, int] = {
    "Goal": 12,
    "Rules": 24,
    "Earlier": 24,
    "Open": 12,
    "Said": 24,
    "Answers": 24,
    "Decisions": 24,
}
"""For each section whose entries are sentences, the number of tokens up to which a sentence is not cut, even if the
section's share of the budget is smaller."""

_HEADING = 6
"""Number of tokens that a section's heading and the dash of a list item take together."""

_FURTHER_TRIES = 40
"""Number of entries that are tried after the budget is full for the first time, because a shorter entry may still
fit."""

_BINDING = 0.5
"""Smallest worth of a rule that comes before all facts beside a summary: a duty, a ban, a limit or a preference, but
neither a simple request nor a sentence in the middle of a very long message."""

_COST = approximate_counter()

_LINE_DIVISOR = 4
"""The record holds the full sentence of an entry whose text the digest had to cut, if that sentence takes at most the
record's size limit divided by this number."""


@dataclass(frozen=True)
class Digest:
    """A summary extracted without a model, and the same content as data (`record`) for the next digest."""

    text: str
    """The summary: sections under English headings; empty if the budget is too small for any entry."""
    record: dict[str, Any]
    """The text's entries as JSON, and the most valuable of the entries that did not fit into the text."""


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
    rules_first: int = 0,
    used: Collection[str] = (),
    listed: ListedSentences = NOTHING_LISTED,
) -> Digest:
    """Return a digest of the messages `old` and of an earlier summary: its text has at most `budget` tokens.

    The text shows the entries that are worth most per token.

    `previous` is the record of an earlier digest, `previous_text` the text of a summary written by a model; the new
    digest replaces both. Entries that contain a word of `focus` are preferred. A fact that also occurs in `beside`,
    the messages that the model continues to see, gets a low worth, so that it takes no tokens from facts that would
    otherwise be lost. Entries that contain one of the texts `used` come first. Before all others come binding rules,
    as long as they take at most `rules_first` tokens. `listed` are sentences that a model named as rules, decisions
    and revisions. The same input always gives the same digest.
    """
    start, known = unpack(previous)
    entries = _entries(old, start, known, text=previous_text, beside=beside, sections=sections, listed=listed)
    shown = [_clipped(entry, budget, counter) for entry in entries]
    count = start + len(old)
    worth = list(map(_weighing(entries, start, count, _focus_words(focus), used), entries))
    labels = row_labels(entries)
    ranked = _ranked(shown, budget, counter, worth)
    first = _rules_first(shown, ranked, rules_first, counter) if rules_first else []
    with_labels = ((labels.get(index, index), index) for index in (*first, *ranked))
    ranked = list(dict.fromkeys(chain.from_iterable(with_labels)))
    suffixes: Suffixes = {}
    chosen = _fitting(shown, ranked, budget, counter, suffixes=suffixes, labels=labels)
    limit = record_limit(budget) + sum(entry_bytes(shown[index]) for index in first)
    whole = [
        full if full is cut or record_bytes(full.value) <= limit // _LINE_DIVISOR else cut
        for full, cut in zip(entries, shown, strict=True)
    ]
    earlier = _earlier(whole, ranked, limit // 2)
    return Digest(_rendered(shown, chosen, suffixes), pack(whole, [*chosen, *earlier, *ranked], count, limit))


@dataclass(frozen=True, slots=True)
class WeightedEntry:
    """The worth and the cost of one entry that a digest could show."""

    at: int
    """Index of the entry's message among the given messages; negative for an entry of an earlier digest."""
    worth: float
    """Worth of the entry per token, reduced by the entry's age."""
    cost: int
    """Approximate number of tokens of the entry."""


def weighted_entries(old: Sequence[AnyMessage], *, previous: Mapping[str, Any] | None = None) -> list[WeightedEntry]:
    """Return worth and cost of every entry that a digest of `old` and of the record `previous` could show."""
    start, known = unpack(previous)
    total = start + len(old)
    return [
        WeightedEntry(entry.at - start, _aged(entry, total), 2 + _COST.text(f"{entry.key} {entry.value}"))
        for entry in _entries(old, start, known)
    ]


def _aged(entry: Entry, total: int) -> float:
    """Return the entry's worth reduced by its age in a conversation of `total` messages."""
    return entry.worth * math.pow(_AGES[entry.section], (entry.at + 1) / max(1, total) - 1)


def _entries(
    old: Sequence[AnyMessage],
    start: int,
    known: Sequence[Entry],
    *,
    text: str | None = None,
    beside: Sequence[AnyMessage] = (),
    sections: Collection[Section] = SECTIONS,
    listed: ListedSentences = NOTHING_LISTED,
) -> list[Entry]:
    """Return the entries of the given sections, with each revision in the place of what it revises."""
    earlier: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in known:
        earlier[entry.section].append(entry)
    failed = [entry for entry in earlier["Open"] if entry.path]
    asked = [entry for entry in earlier["Open"] if not entry.path]
    first_is_gone = bool(text or earlier["Earlier"])
    aim = earlier["Goal"] if first_is_gone else goal(old, start, earlier["Goal"])
    told = {entry.at for entry in aim}
    found = [
        *aim,
        *with_listed_rules(rules(old, start, earlier["Rules"]), listed, old, start),
        *earlier_lines(text, start, earlier["Earlier"]),
        *(facts(old, start, earlier["Facts"], beside) if "Facts" in sections else earlier["Facts"]),
        *steps(old if "Steps" in sections else (), start, earlier["Steps"]),
        *(entry for entry in requests(old, start, asked) if entry.at not in told),
        *errors(old if "Open" in sections else (), start, failed),
        *statements(old if "Said" in sections else (), start, [*earlier["Said"], *earlier["Answers"]], beside),
        *listed_decisions(listed, old, start, earlier["Decisions"], beside),
    ]
    held = apply_revisions(found, old, start, beside, told=listed.revised)
    return [entry for entry in held if entry.section in sections]


def _clipped(entry: Entry, budget: int, counter: TokenCounter) -> Entry:
    """Return the entry with its sentence cut to the section's share of the budget; facts and steps are never cut."""
    if entry.section not in _MIN_TOKENS:
        return entry
    most = max(_MIN_TOKENS[entry.section], int(_SHARES[entry.section] * budget))
    most = min(most, max(1, budget - _HEADING))
    if len(entry.value) <= most or counter.text(entry.value) <= most:
        return entry
    return replace(entry, value=clip(entry.value, len(counter.head(entry.value, most))))


def _focus_words(focus: str | None) -> list[str]:
    """Return the search words of a focus: its ASCII words, and every two adjacent characters of its other words."""
    words = (focus or "").lower().split()
    pairs = [word[i : i + 2] for word in words if not word.isascii() for i in range(len(word) - 1)]
    return [*(word for word in words if word.isascii() and len(word) >= _FOCUS_LETTERS), *pairs]


def _weighing(
    entries: Sequence[Entry], start: int, total: int, focus: Sequence[str], used: Collection[str]
) -> Callable[[Entry], float]:
    """Return the function that weighs the entries of a conversation of `total` messages, `start` of them in a digest.

    A row of a list that has a value with a word of `focus` is preferred, and in it the fields that `focus` names.
    """
    rows = {
        (entry.at, entry.path, entry.row)
        for entry in (entries if focus else ())
        if entry.row and any(word in entry.value.lower() for word in focus)
    }

    def weight(entry: Entry) -> float:
        text = f"{entry.path} {entry.key} {entry.value}" if focus or used else ""
        again = _USED if any(contains_whole(text, one) for one in used) else 1
        row = _FOCUS if (entry.at, entry.path, entry.row) in rows else 1
        worth = _aged(entry, total)
        if entry.at < start:
            worth = max(worth, min(_MOST_CARRIED, _CARRIED.get(entry.section, 1.0) * worth))
        return worth * again * row * (_FOCUS if any(word in text.lower() for word in focus) else 1)

    return weight


def _ranked(entries: Sequence[Entry], budget: int, counter: TokenCounter, worth: Sequence[float]) -> list[int]:
    """Return the indexes of the entries in the order in which they get tokens of the budget; `worth` weighs them.

    The most valuable entries come first. An entry whose section has already used its share of the budget comes after
    all entries whose sections have not.
    """
    order = sorted(range(len(entries)), key=lambda i: (-worth[i], -entries[i].at, i))
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


def _rules_first(entries: Sequence[Entry], ranked: Sequence[int], most: int, counter: TokenCounter) -> list[int]:
    """Return the indexes of the most valuable binding rules, as many as `most` tokens hold."""
    first, left = list[int](), most - _HEADING
    for index in ranked:
        if _is_binding(entries[index]) and (cost := _rule_cost(entries[index], counter)) <= left:
            first.append(index)
            left -= cost
    return first


def _is_binding(entry: Entry) -> bool:
    return entry.section == "Rules" and entry.worth >= _BINDING


def _rule_cost(entry: Entry, counter: TokenCounter) -> int:
    """Return an upper bound for the tokens that the line of a rule takes."""
    return 1 + counter.text(render_entries([entry]).partition("\n")[2])


def _rendered(entries: Sequence[Entry], chosen: Iterable[int], suffixes: Suffixes) -> str:
    return render_entries([entries[index] for index in sorted(chosen)], suffixes)


def _earlier(entries: Sequence[Entry], ranked: Sequence[int], limit: int) -> Iterator[int]:
    """Yield the indexes of the most valuable lines of earlier summaries, up to about `limit` bytes.

    The record stores these lines before other entries that the text does not show: the messages behind them are gone,
    so the lines could not be extracted again.
    """
    left = limit
    for index in ranked:
        if entries[index].section == "Earlier" and left > 0:
            left -= record_bytes(entries[index].value)
            yield index


def _fitting(
    entries: Sequence[Entry],
    ranked: Sequence[int],
    budget: int,
    counter: TokenCounter,
    *,
    suffixes: Suffixes,
    labels: Mapping[int, int],
) -> list[int]:
    """Return the longest beginning of `ranked` that fits the budget, and later indexes whose entries still fit.

    A value of a list row is chosen only if the label of its row is chosen, too: `labels` are the indexes of both, and
    in `ranked` each label comes before the other values of its row.
    """

    def left_after(chosen: Iterable[int]) -> int:
        return budget - counter.text(_rendered(entries, chosen, suffixes))

    low, high = 0, 16
    while high < len(ranked) and left_after(ranked[:high]) >= 0:
        low, high = high, 2 * high
    high = min(high, len(ranked))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left_after(ranked[:middle]) >= 0 else (low, middle - 1)
    chosen = dict.fromkeys(ranked[:low])
    left = left_after(chosen)
    for index in ranked[low : low + _FURTHER_TRIES]:
        label = labels.get(index, index)
        is_bare = label != index and label not in chosen
        if is_bare or counter.text(entries[index].value) > left:
            continue
        if (rest := left_after([*chosen, index])) >= 0:
            chosen[index] = None
            left = rest
    return list(chosen) if left >= 0 else []


_FACT_SECTIONS: tuple[Section, ...] = ("Rules", "Facts", "Decisions")
_RULES_ONLY: tuple[Section, ...] = ("Rules",)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Rules and facts that code copies from the conversation, to be shown next to a summary that a model writes."""

    text: str = ""
    """The lines that show the facts; empty if there are no facts."""
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The record from which the next compaction reads these facts."""
    needed: tuple[tuple[str, ...], ...] = ()
    """For each fact, the texts that the next request must contain: the value, key and path that `text` shows."""


NO_FACTS = Facts()


def facts_of(
    old: Sequence[AnyMessage],
    earlier: Mapping[str, Any] | None,
    *,
    budget: int,
    counter: TokenCounter,
    rules_first: int = 0,
    used: Sequence[str] = (),
    beside: Sequence[AnyMessage] = (),
    listed: ListedSentences = NOTHING_LISTED,
) -> Facts:
    """Return the most valuable rules and facts of `old` and of the record `earlier`, in at most `budget` tokens.

    Binding rules come first, up to `rules_first` tokens, then facts that contain one of the texts `used`. Later
    messages that the model continues to see (`beside`) may revise a rule, and facts that they contain have a low
    worth. `listed` are the sentences that the model listed next to its summary.
    """
    made = digest(
        old,
        budget=budget,
        counter=counter,
        previous=earlier,
        sections=_FACT_SECTIONS,
        beside=beside,
        rules_first=rules_first,
        used=used,
        listed=listed,
    )
    shown = [entry for entry in unpack(made.record)[1] if entry.value in made.text]
    needed = tuple(tuple(w for w in (e.value, e.key, e.path) if w and w in made.text) for e in shown)
    return Facts(text=made.text, record=made.record, needed=needed)


def tokens_of_rules(
    old: Sequence[AnyMessage],
    earlier: Mapping[str, Any] | None,
    counter: TokenCounter,
    beside: Sequence[AnyMessage] = (),
    listed: ListedSentences = NOTHING_LISTED,
) -> int:
    """Return the tokens of the text that shows all binding rules of `old` and of the record `earlier`."""
    start, known = unpack(earlier)
    every = _entries(old, start, known, beside=beside, sections=_RULES_ONLY, listed=listed)
    found = [entry for entry in every if _is_binding(entry)]
    return _HEADING + sum(_rule_cost(entry, counter) for entry in found) if found else 0


def rules_in(record: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the lines of the binding rules and the decisions in a record, oldest first."""
    every = sorted(unpack(record)[1], key=lambda entry: entry.at)
    found = [entry for entry in every if _is_binding(entry) or entry.section == "Decisions"]
    return tuple(render_entries([entry]).partition("\n")[2].removeprefix("- ") for entry in found)
