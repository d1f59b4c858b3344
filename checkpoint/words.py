"""The words of a text, as every full-text index is given them: the three databases then find the same. Pure.

Words are folded to lower case; identifiers stand whole and in their parts; Chinese, Japanese and Korean, which
have no blanks between words, as pairs of neighbours.
"""

import re
from collections.abc import Iterator
from hashlib import blake2b
from unicodedata import normalize

_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_RUN = re.compile(rf"[{_WIDE}]+|[^\W{_WIDE}]+(?:[-./@:#+'’]+[^\W{_WIDE}]+)*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_OTHER = re.compile(r"[^a-z0-9]")
_LONGEST = 40
_SHORTEST_PLURAL = 4
_MOST = 20_000
"""Words of one text that are indexed."""


def words(text: str) -> list[str]:
    """Every word of a text in order, repeated ones too."""
    return [word for run in _RUN.findall(normalize("NFKC", text)) for word in _words(run)][:_MOST]


def encoded(word: str) -> str:
    """A word as nothing but a-z and 0-9, which every index takes for one word; long ones by their beginning."""
    plain = _OTHER.sub(lambda found: f"x{ord(found[0]):x}y", word)
    return plain if len(plain) <= _LONGEST else plain[:20] + blake2b(plain.encode(), digest_size=8).hexdigest()


def singular(word: str) -> str:
    """A word without a plural's s, so that `flights` is found by `flight`; short words and others as they are."""
    return word[:-1] if len(word) >= _SHORTEST_PLURAL and word.endswith("s") and not word.endswith("ss") else word


def _words(run: str) -> Iterator[str]:
    if re.match(f"[{_WIDE}]", run):
        yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))
        return
    whole = run.casefold()
    yield whole
    parts = [part.casefold() for part in _PART.findall(run)]
    if parts != [whole]:
        yield from parts
