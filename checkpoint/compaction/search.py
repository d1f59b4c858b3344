"""Full-text search over a thread's archive: every archived message is read, those with a word are ranked.

There is no index: it would keep the words of a thread in plain text, beside a body that may be encrypted, and
SQLite's keeps them after the thread is erased. The scan is the same on every database.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage

from ..messages.message_codec import handle
from .transcript import clipped_from, is_original, retells
from .words import folded, singular, stretches, words, words_in

_SATURATION, _LENGTH = 1.2, 0.75
_QUERY_WORDS = 64
_STRETCHES = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A message of the archive that a search found."""

    message: BaseMessage
    handle: str
    """By which `recall` gives it back."""
    compaction_id: str
    """The compaction that took it out of view first."""
    archived_at: float
    """When, in seconds of the wall clock."""
    score: float
    """Higher is better; comparable within one search only."""


class Match(NamedTuple):
    """What a text holds of a query."""

    counts: Mapping[str, int]
    """How often it holds each word of the query that it holds at all."""
    length: int
    """How many words the text has."""


@dataclass(frozen=True, slots=True)
class Hits:
    """The texts with a word of a query, by their numbers."""

    scores: Mapping[int, float] = field(default_factory=dict[int, float])
    words: Mapping[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])
    """Which of the query's words each holds."""


def text_of(message: BaseMessage) -> str:
    """Return what is searched of a message: its text, its name, and its calls."""
    calls = (
        [f"{call['name']} {call['args']}" for call in message.tool_calls] if isinstance(message, AIMessage) else []
    )
    return "\n".join([message.text, message.name or "", *calls])


def scan(query: str, messages: Iterable[tuple[int, BaseMessage]]) -> Hits:
    """Return the messages with a word of the query, in singular or plural; nothing is a syntax error.

    A query without a word reads no message.
    """
    asked = list(dict.fromkeys(map(singular, words(query)[:_QUERY_WORDS])))
    find = Finding(asked)
    found = ((seq, find.match(text_of(message))) for seq, message in (messages if asked else ()))
    matches = {seq: match for seq, match in found if match is not None}
    scores = ranked(asked, matches)
    return Hits(scores, {seq: frozenset(matches[seq].counts) for seq in scores})


class Finding:
    """Finds words in many texts. What a stretch of a text comes to is kept for the next text."""

    def __init__(self, asked: Sequence[str]) -> None:
        self._asked = frozenset(asked)
        self._known: set[str] = set()
        self._special: dict[str, tuple[int, Sequence[str]]] = {}
        """(how many words, which of them are asked for) of the known stretches that are not just another word."""

    def match(self, text: str) -> Match | None:
        """Return what a text holds of the words that are asked for; None where it holds none of them."""
        whole = folded(text)
        if not any(word in whole for word in self._asked):  # to take a text apart costs ten times as much
            return None
        found = Counter(stretches(text))
        self._learn(found.keys() - self._known)
        length, counts = found.total(), dict[str, int]()
        for stretch in found.keys() & self._special.keys():
            size, held = self._special[stretch]
            length += (size - 1) * found[stretch]
            for word in held:
                counts[word] = counts.get(word, 0) + found[stretch]
        if len(self._known) > _STRETCHES:
            self._known.clear()
            self._special.clear()
        return Match(counts, length) if counts else None

    def _learn(self, new: Iterable[str]) -> None:
        for stretch in new:
            found = list(map(singular, words_in(stretch)))
            held = [word for word in found if word in self._asked]
            self._known.add(stretch)
            if held or len(found) > 1:
                self._special[stretch] = len(found), held


def ranked(asked: Sequence[str], matches: Mapping[int, Match]) -> dict[int, float]:
    """Score texts by BM25 over these texts alone (Robertson & Zaragoza 2009); those without any word are left out."""
    usual = sum(match.length for match in matches.values()) / max(1, len(matches)) or 1.0
    scores: dict[int, float] = {}
    for word in asked:
        having = [(seq, match) for seq, match in matches.items() if word in match.counts]
        rarity = math.log(1 + (len(matches) - len(having) + 0.5) / (len(having) + 0.5))
        for seq, match in having:
            often, long = match.counts[word], match.length / usual
            weight = often * (_SATURATION + 1) / (often + _SATURATION * (1 - _LENGTH + _LENGTH * long))
            scores[seq] = scores.get(seq, 0.0) + rarity * weight
    return scores


def originals_first(
    order: Sequence[int], held: Mapping[int, BaseMessage], words: Mapping[int, frozenset[str]]
) -> list[int]:
    """Put what stands for other messages behind them, or leave it out where it adds nothing.

    A clipped message adds nothing where its original is among those held; what retells adds nothing where originals
    have its words.
    """
    whole = [seq for seq in order if is_original(held[seq])]
    names = {handle(held[seq]) for seq in whole}
    said = frozenset[str]().union(*(words[seq] for seq in whole))
    clipped = [seq for seq in order if (name := clipped_from(held[seq])) is not None and name not in names]
    return [*whole, *clipped, *(seq for seq in order if retells(held[seq]) and not words[seq] <= said)]
