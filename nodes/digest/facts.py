"""Extract facts from a conversation: identifiers with their keys or surrounding words, each with its worth.

The worth of an identifier estimates how likely a later call needs it. It depends on the identifier's shape and key,
on who mentioned it (a call, the user, the assistant) and how recently. An identifier's worth decreases with
the number of values in its message: each row of a search result of 500 rows matters little.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import AnyMessage

from ..conversation.tokens import approximate_counter
from ..text.identifiers import has_identifier, identifiers, is_id_key, is_name_key, key_worth, kind_worth, label_place
from .entry import Entry
from .value_extraction import ExtractedValue, Source, extract_values

_USED: dict[Source, tuple[float, int]] = {
    "call": (1.9, 3),
    "assistant": (2.0, 3),
    "user": (1.8, 2),
    "result": (1.5, 4),
}
"""For each source, the factor by which one message that mentions an identifier multiplies its worth, and the number
of messages after which further mentions change nothing."""

_FREE_VALUES = 8
_SIZE_EXPONENT = 0.35
"""The facts of a message with at most `_FREE_VALUES` values keep their full worth. With four times as many values,
the exponent reduces their worth by 40 %."""

_REPEATED = 0.12
"""Factor for the worth of every occurrence of an identifier but the clearest one: to show an identifier once is
enough."""

_IN_PROSE = 0.5
"""Factor by which an occurrence in prose counts as less clear than one under a key; `_owners` chooses the
clearest."""

_ASSISTANT_ONLY = 0.7
"""Factor for the worth of an identifier that only the assistant mentioned: mostly a number that the assistant made
up."""

_GAIN, _HIGHEST = 2.0, 10.0
"""If new messages mention a fact of an earlier digest again, its worth grows at most by the factor `_GAIN`, and at
most to `_HIGHEST`."""

_EARLIER, _BESIDE = -1, -2

_COST = approximate_counter()

SUPERSEDED = " (superseded)"
"""Suffix of a fact's value after a later message gave another value for the same field of the same object."""

Place = tuple[int, str, str, str]
"""Location of a value: the position of its message, and the value's path, row and key in the message."""

Field = tuple[str, str, str, str, str]
"""A field of an identified object: key and value of the object's id; path, row and key of the field."""

Statement = Entry | ExtractedValue
"""A value of a field, stated by a message or by an earlier digest."""


@dataclass
class _Mentions:
    by: Counter[Source] = field(default_factory=Counter[Source])

    @property
    def gain(self) -> float:
        """Product of the factors that `_USED` gives for the messages that mention the identifier."""
        return math.prod(factor ** min(self.by[source], most) for source, (factor, most) in _USED.items())

    @property
    def factor(self) -> float:
        """Factor for the identifier's worth: `gain`, reduced if only the assistant mentioned the identifier."""
        return self.gain * (_ASSISTANT_ONLY if self.by.keys() == {"assistant"} else 1)


def facts(
    old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = (), beside: Sequence[AnyMessage] = ()
) -> list[Entry]:
    """Return the facts of an earlier digest (`earlier`), then those of the messages `old`, in reading order.

    `start` is the number of messages that earlier digests covered: the position of the first message. An identifier
    that also occurs in `beside`, the messages that the model continues to see, gets little worth because the model
    still sees it there.
    """
    every = _rows_apart(list(extract_values(old, start)))
    near = list(extract_values(beside, start + len(old)))
    shown = {mark for occurrence in near for mark in occurrence.marks}
    mentions: defaultdict[str, _Mentions] = defaultdict(_Mentions)
    for occurrence, mark in {(s.at, s.source, mark): (s, mark) for s in [*every, *near] for mark in s.marks}.values():
        mentions[mark].by[occurrence.source] += 1
    seen = list({(s.at, s.path, s.row, s.key, s.value): s for s in every}.values())
    carried = [(entry, identifiers(entry.value)) for entry in earlier]
    known = {mark: entry for entry, own in carried for mark in own}
    owners = {**_owners(seen, known), **dict.fromkeys(shown, _BESIDE)}
    new = [_scored(index, occurrence, mentions, owners, known) for index, occurrence in enumerate(seen)]
    found = [*(_carried(entry, own, mentions, owners) for entry, own in carried), *new]
    return _mark_superseded(found, [*earlier, *object_lookups([*every, *near])])


def object_lookups(every: Sequence[ExtractedValue]) -> list[ExtractedValue]:
    """Return the values of the tool results that describe one object, which their call had asked for.

    Such a result repeats a value of the call's arguments outside any list. Only these results may make earlier facts
    superseded: the rows of a list, such as search results, say nothing about the object that was asked for.
    """
    asked = {(occurrence.at, occurrence.value) for occurrence in every if occurrence.source == "call"}
    results = [occurrence for occurrence in every if occurrence.source == "result"]
    about = {s.at for s in results if not s.path and not s.row and (s.at, s.value) in asked}
    return [occurrence for occurrence in results if occurrence.at in about]


def _mark_superseded(found: Sequence[Entry], stated: Sequence[Statement]) -> list[Entry]:
    """Return the facts `found`, with the mark `(superseded)` on those that a later one of `stated` contradicts."""
    old = superseded(stated)
    return [
        replace(entry, value=entry.value.removesuffix(SUPERSEDED) + SUPERSEDED, worth=entry.worth * _REPEATED)
        if place_of(entry) in old
        else entry
        for entry in found
    ]


def _owners(seen: Sequence[ExtractedValue], known: Mapping[str, Entry]) -> dict[str, int]:
    """Return, for each identifier, the index of the occurrence that gets the identifier's full worth.

    This is the clearest occurrence: its key names an id, and few other values are in its message. Of equally clear
    occurrences it is the first one in the latest message. `_EARLIER` in place of an index means that an earlier
    digest's entry has a clearer key.
    """
    best: dict[str, tuple[float, int, int]] = {}
    for index, occurrence in enumerate(seen):
        place = (_clarity(occurrence) * (_IN_PROSE if occurrence.is_prose else 1), occurrence.at, -index)
        for mark in occurrence.marks:
            best[mark] = max(best.get(mark, place), place)
    owners = {mark: -index for mark, (_, _, index) in best.items()}
    for mark in owners.keys() & known.keys():
        here, there = seen[owners[mark]].key, known[mark].key
        if (bool(here), key_worth(here)) < (bool(there), key_worth(there)):
            owners[mark] = _EARLIER
    return owners


def _clarity(occurrence: ExtractedValue) -> float:
    bulk = math.pow(_FREE_VALUES / max(_FREE_VALUES, occurrence.siblings), _SIZE_EXPONENT)
    return key_worth(occurrence.key) * bulk


def _scored(
    index: int,
    occurrence: ExtractedValue,
    mentions: Mapping[str, _Mentions],
    owners: Mapping[str, int],
    known: Mapping[str, Entry],
) -> Entry:
    own = [mark for mark in occurrence.marks if owners[mark] == index]
    worth = math.fsum(
        (occurrence.plain or kind_worth(mark)) * (mentions[mark].factor if owners[mark] == index else _REPEATED)
        for mark in occurrence.marks
    )
    cost = 1 + _COST.text(occurrence.key) + _COST.text(occurrence.value)
    inherited = max((known[mark].worth for mark in own if mark in known), default=0.0)
    return Entry(
        section="Facts",
        at=occurrence.at,
        worth=max(inherited, worth * _clarity(occurrence) / cost),
        value=occurrence.value,
        path=occurrence.path,
        row=occurrence.row,
        key=occurrence.key,
    )


def _carried(entry: Entry, own: Sequence[str], mentions: Mapping[str, _Mentions], owners: Mapping[str, int]) -> Entry:
    """Return an earlier digest's fact: worth more if new messages mention it, less if a new fact shows it too.

    `own` are the identifiers in the fact's value.
    """
    again = [mark for mark in own if mark in owners]
    if not again:
        return entry
    if all(owners.get(mark, _EARLIER) != _EARLIER for mark in own):
        return replace(entry, worth=entry.worth * _REPEATED)
    gain = min(_GAIN, max(mentions[mark].gain for mark in again))
    return replace(entry, worth=max(entry.worth, min(_HIGHEST, entry.worth * gain)))


def superseded(stated: Sequence[Statement]) -> set[Place]:
    """Return the locations of statements that a later statement about the same field contradicts."""
    fields = list(fields_of(stated))
    latest = {field: one for one, field in sorted(fields, key=lambda named: named[0].at)}
    return {place_of(one) for one, field in fields if _contradicts(latest[field], one)}


def _contradicts(later: Statement, earlier: Statement) -> bool:
    return later.at > earlier.at and later.value.removesuffix(SUPERSEDED) != earlier.value.removesuffix(SUPERSEDED)


def place_of(one: Statement) -> Place:
    """Return the location of a statement."""
    return one.at, one.path, one.row, one.key


def fields_of(stated: Sequence[Statement]) -> Iterator[tuple[Statement, Field]]:
    """Yield each statement with its field, from those messages that name the id of the object that they describe."""
    groups: defaultdict[int, list[Statement]] = defaultdict(list)
    for one in stated:
        groups[one.at].append(one)
    for group in groups.values():
        named = next(filter(_is_object_id, group), None)
        if named is not None:
            about = (one for one in group if one.key and one.value != named.value)
            yield from ((one, (named.key, named.value, one.path, one.row, one.key)) for one in about)


def _is_object_id(one: Statement) -> bool:
    """Whether this is the id of the object that the message describes: an identifier under an id key, in no list."""
    return not one.path and not one.row and is_id_key(one.key) and has_identifier(one.value)


def _rows_apart(every: Sequence[ExtractedValue]) -> list[ExtractedValue]:
    """Return the values, with another name for a row of a call's arguments that is no row of the call's result.

    Arguments and result may both have a list under the same path. Their rows at the same place describe the same
    thing only if they have the same label, which is a value under the key of an id or a name.
    """
    labels: defaultdict[tuple[int, str, str], defaultdict[Source, dict[str, str]]]
    labels = defaultdict(lambda: defaultdict(dict))
    for one in every:
        if one.row and one.source in ("call", "result"):
            own = labels[one.at, one.path, one.row][one.source]
            if is_id_key(one.key) or is_name_key(one.key):
                own[one.key] = one.value
    other = {place for place, own in labels.items() if len(own) > 1 and not _agree(own["call"], own["result"])}
    return [
        replace(one, row=f"call {one.row}") if one.source == "call" and (one.at, one.path, one.row) in other else one
        for one in every
    ]


def _agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two rows have the same labels under all keys that both have, and at least one such key."""
    both = one.keys() & other.keys()
    return bool(both) and all(one[key] == other[key] for key in both)


def row_labels(entries: Sequence[Entry]) -> dict[int, int]:
    """Return, for the index of each fact in a list row, the index of the fact that says which row it is.

    A row that has no such fact is left out.
    """
    rows: defaultdict[tuple[int, str, str], list[int]] = defaultdict(list)
    for index, entry in enumerate(entries):
        if entry.section == "Facts" and entry.row:
            rows[entry.at, entry.path, entry.row].append(index)
    found: dict[int, int] = {}
    for row in rows.values():
        place = label_place([entries[index].key for index in row])
        found.update(dict.fromkeys(row, row[place]) if place is not None else {})
    return found
