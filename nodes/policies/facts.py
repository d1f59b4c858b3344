"""Facts of a conversation: identifiers with the words they stood beside, each with its worth (METRICS).

An identifier is worth the more, the likelier a later call needs it: by its shape and its key, by who used it
(a call, the user, the assistant), by how recently, and the less, the more its message holds (a search result
of 500 rows says little with each of them).
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import AnyMessage

from .entries import Entry
from .identifiers import identifiers, key_worth, kind_worth
from .sightings import Sighting, Source, sightings
from .tokens import approximate_counter

_USED: dict[Source, tuple[float, int]] = {
    "call": (1.9, 3),
    "assistant": (1.4, 3),
    "user": (1.3, 2),
    "result": (1.1, 4),
}
"""By who mentions it: the factor of each message that does, and how many messages count."""

_SMALL = 8
_BULK = 0.4
"""A message of up to 8 values takes nothing from their worth; each doubling beyond takes a quarter."""

_REPEATED = 0.12
"""Worth of an identifier where it stands again, beside the place where it counts."""

_UNUSED = 0.5
"""Worth of what only the user or the assistant said, and no tool: mostly numbers and names in prose."""

_GAIN = 2.0
"""Most by which a carried fact gains when it is mentioned again."""

_COST = approximate_counter()


@dataclass
class _Mentions:
    by: Counter[Source]

    @property
    def factor(self) -> float:
        product = 1.0
        for source, (factor, most) in _USED.items():
            product *= factor ** min(self.by[source], most)
        return product if self.by["result"] or self.by["call"] else product * _UNUSED


def facts(old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """The facts of these messages and of an earlier digest, in reading order, none twice.

    `start` is the position of the first message, counted over all digests.
    """
    seen = list(sightings(old, start))
    mentions: defaultdict[str, _Mentions] = defaultdict(lambda: _Mentions(Counter()))
    for _, source, mark in {(s.at, s.source, mark) for s in seen for mark in s.marks}:
        mentions[mark].by[source] += 1
    owners = _owners(seen)
    new = [_scored(index, sighting, mentions, owners) for index, sighting in enumerate(seen)]
    return [*(_carried(entry, mentions) for entry in earlier), *new]


def _owners(seen: Sequence[Sighting]) -> dict[str, int]:
    """Where each value counts: its clearest place, of equals the latest message, and there the first."""
    best: dict[str, tuple[float, int, int]] = {}
    for index, sighting in enumerate(seen):
        place = (_clarity(sighting), sighting.at, -index)
        for mark in sighting.marks:
            best[mark] = max(best.get(mark, place), place)
    return {mark: -index for mark, (_, _, index) in best.items()}


def _clarity(sighting: Sighting) -> float:
    bulk = (_SMALL / max(_SMALL, sighting.siblings)) ** _BULK
    return key_worth(sighting.key) * bulk


def _scored(index: int, sighting: Sighting, mentions: dict[str, _Mentions], owners: dict[str, int]) -> Entry:
    worth = sum(
        (sighting.plain or kind_worth(mark)) * mentions[mark].factor * (1.0 if owners[mark] == index else _REPEATED)
        for mark in sighting.marks
    )
    cost = 1 + _COST.text(sighting.key) + _COST.text(sighting.value)
    return Entry(
        "Facts",
        sighting.at,
        worth * _clarity(sighting) / cost,
        sighting.value,
        sighting.path,
        sighting.row,
        sighting.key,
    )


def _carried(entry: Entry, mentions: dict[str, _Mentions]) -> Entry:
    """A fact of an earlier digest gains by what mentions it again."""
    factor = max((mentions[m].factor for m in identifiers(entry.value) if m in mentions), default=1.0)
    return replace(entry, worth=entry.worth * min(factor, _GAIN))
