"""Render a digest's entries as text: under headings, with the facts of one message on one line."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby

from langgraph_compaction.checkpoint.patterns import Pattern

from ..text.quoting import ELLIPSIS
from .entry import LATER, REVISES, SECTIONS, Entry, Section

_FAR = 60
"""If the last key of a line is more than this number of characters back, the next value gets its key again."""

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
    parts: list[str] = []
    for section in SECTIONS:
        own = [entry for entry in entries if entry.section == section]
        if section in _ELSEWHERE:
            own = list(_not_repeated(own, entries, section, suffixes))
        lines = list(_fact_lines(own)) if section == "Facts" else [_line(entry) for entry in own]
        if section == "Goal" and lines:
            parts.append(f"{section}: {' '.join(lines)}")
        elif lines:
            parts.append("\n".join([f"{section}:", *(f"- {line}" for line in lines)]))
    return "\n".join(parts)


def _not_repeated(
    own: Sequence[Entry], entries: Sequence[Entry], section: Section, suffixes: Suffixes
) -> Iterator[Entry]:
    """Yield a section's entries whose words are in none of the sections that `_ELSEWHERE` lists for this section.

    An open request is left out only if a rule contains it and is longer. An entry with a path is the error of a tool.
    It is never left out, and it is not searched for the words of other entries, so that a tool's text cannot hide
    what a user said.
    """
    elsewhere = _ELSEWHERE[section]
    shown = _Phrases((entry.value for entry in entries if entry.section in elsewhere and not entry.path), suffixes)
    for entry in own:
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
    if entry.section in ("Said", "Answers"):
        return f'"{entry.value}"'  # quotation marks show that these are the words of a user or of the assistant
    if entry.section == "Rules" and entry.path == LATER:
        return f"{entry.value} (later: {entry.key})"
    if entry.section == "Rules" and entry.key:
        return f"{entry.value} ({entry.key})" if entry.key == REVISES else f"{entry.value} (was: {entry.key})"
    return f"{entry.path}: {entry.value}" if entry.path else entry.value


def _fact_lines(own: Sequence[Entry]) -> Iterator[str]:
    """Yield one line per message. Facts without a path come first: after a path, they would seem to belong to it."""
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
