"""Facts of a conversation: identifiers with the words they stood beside, each with its worth.

An identifier is worth the more, the likelier a later call needs it: by its shape and its key, by who used it
(a call, the user, the assistant), by how recently, and the less, the more its message holds (a search result
of 500 rows says little with each of them).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import AnyMessage

from ..conversation.tokens import approximate_counter
from ..text.identifiers import identifiers, is_id_key, key_worth, kind_worth
from .model import Entry
from .value_extraction import Sighting, Source, sightings

_USED: dict[Source, tuple[float, int]] = {
    "call": (1.9, 3),
    "assistant": (2.0, 3),
    "user": (1.8, 2),
    "result": (1.5, 4),
}
"""By who mentions it: the factor of each message that does, and how many messages count."""

_SMALL = 8
_BULK = 0.35
"""A message of up to 8 values takes nothing from their worth; four times as many take 40 % of it."""

_REPEATED = 0.12
"""Worth of an identifier where it stands again, beside the place where it counts."""

_PROSE = 0.5
"""Clarity of a place in prose beside one with keys."""

_ALONE = 0.7
"""Worth of what the assistant alone has said, and no user and no tool: mostly numbers of its own."""

_GAIN, _HIGHEST = 2.0, 10.0
"""Most by which a carried fact gains when it is mentioned again, and the worth at which that ends."""

_EARLIER, _BESIDE = -1, -2

_COST = approximate_counter()

MARK = " (superseded)"
"""What stands behind a value that is no longer true."""

Place = tuple[int, str, str, str]
"""Position of a message; path, row and key in it."""

Field = tuple[str, str, str, str, str]
"""Key and value that name the thing; path, row and key of the field."""

Stated = Entry | Sighting
"""A value of a field, as a message or an earlier digest states it."""


@dataclass
class _Mentions:
    by: Counter[Source] = field(default_factory=Counter[Source])

    @property
    def gain(self) -> float:
        """The product of what each mention adds."""
        return math.prod(factor ** min(self.by[source], most) for source, (factor, most) in _USED.items())

    @property
    def factor(self) -> float:
        """The same, less for what nobody but the assistant has said."""
        return self.gain * (_ALONE if self.by.keys() == {"assistant"} else 1)


def facts(
    old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = (), beside: Sequence[AnyMessage] = ()
) -> list[Entry]:
    """The facts of an earlier digest and of these messages, in reading order.

    `start` is the position of the first message, counted over all digests. What stands `beside` the facts too, in
    messages that stay, counts as a mention, and is worth little here.
    """
    every, near = list(sightings(old, start)), list(sightings(beside, start + len(old)))
    shown = {mark for sighting in near for mark in sighting.marks}
    mentions: defaultdict[str, _Mentions] = defaultdict(_Mentions)
    for sighting, mark in {(s.at, s.source, mark): (s, mark) for s in [*every, *near] for mark in s.marks}.values():
        mentions[mark].by[sighting.source] += 1
    seen = list({(s.at, s.path, s.row, s.key, s.value): s for s in every}.values())
    known = {mark: entry for entry in earlier for mark in identifiers(entry.value)}
    owners = {**_owners(seen, known), **dict.fromkeys(shown, _BESIDE)}
    new = [_scored(index, sighting, mentions, owners, known) for index, sighting in enumerate(seen)]
    found = [*(_carried(entry, mentions, owners) for entry in earlier), *new]
    return _outdated(found, [*earlier, *_read([*every, *near])])


def _read(every: Sequence[Sighting]) -> list[Sighting]:
    """What results state of the very thing that their call named."""
    asked = {(sighting.at, sighting.value) for sighting in every if sighting.source == "call"}
    results = [sighting for sighting in every if sighting.source == "result"]
    about = {s.at for s in results if not s.path and not s.row and (s.at, s.value) in asked}
    return [sighting for sighting in results if sighting.at in about]


def _outdated(found: Sequence[Entry], stated: Sequence[Stated]) -> list[Entry]:
    """The facts, those marked that are no longer true."""
    old = superseded(stated)
    return [
        replace(entry, value=entry.value.removesuffix(MARK) + MARK, worth=entry.worth * _REPEATED)
        if place_of(entry) in old
        else entry
        for entry in found
    ]


def _owners(seen: Sequence[Sighting], known: Mapping[str, Entry]) -> dict[str, int]:
    """Where each value counts: its clearest place, of equals the latest message, and there the first.

    `_EARLIER` where an earlier digest shows it more clearly than any of these.
    """
    best: dict[str, tuple[float, int, int]] = {}
    for index, sighting in enumerate(seen):
        place = (_clarity(sighting) * (_PROSE if sighting.is_prose else 1), sighting.at, -index)
        for mark in sighting.marks:
            best[mark] = max(best.get(mark, place), place)
    owners = {mark: -index for mark, (_, _, index) in best.items()}
    for mark in owners.keys() & known.keys():
        here, there = seen[owners[mark]].key, known[mark].key
        if (bool(here), key_worth(here)) < (bool(there), key_worth(there)):
            owners[mark] = _EARLIER
    return owners


def _clarity(sighting: Sighting) -> float:
    bulk = math.pow(_SMALL / max(_SMALL, sighting.siblings), _BULK)
    return key_worth(sighting.key) * bulk


def _scored(
    index: int,
    sighting: Sighting,
    mentions: Mapping[str, _Mentions],
    owners: Mapping[str, int],
    known: Mapping[str, Entry],
) -> Entry:
    own = [mark for mark in sighting.marks if owners[mark] == index]
    worth = sum(
        (sighting.plain or kind_worth(mark)) * (mentions[mark].factor if owners[mark] == index else _REPEATED)
        for mark in sighting.marks
    )
    cost = 1 + _COST.text(sighting.key) + _COST.text(sighting.value)
    inherited = max((known[mark].worth for mark in own if mark in known), default=0.0)
    return Entry(
        section="Facts",
        at=sighting.at,
        worth=max(inherited, worth * _clarity(sighting) / cost),
        value=sighting.value,
        path=sighting.path,
        row=sighting.row,
        key=sighting.key,
    )


def _carried(entry: Entry, mentions: Mapping[str, _Mentions], owners: Mapping[str, int]) -> Entry:
    """A fact of an earlier digest: worth more when it is mentioned again, little when it stands again."""
    own = identifiers(entry.value)
    again = [mark for mark in own if mark in owners]
    if not again:
        return entry
    if all(owners.get(mark, _EARLIER) != _EARLIER for mark in own):
        return replace(entry, worth=entry.worth * _REPEATED)
    gain = min(_GAIN, max(mentions[mark].gain for mark in again))
    return replace(entry, worth=max(entry.worth, min(_HIGHEST, entry.worth * gain)))


def superseded(stated: Sequence[Stated]) -> set[Place]:
    """Where each statement stands that a later one contradicts."""
    fields = list(_fields(stated))
    latest = {field: one for one, field in sorted(fields, key=lambda named: named[0].at)}
    return {place_of(one) for one, field in fields if _contradicts(latest[field], one)}


def _contradicts(later: Stated, earlier: Stated) -> bool:
    return later.at > earlier.at and later.value.removesuffix(MARK) != earlier.value.removesuffix(MARK)


def place_of(one: Stated) -> Place:
    """Where a statement stands."""
    return one.at, one.path, one.row, one.key


def _fields(stated: Sequence[Stated]) -> Iterator[tuple[Stated, Field]]:
    """The statements about things; what a message without an id of its own states is about nothing known."""
    groups: defaultdict[int, list[Stated]] = defaultdict(list)
    for one in stated:
        groups[one.at].append(one)
    for group in groups.values():
        named = next(filter(_names, group), None)
        if named is not None:
            about = (one for one in group if one.key and one.value != named.value)
            yield from ((one, (named.key, named.value, one.path, one.row, one.key)) for one in about)


def _names(one: Stated) -> bool:
    """Whether this is the id of the thing that a whole message is about."""
    return not one.path and not one.row and is_id_key(one.key) and bool(identifiers(one.value))
