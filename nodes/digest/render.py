"""Render a digest's entries as text: under headings, with the facts of one message on one line."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from ..text.identifiers import label_place
from ..text.quoting import ELLIPSIS
from .entry import SECTIONS, Entry, Section
from .own_words import place_of

_FAR = 60
"""A row of a list that would end more than this number of characters after the last row with keys shows its keys
again."""

OWN_WORDS = "The user's words, oldest first; what is said later holds"
"""Heading of the users' sentences."""


def render_entries(entries: Sequence[Entry]) -> str:
    """Return the entries as text, in the given order within each section."""
    by_section = defaultdict[Section, list[Entry]](list)
    for entry in entries:
        by_section[entry.section].append(entry)
    parts: list[str] = []
    for section in SECTIONS:
        own, heading = by_section[section], OWN_WORDS if section == "Said" else section
        if own:
            parts.append("\n".join([f"{heading}:", *(f"- {line}" for line in _lines(section, own))]))
    return "\n".join(parts)


def _lines(section: Section, own: Sequence[Entry]) -> Iterator[str]:
    if section == "Facts":
        yield from _fact_lines(own)
    elif section == "Said":
        yield from (_message_line(list(group)) for _, group in groupby(own, key=lambda entry: entry.at))
    else:
        yield from map(_line, own)


def _message_line(sentences: Sequence[Entry]) -> str:
    """Return the sentences of one message, with an ellipsis where some are left out."""
    parts, expected, count = list[str](), 0, 0
    for sentence in sentences:
        place, count = place_of(sentence)
        parts += [ELLIPSIS] * (place > expected) + [sentence.value]
        expected = place + 1
    return " ".join([*parts, *([ELLIPSIS] * (expected < count))])


def _line(entry: Entry) -> str:
    if entry.section in ("Answers", "Decisions"):
        return f'"{entry.value}"'  # quotation marks show that these are the words of the assistant
    return f"{entry.path}: {entry.value}" if entry.path else entry.value


def _fact_lines(own: Sequence[Entry]) -> Iterator[str]:
    """Yield one line per message. Facts without a path come first: after a path, they would seem to belong to it."""
    for _, group in groupby(own, key=lambda entry: entry.at):
        yield _fact_line(tuple(sorted(group, key=lambda entry: entry.path != "")))


@lru_cache(maxsize=2_048)
def _fact_line(own: tuple[Entry, ...]) -> str:
    """Return the line of a message's facts. Rows of a list are shown like those of a table.

    The keys of a row are left out if they are the keys of the row before; if only its first key is that of the row
    before, only this key is left out. A row with several values thus shows all of its keys, all but the first, or
    none. Path and keys are shown again if the row would end more than `_FAR` characters after the last row with keys,
    or if a value without a key could be read as one whose key is left out.
    """
    line, path, keys, named_at = "", "", list[str](), 0
    for row_path, row in _rows(own):
        names = [entry.key for entry in row]
        left_out = len(names) if names == keys else int(names[:1] == keys[:1])
        text, values = _cells(row, left_out), _cells(row, len(row))
        is_far = len(line) + len(values) - named_at > _FAR and not values.startswith('"')
        is_unclear = names != keys and "" in names[left_out:]
        if row_path != path or not line or is_far or is_unclear:
            left_out = 0
            text = (f"{row_path}: " if row_path else "") + _cells(row, 0)
        line += f"; {text}" if line else text
        named_at = named_at if left_out == len(row) else len(line)
        path, keys = row_path, names
    return line


def _cells(row: Sequence[Entry], left_out: int) -> str:
    """Return the values of a row, the first `left_out` of them without their keys."""
    return ", ".join(f"{entry.key if at >= left_out else ''} {entry.value}".strip() for at, entry in enumerate(row))


def _rows(own: Sequence[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """Yield path and entries of each row, the label of the row first.

    The rows of a path follow each other, in the order of their first entries.
    """
    paths: dict[str, dict[str, list[Entry]]] = {}
    for entry in own:
        paths.setdefault(entry.path, {}).setdefault(entry.row, []).append(entry)
    for path, rows in paths.items():
        for name, row in rows.items():
            label = label_place([entry.key for entry in row]) if name else None
            yield path, row if label is None else [row[label], *row[:label], *row[label + 1 :]]
