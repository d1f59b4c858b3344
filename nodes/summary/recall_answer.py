"""What a recall answers: originals with where they come from, within so many tokens."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from langchain_core.messages import BaseMessage

from langgraph_compaction.checkpoint.compaction.search import Found, singular, words

from ..conversation.tokens import TokenCounter, texts_of

NOTHING = "Nothing of that is in the archive of this conversation."
_PIECES = (40, 240)
"""Fewest and most characters of the pieces that a long line is cut into: about a quarter of what may be shown."""
_FIRST = 0.6
"""Share of what is left that one message may take while others follow, and more where they do not need it."""
_HEAD = 30
"""Tokens, about, of the line over a message."""
_LEAST = 40
"""Tokens of the shortest beginning that is worth showing."""
_ELLIPSIS = "[...]"


def answer(found: Sequence[Found], query: str, *, max_tokens: int, counter: TokenCounter) -> str:
    """The messages found, the best first, each under a line with handle and role, the first with compaction and time.

    One that does not fit shows the parts in which the query's words stand. Without a query, of several messages each
    shows its beginning, and the last line tells how many did not fit.
    """
    parts: list[str] = []
    left, sparing = max_tokens, not query.strip() and len(found) > 1
    whole = [] if sparing else [counter.text("\n".join(texts_of(one.message))) for one in found]
    for place, one in enumerate(found):
        head = _headline(one, found[place - 1] if place else None)
        room = left - counter.text(head) - 2
        if room < (_LEAST if sparing and place else 1):
            break
        if sparing:
            share = max(_LEAST, (room - _LEAST) // (len(found) - place))
        else:
            after = sum(whole[place + 1 :]) + _HEAD * (len(found) - place - 1)
            share = max(1, int(room * _FIRST), room - after)
        part = f"{head}\n{excerpt(one.message, query, max_tokens=min(room, share), counter=counter)}"
        left -= counter.text(part) + 1
        parts.append(part)
    more = f"[{len(found) - len(parts)} more messages: give words that stand in what you look for]"
    if sparing and len(parts) < len(found) and counter.text(more) < left:
        parts.append(more)
    return "\n".join(parts) if parts else NOTHING


def _headline(one: Found, before: Found | None) -> str:
    """What stands over a message; where it left the view only if that is not where the one before it did."""
    name = f" {one.message.name}" if one.message.name else ""
    if before is not None and before.compaction_id == one.compaction_id:
        return f"[{one.handle[:12]} {one.message.type}{name}]"
    at = datetime.fromtimestamp(one.archived_at, UTC).strftime("%Y-%m-%d %H:%M")
    return f"[{one.handle[:12]} {one.message.type}{name}, left the view {at} in compaction {one.compaction_id}]"


def excerpt(message: BaseMessage, query: str, *, max_tokens: int, counter: TokenCounter) -> str:
    """A message's text, whole where it fits, else the pieces around those with most of the query's words."""
    text = "\n".join(texts_of(message))
    if counter.text(text) <= max_tokens:
        return text
    low, high = _PIECES
    pieces = _pieces(text, min(high, max(low, max_tokens)))
    asked = set(map(singular, words(query)))
    worth = [len(asked.intersection(map(singular, words(piece)))) for piece in pieces]
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
    """A piece's own worth, and a little of its neighbors'."""
    beside = worth[max(0, index - 1) : index + 2]
    return worth[index] + sum(beside) / 4


def _pieces(text: str, size: int) -> list[str]:
    """The text in pieces of about so many characters, that end where a word or a value does."""
    split = re.compile(rf".{{1,{size}}}(?:[\s,;}}\]]|$)|.{{1,{size}}}", re.DOTALL)
    return [piece for line in text.splitlines(keepends=True) for piece in split.findall(line)]
