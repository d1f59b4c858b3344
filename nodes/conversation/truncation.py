"""A text that is too long, cut where a line or a sentence ends."""

import re

from .tokens import TokenCounter

_END = re.compile(r"[.!?;](?=\s)|[。！？；]|(?=\n)")
_LEAST = 0.5
"""Share of what may stand that a cut at an end keeps; where no end comes so late, the cut is anywhere."""


def within(text: str, *, counter: TokenCounter, tokens: int | None = None, characters: int | None = None) -> str:
    """The text, or a beginning of it that holds at most so many tokens and so many characters."""
    head = text if characters is None else text[:characters]
    head = head if tokens is None else counter.head(head, tokens)
    if len(head) == len(text):
        return text
    ends = [found.end() for found in _END.finditer(text[: len(head) + 1]) if found.end() <= len(head)]
    return head[: ends[-1] if ends and ends[-1] >= len(head) * _LEAST else len(head)].rstrip()
