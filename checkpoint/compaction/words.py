"""The words of a text, as a search compares them. Pure.

Words are folded to lower case; identifiers stand whole and in their parts; Chinese, Japanese and Korean, which
have no blanks between words, as pairs of neighbors.
"""

import re
from unicodedata import normalize

_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_RUN = re.compile(rf"[{_WIDE}]+|[^\W{_WIDE}]+(?:[-./@:#+'’]+[^\W{_WIDE}]+)*")
_IS_WIDE = re.compile(f"[{_WIDE}]")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_SHORTEST_PLURAL = 4
_MOST = 20_000
"""Stretches of one text whose words are compared, from its start."""


def words(text: str) -> list[str]:
    """Every word of a text in order, repeated ones too."""
    return [word for stretch in stretches(text) for word in words_in(stretch)]


def stretches(text: str) -> list[str]:
    """The parts of a text between blanks and punctuation, in order: words, identifiers, wide characters in a row."""
    return _RUN.findall(normalize("NFKC", text))[:_MOST]


def folded(text: str) -> str:
    """A text in which each of its `words` stands somewhere, letter for letter."""
    return normalize("NFKC", text).casefold()


def singular(word: str) -> str:
    """A word without a plural's s, so that `flights` is found by `flight`; short words and others as they are."""
    return word[:-1] if len(word) >= _SHORTEST_PLURAL and word.endswith("s") and not word.endswith("ss") else word


def words_in(stretch: str) -> list[str]:
    """The words of one of a text's `stretches`."""
    if _IS_WIDE.match(stretch):
        return [stretch[at : at + 2] for at in range(max(1, len(stretch) - 1))]
    whole = stretch.casefold()
    parts = [part.casefold() for part in _PART.findall(stretch)]
    return [whole] if parts == [whole] else [whole, *parts]
