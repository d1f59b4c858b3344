"""Regular expressions for text that somebody else wrote: their time grows linearly with the length of the text.

Python's `re` backtracks, and it holds the interpreter lock until a call returns: a pattern of quadratic cost lets one
message stop every conversation of the process. Therefore all patterns of this package are made here, in no other
file. One call of `re` reads a bounded number of characters, so that other threads run between the calls. In a
pattern, what repeats is bounded, possessive (`*+`), or followed by something that cannot fail;
`tests/test_patterns.py` computes the cost of each pattern.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

IGNORE_CASE: Final = re.IGNORECASE
MULTILINE: Final = re.MULTILINE

Match = re.Match[str]

SEARCHED_CHARS: Final = 32_768
"""Number of characters that one search reads: a longer text is searched in pieces of this length."""

MATCHED_CHARS: Final = 1_000
"""Number of characters that an `Anchored` pattern reads from the position at which it must match."""

_LONGEST_WORD = 200
"""Number of characters by which a piece is shortened at most, so that it does not end inside a word."""


class _Compiled:
    """A compiled regular expression."""

    def __init__(self, source: str, flags: int = 0) -> None:
        self._compiled = re.compile(source, flags)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source!r})"

    @property
    def source(self) -> str:
        """The regular expression."""
        return self._compiled.pattern

    @property
    def flags(self) -> int:
        """The flags, as `re` combines them with those inside the expression."""
        return self._compiled.flags


class Pattern(_Compiled):
    """A pattern that is searched for in a text of any length.

    A text of more than `SEARCHED_CHARS` characters is searched in pieces that end after a line, else after a space,
    else between two words. A match does not extend over the end of a piece.
    """

    def finditer(self, text: str, start: int = 0, end: int | None = None) -> Iterator[Match]:
        """Yield the matches between two positions, which do not overlap, in order."""
        stop = len(text) if end is None else min(end, len(text))
        if stop - start <= SEARCHED_CHARS:
            return self._compiled.finditer(text, start, stop)
        return self._in_pieces(text, start, stop)

    def _in_pieces(self, text: str, start: int, end: int) -> Iterator[Match]:
        last: tuple[int, int] | None = None
        for begin, stop in _pieces(text, start, end):
            for found in self._compiled.finditer(text, begin, stop):
                if found.span() != last:  # an empty match at the border of two pieces is found in both
                    yield found
                last = found.span()

    def search(self, text: str, start: int = 0, end: int | None = None) -> Match | None:
        """Return the first match between two positions, or `None`."""
        if (len(text) if end is None else end) - start <= SEARCHED_CHARS:
            return self._compiled.search(text, start, len(text) if end is None else end)
        return next(self.finditer(text, start, end), None)

    def findall(self, text: str) -> list[Any]:
        """Return every match: its text, or its groups if the pattern has some, as `re.findall` does."""
        if len(text) <= SEARCHED_CHARS:
            return self._compiled.findall(text)
        return [
            found
            for begin, stop in _pieces(text, 0, len(text))
            for found in self._compiled.findall(text, begin, stop)
        ]

    def sub(self, new: str | Callable[[Match], str], text: str) -> str:
        """Return the text with each match replaced by `new`, a text that is taken literally, or by its result."""
        if self.search(text) is None:
            return text
        parts, at = list[str](), 0
        for found in self.finditer(text):
            parts += (text[at : found.start()], new if isinstance(new, str) else new(found))
            at = found.end()
        return "".join([*parts, text[at:]])

    def split(self, text: str) -> list[str]:
        """Return the texts before, between and after the matches."""
        parts, at = list[str](), 0
        for found in self.finditer(text):
            parts.append(text[at : found.start()])
            at = found.end()
        return [*parts, text[at:]]


class Anchored(_Compiled):
    """A pattern that must match at a given position of a text, and reads at most `MATCHED_CHARS` characters there."""

    def match(self, text: str, start: int = 0) -> Match | None:
        """Return the match that begins at `start`, or `None`."""
        return self._compiled.match(text, start, start + MATCHED_CHARS)

    def fullmatch(self, text: str) -> Match | None:
        """Return the match of the whole text, or `None`; a text longer than `MATCHED_CHARS` does not match."""
        return self._compiled.fullmatch(text) if len(text) <= MATCHED_CHARS else None

    def remove_prefix(self, text: str) -> str:
        """Return the text without the match at its beginning."""
        found = self.match(text)
        return text[found.end() :] if found else text


def escape(text: str) -> str:
    """Return a pattern that matches a text verbatim."""
    return re.escape(text)


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the positions at which the pieces of a text begin and end; an empty text is one empty piece."""
    while end - start > SEARCHED_CHARS:
        stop = _cut(text, start + SEARCHED_CHARS)
        yield start, stop
        start = stop
    yield start, end


def _cut(text: str, end: int) -> int:
    """Return where a piece ends that has to end at `end` or up to half its length before."""
    for space in ("\n", " "):
        place = text.rfind(space, end - SEARCHED_CHARS // 2, end)
        if place >= 0:
            return place + 1
    return next((at for at in range(end, end - _LONGEST_WORD, -1) if not text[at - 1].isalnum()), end)
