"""The entries of a digest, and the JSON record from which the next digest reads these entries."""

import json
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

Section = Literal["Said", "Earlier", "Facts", "Steps", "Open", "Answers", "Decisions"]
SECTIONS: tuple[Section, ...] = get_args(Section)
"""The sections in the order in which a digest shows them."""

VERSION = 2
"""Format version of a record; a record of another version is ignored."""

RECORD_BYTES_PER_TOKEN = 6
"""Number of bytes that a record may take for each token of the digest's budget."""

MIN_RECORD_BYTES = 256
"""Number of bytes that a record may always take, however small the digest's budget is."""

_ENVELOPE, _SMALLEST, _ROW = 64, 16, 24
"""Number of bytes of a record without entries, of the smallest entry, and of an entry beside its texts."""

_WORTH_SCALE = 1000
_ROW_NUMBERS = 6
"""Number of integers at the beginning of a row, the list by which a record stores one entry: section, position, path,
list row, key, and worth in thousandths. The entry's text follows them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a digest: a line of a section, or a pair `key value` in the section of the facts.

    `value`, `path` and `key` contain no line break and no `<`, so that they cannot look like a heading or a tag.
    """

    section: Section
    at: int
    """Position of the entry's message, counted from the first message that any digest of the conversation covered."""
    worth: float
    """Estimate of how useful the entry is to the model, per token. `digest` reduces it by the entry's age when it
    ranks the entries."""
    value: str
    path: str = ""
    """Of a fact: the keys from the outermost JSON object to the innermost list around it, joined by dots. Of a
    quotation: who said it. Of a tool's error: the name of the tool."""
    row: str = ""
    """Indexes of the list elements on the entry's path, joined by dots."""
    key: str = ""
    """Of a fact: the keys from the innermost list (or the outermost object) to its value, joined by dots. Of a user's
    sentence: its place in the message, and the number of the message's sentences, as in `0/3`."""


def record_limit(budget: int) -> int:
    """Return the maximum size of the record of a digest of `budget` tokens, in bytes (see `record_bytes`)."""
    return max(MIN_RECORD_BYTES, RECORD_BYTES_PER_TOKEN * budget)


def record_bytes(value: Any) -> int:
    """Return the number of bytes of a value as compact JSON in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def entry_bytes(entry: Entry) -> int:
    """Return about how many bytes of a record an entry takes."""
    return _ROW + record_bytes(entry.value) + record_bytes(entry.key)


def pack(entries: Sequence[Entry], ranked: Iterable[int], count: int, limit: int) -> dict[str, Any]:
    """Return the record of a digest of `count` messages, in at most `limit` bytes.

    `ranked` lists indexes of `entries`, most valuable first. Entries are added in this order as long as they fit, and
    stored in the order of `entries`. Each key and path is stored once, in `names`, and a row refers to it by its
    number. Different list rows get different numbers; their indexes are not stored.
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
    worth = max(1, round(_WORTH_SCALE * entry.worth))
    section = SECTIONS.index(entry.section)
    return [section, entry.at, names[entry.path], place, names[entry.key], worth, entry.value]


def unpack(record: Mapping[str, Any] | None) -> tuple[int, list[Entry]]:
    """Return (number of messages covered, entries) of a record; `(0, [])` for `None` or an unknown format."""
    if not record or record.get("v") != VERSION:
        return 0, []
    count, names, rows = (record.get(key) for key in ("count", "names", "entries"))
    if not isinstance(count, int) or not isinstance(names, list) or not isinstance(rows, list):
        return 0, []
    return count, [entry for row in rows if (entry := _entry(row, names))]


def _entry(row: Any, names: Sequence[Any]) -> Entry | None:
    if not isinstance(row, list) or len(row) != _ROW_NUMBERS + 1 or not isinstance(row[-1], str):
        return None
    numbers = row[:_ROW_NUMBERS]
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        return None
    section, at, path, place, key, worth = numbers
    if section >= len(SECTIONS) or max(path, key) >= len(names):
        return None
    where = {"path": str(names[path]), "key": str(names[key]), "row": str(place) if place else ""}
    return Entry(section=SECTIONS[section], at=at, worth=worth / _WORTH_SCALE, value=row[-1], **where)
