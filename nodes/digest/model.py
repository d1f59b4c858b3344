"""What a digest is made of: entries of seven sections, each with its worth."""

import json
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

Section = Literal["Goal", "Rules", "Earlier", "Facts", "Steps", "Open", "Said"]
SECTIONS: tuple[Section, ...] = get_args(Section)
"""Headings in the order in which a digest shows them."""

VERSION = 1
"""Format of a record; a record of another version is not read."""

RECORD_BYTES = 6
"""Bytes of a record for each token of the digest's budget."""

RECORD_LEAST = 256
"""Bytes that a record may always hold."""

_ENVELOPE, _SMALLEST = 64, 16
"""Bytes of a record without entries, and of its smallest entry."""

_WORTH = 1000
_NUMBERS = 6
"""A row of a record: section, position, path, row of a list, key, worth in thousandths, then the text."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a section, or one `key value` of the facts. Every text is one escaped line."""

    section: Section
    at: int
    """Position of its message, counted over all digests of the conversation."""
    worth: float
    """Value of a token spent on it, before its age counts."""
    value: str
    path: str = ""
    """Keys that lead to a fact, dotted, without its own; or who said it."""
    row: str = ""
    """Which element of the lists on that path."""
    key: str = ""


def record_limit(budget: int) -> int:
    """The most bytes that the record of a digest of `budget` tokens holds, as `record_bytes` counts them."""
    return max(RECORD_LEAST, RECORD_BYTES * budget)


def record_bytes(value: Any) -> int:
    """Bytes of a value as JSON in UTF-8 without blanks."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def pack(entries: Sequence[Entry], ranked: Iterable[int], count: int, limit: int) -> dict[str, Any]:
    """A record of `count` messages with the entries that stand first in the ranking, in reading order.

    Keys and paths stand once, in `names`; the rows of lists become numbers.
    """
    left = limit - _ENVELOPE
    names, lists, kept = {"": 0}, {"": 0}, dict[int, list[Any]]()
    for index in dict.fromkeys(ranked):
        entry = entries[index]
        unknown = dict.fromkeys(name for name in (entry.path, entry.key) if name not in names)
        new = {name: len(names) + place for place, name in enumerate(unknown)}
        row = _row(entry, ChainMap(new, names), lists)
        size = record_bytes(row) + 1 + sum(record_bytes(name) + 1 for name in new)
        if size <= left:
            names.update(new)
            lists.setdefault(entry.row, len(lists))
            kept[index] = row
            left -= size
        if left < _SMALLEST:
            break
    return {"v": VERSION, "count": count, "names": list(names), "entries": [kept[i] for i in sorted(kept)]}


def _row(entry: Entry, names: Mapping[str, int], lists: Mapping[str, int]) -> list[Any]:
    place = lists.get(entry.row, len(lists))
    worth = max(1, round(_WORTH * entry.worth))
    section = SECTIONS.index(entry.section)
    return [section, entry.at, names[entry.path], place, names[entry.key], worth, entry.value]


def unpack(record: Mapping[str, Any] | None) -> tuple[int, list[Entry]]:
    """How many messages a record covers, and its entries; `(0, [])` for none and for a foreign format."""
    if not record or record.get("v") != VERSION:
        return 0, []
    count, names, rows = (record.get(key) for key in ("count", "names", "entries"))
    if not isinstance(count, int) or not isinstance(names, list) or not isinstance(rows, list):
        return 0, []
    return count, [entry for row in rows if (entry := _entry(row, names))]


def _entry(row: Any, names: Sequence[Any]) -> Entry | None:
    if not isinstance(row, list) or len(row) != _NUMBERS + 1 or not isinstance(row[-1], str):
        return None
    numbers = row[:_NUMBERS]
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        return None
    section, at, path, place, key, worth = numbers
    if section >= len(SECTIONS) or max(path, key) >= len(names):
        return None
    where = {"path": str(names[path]), "key": str(names[key]), "row": str(place) if place else ""}
    return Entry(section=SECTIONS[section], at=at, worth=worth / _WORTH, value=row[-1], **where)
