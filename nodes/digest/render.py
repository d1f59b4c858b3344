"""Render a digest's entries as text: under headings, with the facts of one message on one line."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, groupby

from langgraph_compaction.checkpoint.patterns import Pattern

from ..text.identifiers import label_place
from ..text.quoting import ELLIPSIS
from .entry import LATER, REVISES, SECTIONS, Entry, Section

_FAR = 60
"""A row of a list that would end more than this number of characters after the last row with keys shows its keys
again."""

_ELSEWHERE: dict[Section, tuple[Section, ...]] = {
    "Rules": ("Goal", "Open"),
    "Open": ("Rules",),
    "Said": ("Goal", "Open", "Rules"),
}
"""For each section, the other sections that are searched for the words of its entries, so that no sentence is shown
twice."""

_WORD_START = Pattern(r"(?<![^\W⺀-\U0010ffff])\S")
"""Matches a character that can begin a word: no white space, and not preceded by a letter or digit. Chinese and
Japanese write no spaces between words, so there the character may follow a letter."""


Suffixes = dict[str, list[str]]
"""By text, what follows each beginning of a word in it; kept while the same entries are rendered several times."""


def render_entries(entries: Sequence[Entry], suffixes: Suffixes | None = None) -> str:
    """Return the entries as text, in the given order within each section, without repetitions.

    `suffixes` is filled here and makes the next rendering of the same entries faster.
    """
    suffixes = {} if suffixes is None else suffixes
    by_section = defaultdict[Section, list[Entry]](list)
    for entry in entries:
        by_section[entry.section].append(entry)
    parts: list[str] = []
    for section in SECTIONS:
        own = by_section[section]
        if section in _ELSEWHERE:
            own = list(_not_repeated(by_section, section, suffixes))
        lines = list(_fact_lines(own)) if section == "Facts" else [_line(entry) for entry in own]
        if section == "Goal" and lines:
            parts.append(f"{section}: {' '.join(lines)}")
        elif lines:
            parts.append("\n".join([f"{section}:", *(f"- {line}" for line in lines)]))
    return "\n".join(parts)


def _not_repeated(
    by_section: Mapping[Section, Sequence[Entry]], section: Section, suffixes: Suffixes
) -> Iterator[Entry]:
    """Yield a section's entries whose words are in none of the sections that `_ELSEWHERE` lists for this section.

    An open request is left out only if a rule contains it and is longer. An entry with a path is the error of a tool.
    It is never left out, and it is not searched for the words of other entries, so that a tool's text cannot hide
    what a user said.
    """
    elsewhere = chain.from_iterable(by_section[other] for other in _ELSEWHERE[section])
    shown = _Phrases((entry.value for entry in elsewhere if not entry.path), suffixes)
    for entry in by_section[section]:
        if entry.path or not shown.hold(entry.value.rstrip(ELLIPSIS), with_more=section == "Open"):
            yield entry


class _Phrases:
    """Looks up whether a phrase occurs in one of several texts.

    From each beginning of a word, the rest of the text (a suffix) is put into a sorted list, which a binary search
    reads: the time of a look-up grows only with the logarithm of the number of words. The suffixes take little
    memory, because a text has a few hundred characters at most.
    """

    def __init__(self, texts: Iterable[str], suffixes: Suffixes) -> None:
        self._texts = set(texts)
        for text in self._texts - suffixes.keys():
            suffixes[text] = [text[found.start() :] for found in _WORD_START.finditer(text)]
        self._suffixes = sorted(chain.from_iterable([suffixes[text] for text in self._texts]))

    def hold(self, phrase: str, *, with_more: bool) -> bool:
        """Whether one of the texts contains the phrase, beginning at the start of a word.

        With `with_more`, a text that consists of the phrase alone does not count.
        """
        at = bisect_left(self._suffixes, phrase) + (with_more and phrase in self._texts)
        return at < len(self._suffixes) and self._suffixes[at].startswith(phrase)


def _line(entry: Entry) -> str:
    if entry.section in ("Said", "Answers", "Decisions"):
        return f'"{entry.value}"'  # quotation marks show that these are the words of a user or of the assistant
    if entry.section == "Rules" and entry.path == LATER:
        return f"{entry.value} (later: {entry.key})"
    if entry.section == "Rules" and entry.key:
        return f"{entry.value} ({entry.key})" if entry.key == REVISES else f"{entry.value} (was: {entry.key})"
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
