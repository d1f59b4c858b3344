"""What a digest is made of: entries of five sections, each with its worth, kept as JSON between digests."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

Section = Literal["Goal", "Rules", "Earlier", "Facts", "Steps", "Open"]
SECTIONS: tuple[Section, ...] = get_args(Section)
"""Headings in the order in which a digest shows them."""

VERSION = 1
"""Format of a record; a record of another version is not read."""

_FIELDS = 7


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

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What makes two entries say the same."""
        return (self.section, self.path, self.key, self.value)

    def packed(self) -> list[Any]:
        """The entry as a JSON list, without trailing blanks."""
        fields = [
            SECTIONS.index(self.section),
            self.at,
            round(self.worth, 3),
            self.value,
            self.path,
            self.key,
            self.row,
        ]
        while fields[-1] == "":
            fields.pop()
        return fields


def unpacked(record: Mapping[str, Any] | None) -> tuple[int, list[Entry]]:
    """How many messages a record covers, and its entries; `(0, [])` for none and for a foreign format."""
    if not record or record.get("v") != VERSION:
        return 0, []
    entries = (_entry(fields) for fields in cast("Iterable[Any]", record.get("entries") or ()))
    return int(record.get("count") or 0), [entry for entry in entries if entry]


def _entry(fields: Any) -> Entry | None:
    match [*fields, *[""] * (_FIELDS - len(fields))] if isinstance(fields, list) else None:
        case [
            int(section),
            int(at),
            int() | float() as worth,
            str(value),
            str(path),
            str(key),
            str(row),
        ] if 0 <= section < len(SECTIONS):
            return Entry(SECTIONS[section], at, worth, value, path, row, key)
        case _:
            return None
