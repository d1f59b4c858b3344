"""The page that a digest shows: its entries under headings, facts of one message on one line."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ..text.quoting import ELLIPSIS
from .model import SECTIONS, Entry, Section

_FAR = 60
"""Characters after which a key is written again, so that each value stands beside its name."""

_ELSEWHERE: dict[Section, tuple[Section, ...]] = {
    "Rules": ("Goal", "Open"),
    "Open": ("Rules",),
    "Said": ("Goal", "Open", "Rules"),
}
"""For a section, the sections that may hold the same words already."""

_WORD_START = re.compile(r"(?<![^\W⺀-\U0010ffff])\S")
"""Any character but white space that follows no letter or digit of a script that puts spaces between words."""


def page(entries: Sequence[Entry]) -> str:
    """The entries as text; those of a section in the order given, none twice."""
    parts: list[str] = []
    for section in SECTIONS:
        own = [entry for entry in entries if entry.section == section]
        if section in _ELSEWHERE:
            own = list(_not_repeated(own, entries, section))
        lines = list(_fact_lines(own)) if section == "Facts" else [_line(entry) for entry in own]
        if section == "Goal" and lines:
            parts.append(f"{section}: {' '.join(lines)}")
        elif lines:
            parts.append("\n".join([f"{section}:", *(f"- {line}" for line in lines)]))
    return "\n".join(parts)


def _not_repeated(own: Sequence[Entry], entries: Sequence[Entry], section: Section) -> Iterator[Entry]:
    """The entries of a section without a rule that stands in the goal or an open request, or a cut request in a rule.

    An entry with a path is a tool's words: it is neither left out nor searched.
    """
    elsewhere = _ELSEWHERE[section]
    shown = _Phrases(entry.value for entry in entries if entry.section in elsewhere and not entry.path)
    for entry in own:
        if entry.path or not shown.hold(entry.value.rstrip(ELLIPSIS), with_more=section == "Open"):
            yield entry


class _Phrases:
    """Texts in which phrases are looked up by binary search: the sorted suffixes that begin where a word begins.

    The cost of a look-up hardly grows with the number of texts. All texts are short: a few hundred characters.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = set(texts)
        self._suffixes = sorted(text[found.start() :] for text in self._texts for found in _WORD_START.finditer(text))

    def hold(self, phrase: str, *, with_more: bool) -> bool:
        """Whether a text contains the phrase, from the beginning of a word on; `with_more`: and is longer than it."""
        at = bisect_left(self._suffixes, phrase) + (with_more and phrase in self._texts)
        return at < len(self._suffixes) and self._suffixes[at].startswith(phrase)


def _line(entry: Entry) -> str:
    if entry.section == "Said":
        return f'"{entry.value}"'  # what somebody said to someone is a quotation in a record
    return f"{entry.path}: {entry.value}" if entry.path else entry.value


def _fact_lines(own: Sequence[Entry]) -> Iterator[str]:
    """One line for each message; what stands in no list comes first, so that nothing is read as a row of one."""
    for _, group in groupby(own, key=lambda entry: entry.at):
        yield _fact_line(sorted(group, key=lambda entry: entry.path != ""))


def _fact_line(own: Sequence[Entry]) -> str:
    line, path, row, lead, named_at = "", "", "", "", 0
    for entry in own:
        far = len(line) - named_at > _FAR and not entry.value.startswith('"')
        new_path, new_row = entry.path != path or not line, entry.row != row
        if line:
            line += "; " if new_path or new_row else ", "
        if entry.path and (new_path or far):
            named_at = len(line)
            line += f"{entry.path}: "
        if entry.key and (new_path or far or not new_row or entry.key != lead):
            named_at = len(line)
            line += f"{entry.key} "
        lead = entry.key if new_path or new_row else lead
        line += entry.value
        path, row = entry.path, entry.row
    return line
