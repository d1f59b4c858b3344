"""What a recall answers: originals with where they come from, within so many tokens (METRICS, recoverability)."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from langchain_core.messages import BaseMessage

from langgraph_compaction.checkpoint import Found
from langgraph_compaction.checkpoint.words import words

from .tokens import TokenCounter, texts_of

NOTHING = "Nothing of that is in the archive of this conversation."
_PIECES = (40, 240)
"""Fewest and most characters of the pieces that a long line is cut into: about a quarter of what may be shown."""
_FIRST = 0.6
"""Share of what is left that one message may take while others follow."""
_ELLIPSIS = "[...]"


def answer(found: Sequence[Found], query: str, *, max_tokens: int, counter: TokenCounter) -> str:
    """The messages found, the best first, each under a line with handle, role, compaction and time.

    One that does not fit shows the parts in which the query's words stand.
    """
    parts: list[str] = []
    left = max_tokens
    for place, one in enumerate(found):
        head = _headline(one)
        room = left - counter.text(head) - 2
        if room < 1:
            break
        share = room if place == len(found) - 1 else max(1, int(room * _FIRST))
        part = f"{head}\n{excerpt(one.message, query, max_tokens=share, counter=counter)}"
        left -= counter.text(part) + 1
        parts.append(part)
    return "\n".join(parts) if parts else NOTHING


def _headline(one: Found) -> str:
    at = datetime.fromtimestamp(one.archived_at, UTC).strftime("%Y-%m-%d %H:%M")
    name = f" {one.message.name}" if one.message.name else ""
    return f"[{one.handle[:12]} {one.message.type}{name}, left the view {at} in compaction {one.compaction_id}]"


def excerpt(message: BaseMessage, query: str, *, max_tokens: int, counter: TokenCounter) -> str:
    """A message's text, whole where it fits, else the pieces around those with most of the query's words."""
    text = "\n".join(texts_of(message))
    if counter.text(text) <= max_tokens:
        return text
    low, high = _PIECES
    pieces = _pieces(text, min(high, max(low, max_tokens)))
    asked = set(words(query))
    worth = [len(asked.intersection(words(piece))) for piece in pieces]
    order = sorted(range(len(pieces)), key=lambda index: (-_around(worth, index), index))
    gap, chosen, left = counter.text(f"\n{_ELLIPSIS}\n"), set[int](), max_tokens
    for index in order:
        size = counter.text(pieces[index]) + gap
        if size <= left:
            chosen.add(index)
            left -= size
    if order[0] not in chosen:  # what matters most does not fit with a line that tells of gaps
        return counter.head("".join(pieces[order[0] :]), max_tokens)
    shown = [
        pieces[index] if index == 0 or index - 1 in chosen else f"\n{_ELLIPSIS}\n{pieces[index]}"
        for index in sorted(chosen)
    ]
    return counter.head("".join(shown).strip(), max_tokens)


def _around(worth: Sequence[int], index: int) -> float:
    """A piece's own worth, and a little of its neighbours'."""
    beside = worth[max(0, index - 1) : index + 2]
    return worth[index] + sum(beside) / 4


def _pieces(text: str, size: int) -> list[str]:
    """The text in pieces of about so many characters, that end where a word or a value does."""
    split = re.compile(rf".{{1,{size}}}(?:[\s,;}}\]]|$)|.{{1,{size}}}", re.DOTALL)
    return [piece for line in text.splitlines(keepends=True) for piece in split.findall(line)]
