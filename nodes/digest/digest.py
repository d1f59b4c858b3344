"""Write a summary without a model: extract entries, and show the most valuable entries within a token budget."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from langchain_core.messages import AnyMessage

from ..conversation.tokens import TokenCounter, approximate_counter
from ..text.identifiers import identifiers
from ..text.quoting import clip
from .answers import answers
from .earlier_lines import earlier_lines
from .entry import SECTIONS, Entry, Section, entry_bytes, pack, record_bytes, record_limit, unpack
from .facts import facts, row_labels
from .listed_sentences import NOTHING_LISTED, ListedSentences, listed_decisions
from .own_words import OwnWords, own_words
from .render import render_entries
from .step_extraction import errors, steps

BESIDE_SUMMARY: tuple[Section, ...] = ("Said", "Facts", "Decisions")
"""What stands beside a summary of a model: the user's own words, facts, and decisions that the model listed."""
_SHARES: dict[Section, float] = {
    "Said": 0.2,
    "Earlier": 0.3,
    "Facts": 0.9,
    "Steps": 0.1,
    "Open": 0.15,
    "Answers": 0.2,
    "Decisions": 0.1,
}
"""Share of the token budget that each section may use before entries of other sections are preferred."""

_AGES: dict[Section, float] = {
    "Said": 1.15,
    "Earlier": 1,
    "Facts": 3,
    "Steps": 12,
    "Open": 3,
    "Answers": 1,
    "Decisions": 1,
}
"""For each section, how many times an entry of the newest message is worth the same entry of the oldest message; 1
means that age does not matter."""

_FOCUS = 3.0
"""Factor for the worth of an entry that contains a word of `focus`, the subject on which the user asked the summary
to concentrate, or the subject of the question that a result is to answer."""

_CARRIED, _MOST_CARRIED = 4.0, 1.0
"""Factor for the worth of the assistant's statements in an earlier digest, and the most that it makes of a worth:
later messages can make a fact known again, but not what was said once."""

WORDS_SHARE = 0.4
"""Largest share of a digest that the user's own words take before anything else."""

_FOCUS_LETTERS = 4
"""Minimum length of an ASCII word of `focus` that is searched for in entries; shorter words such as `the` are in most
entries."""

_MIN_TOKENS: dict[Section, int] = {
    "Said": 24,
    "Earlier": 24,
    "Open": 12,
    "Answers": 24,
    "Decisions": 24,
}
"""For each section whose entries are sentences, the number of tokens up to which a sentence is not cut, even if the
section's share of the budget is smaller."""

_HEADING, _WORDS_HEADING = 6, 16
"""Number of tokens that a section's heading and the dash of a list item take together, at most, and those of the
heading of the user's own words."""

_FURTHER_TRIES = 40
"""Number of entries that are tried after the budget is full for the first time, because a shorter entry may still
fit."""

_COST = approximate_counter()

_LINE_DIVISOR = 4
"""The record holds the full sentence of an entry whose text the digest had to cut, if that sentence takes at most the
record's size limit divided by this number."""


@dataclass(frozen=True)
class Digest:
    """A summary extracted without a model, and the same content as data (`record`) for the next digest."""

    text: str = ""
    """The summary: sections under English headings; empty if the budget is too small for any entry."""
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The text's entries as JSON, and the most valuable of the entries that did not fit into the text."""


NO_DIGEST = Digest()


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
    words_first: int | None = None,
    said: OwnWords | None = None,
    listed: ListedSentences = NOTHING_LISTED,
) -> Digest:
    """Return a digest of the messages `old` and of an earlier summary: its text has at most `budget` tokens.

    First come the user's own words, up to `words_first` tokens (default: `WORDS_SHARE` of the budget), then the
    entries that are worth most per token.

    `previous` is the record of an earlier digest, `previous_text` the text of a summary written by a model; the new
    digest replaces both. Entries that contain a word of `focus` are preferred. A fact that also occurs in `beside`,
    the messages that the model continues to see, gets a low worth, so that it takes no tokens from facts that would
    otherwise be lost. `said` are the user's own words, if `words_of` has found them already. `listed` are sentences
    that a model named as rules and decisions. The same input always gives the same digest.
    """
    start, known = unpack(previous)
    if said is None:
        said = words_of(old, previous, beside, listed=listed) if "Said" in sections else OwnWords()
    others = _entries(old, start, known, text=previous_text, beside=beside, sections=sections, listed=listed)
    entries, count = [*said.entries, *others], start + len(old)
    shown = [_clipped(entry, budget, counter) for entry in entries]
    worth = list(map(_weighing(entries, start, count, _focus_words(focus)), entries))
    spoken = said.ranked(worth[: len(said.entries)])
    first = _words_first(shown, spoken, int(WORDS_SHARE * budget) if words_first is None else words_first, counter)
    told = " ".join(shown[index].value for index in first)
    ranked = [at for at in _ranked(shown, len(said.entries), budget, counter, worth) if not _is_told(shown[at], told)]
    labels = row_labels(entries)
    in_order = (*first, *ranked, *spoken)
    ranked = list(dict.fromkeys(chain.from_iterable((labels.get(index, index), index) for index in in_order)))
    chosen = _fitting(shown, ranked, budget, counter, labels=labels)
    limit = record_limit(budget) + sum(entry_bytes(shown[index]) for index in first)
    whole = [
        full if full is cut or record_bytes(full.value) <= limit // _LINE_DIVISOR else cut
        for full, cut in zip(entries, shown, strict=True)
    ]
    earlier = _earlier(whole, ranked, limit // 2)
    return Digest(_rendered(shown, chosen), pack(whole, [*chosen, *earlier, *ranked], count, limit))


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
    entries = [*words_of(old, previous).entries, *_entries(old, start, known)]
    return [
        WeightedEntry(entry.at - start, _aged(entry, total), 2 + _COST.text(f"{entry.key} {entry.value}"))
        for entry in entries
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
    """Return the entries of the sections beside the user's own words, as far as `sections` asks for them."""
    earlier: defaultdict[Section, list[Entry]] = defaultdict(list)
    for entry in known:
        earlier[entry.section].append(entry)
    makers: dict[Section, Callable[[], list[Entry]]] = {
        "Earlier": lambda: earlier_lines(text, start, earlier["Earlier"]),
        "Facts": lambda: facts(old, start, earlier["Facts"], beside),
        "Steps": lambda: steps(old, start, earlier["Steps"]),
        "Open": lambda: errors(old, start, earlier["Open"]),
        "Answers": lambda: answers(old, start, earlier["Answers"], beside),
        "Decisions": lambda: listed_decisions(listed, old, start, earlier["Decisions"], beside),
    }
    return [entry for section, make in makers.items() if section in sections for entry in make()]


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


def _weighing(entries: Sequence[Entry], start: int, total: int, focus: Sequence[str]) -> Callable[[Entry], float]:
    """Return the function that weighs the entries of a conversation of `total` messages, `start` of them in a digest.

    A row of a list that has a value with a word of `focus` is preferred, and in it the fields that `focus` names.
    """
    rows = {
        (entry.at, entry.path, entry.row)
        for entry in (entries if focus else ())
        if entry.row and any(word in entry.value.lower() for word in focus)
    }

    def weight(entry: Entry) -> float:
        text = f"{entry.path} {entry.key} {entry.value}".lower() if focus else ""
        row = _FOCUS if (entry.at, entry.path, entry.row) in rows else 1
        worth = _aged(entry, total)
        if entry.section == "Answers" and entry.at < start:
            worth = max(worth, min(_MOST_CARRIED, _CARRIED * worth))
        return worth * row * (_FOCUS if any(word in text for word in focus) else 1)

    return weight


def _words_first(entries: Sequence[Entry], spoken: Sequence[int], most: int, counter: TokenCounter) -> list[int]:
    """Return the indexes of the first of the user's sentences, as many as `most` tokens hold."""
    first, left = list[int](), most - _WORDS_HEADING
    for index in spoken:
        if (cost := _word_cost(entries[index], counter)) <= left:
            first.append(index)
            left -= cost
    return first


def _word_cost(sentence: Entry, counter: TokenCounter) -> int:
    """Return an upper bound for the tokens that a sentence takes, with the dash or the ellipsis before it."""
    return counter.text(sentence.value) + 3


def _is_told(entry: Entry, told: str) -> bool:
    """Whether a fact from a user's text is in the sentences that are shown."""
    if entry.section != "Facts" or entry.path != "user":
        return False
    return all(mark in told for mark in identifiers(entry.value) or [entry.value.strip('"')])


def _ranked(
    entries: Sequence[Entry], start: int, budget: int, counter: TokenCounter, worth: Sequence[float]
) -> list[int]:
    """Return the indexes from `start` on, in the order in which the entries get tokens; `worth` weighs them.

    The most valuable entries come first. An entry whose section has already used its share of the budget comes after
    all entries whose sections have not.
    """
    order = sorted(range(start, len(entries)), key=lambda i: (-worth[i], -entries[i].at, i))
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


def _rendered(entries: Sequence[Entry], chosen: Iterable[int]) -> str:
    return render_entries([entries[index] for index in sorted(chosen)])


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
    labels: Mapping[int, int],
) -> list[int]:
    """Return the longest beginning of `ranked` that fits the budget, and later indexes whose entries still fit.

    A value of a list row is chosen only if the label of its row is chosen, too: `labels` are the indexes of both, and
    in `ranked` each label comes before the other values of its row.
    """

    def left_after(chosen: Iterable[int]) -> int:
        return budget - counter.text(_rendered(entries, chosen))

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


def words_of(
    old: Sequence[AnyMessage],
    earlier: Mapping[str, Any] | None,
    beside: Sequence[AnyMessage] = (),
    *,
    listed: ListedSentences = NOTHING_LISTED,
) -> OwnWords:
    """Return the user's own words in `old` and in the record `earlier`; `beside` and `listed` as in `digest`."""
    start, known = unpack(earlier)
    before = [entry for entry in known if entry.section == "Said"]
    return own_words(old, start, before, beside=beside, listed=listed.rules)


def tokens_of_words(said: OwnWords, counter: TokenCounter) -> int:
    """Return about how many tokens show all of the user's own words."""
    ranked = said.ranked([entry.worth for entry in said.entries])
    return _WORDS_HEADING + sum(_word_cost(said.entries[index], counter) for index in ranked) if ranked else 0
