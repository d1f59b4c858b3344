"""What a digest is made of: entries of seven sections, each with its worth."""

from dataclasses import dataclass
from typing import Literal, get_args

Section = Literal["Goal", "Rules", "Earlier", "Facts", "Steps", "Open", "Said"]
SECTIONS: tuple[Section, ...] = get_args(Section)
"""Headings in the order in which a digest shows them."""


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
