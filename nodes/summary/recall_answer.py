"""The text that answers a recall: archived messages with their origin, within a number of tokens."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from langchain_core.messages import BaseMessage

from langgraph_compaction.checkpoint.compaction.recall_search import SearchHit
from langgraph_compaction.checkpoint.compaction.search_index import text_of
from langgraph_compaction.checkpoint.compaction.search_terms import (
    identifier_terms,
    language_of,
    query_terms,
    terms,
    tokens,
)

from ..conversation.tokens import TokenCounter, joined_texts

MOST_FOUND = 16
"""Maximum number of archived messages that an answer shows."""
NOTHING = "Nothing of that is in the archive of this conversation."
_PIECES = (40, 240)
"""Minimum and maximum length, in characters, of the pieces that a long line is cut into."""
_MAX_SHARE = 0.6
"""Share of the remaining tokens that one message may fill if others follow; it may fill more if the others are
short."""
_HEAD = 30
"""Approximate number of tokens of the line above each message."""
_LEAST = 40
"""Minimum number of tokens to show of a message's beginning; if fewer tokens are left, the message is not shown."""
GAP = "[...]"
_MOST_CHARS = 12
"""Number of characters of a token that a text may have in the mean; a longer text counts as too large, uncounted."""
_MOST_NAMED = 3
"""Maximum number of identifiers that the line about missing identifiers names."""
_NOTE_DIVISOR = 4
"""The line about missing identifiers takes at most this part (a fourth) of the answer's tokens."""
_LONGEST_NAME = 60
"""Maximum length, in characters, of such an identifier; a longer one is left out."""
_ENDS = " \t\r\n,;}]"
"""Characters after which a long line is cut."""


def answer(found: Sequence[SearchHit], query: str, *, max_tokens: int, counter: TokenCounter) -> str:
    """Return the found messages, the best first, each under a headline with its handle and its role.

    A headline also names the compaction and its time if they differ from the message before. A message that does not
    fit is shown by the parts that contain the query's words. Without a query, several messages are each shown by
    their beginning, and a last line says how many messages did not fit.

    A search also finds messages that contain only a part of an identifier of the query, such as `TUL` of `TUL-777`.
    If none of the messages contains the whole identifier, the first line says so.
    """
    missing = _missing_identifiers(found, query)
    note = f"[None of these messages contains {' or '.join(missing)}.]" if missing else ""
    size = counter.text(note)
    if size > max_tokens // _NOTE_DIVISOR:
        note = ""
    shown = _shown(found, query, max_tokens=max_tokens - (size + 1 if note else 0), counter=counter)
    parts = [*filter(None, [note]), *(f"{head}\n{text}" for head, text in shown)]
    more = f"[{len(found) - len(parts)} more messages: give words that stand in what you look for]"
    left = max_tokens - sum(counter.text(part) + 1 for part in parts)
    if not query.strip() and len(found) > 1 and len(parts) < len(found) and counter.text(more) < left:
        parts.append(more)
    return "\n".join(parts) if parts else NOTHING


def _missing_identifiers(found: Sequence[SearchHit], query: str) -> list[str]:
    """Return identifiers of a query that no found message contains; [] if no message was found."""
    asked = dict.fromkeys(token for token in tokens(query) if len(token) <= _LONGEST_NAME)
    left = {token: names[0] for token in asked if (names := identifier_terms(token))}
    for one in found:
        if not left:
            break
        known = frozenset(identifier_terms(text_of(one.message)))
        left = {token: name for token, name in left.items() if name not in known}
    return [*left][:_MOST_NAMED] if found else []


def _shown(
    found: Sequence[SearchHit], query: str, *, max_tokens: int, counter: TokenCounter
) -> Iterator[tuple[str, str]]:
    left, only_beginnings = max_tokens, not query.strip() and len(found) > 1
    sizes = [] if only_beginnings else [_size(one.message, max_tokens, counter) for one in found]
    for place, one in enumerate(found):
        head = headline(one, _removal(one, found[place - 1] if place else None))
        room = left - counter.text(head) - 2
        if room < (_LEAST if only_beginnings and place else 1):
            break
        if only_beginnings:
            share = max(_LEAST, (room - _LEAST) // (len(found) - place))
        else:
            after = sum(sizes[place + 1 :]) + _HEAD * (len(found) - place - 1)
            share = max(1, int(room * _MAX_SHARE), room - after)
        text = excerpt(one.message, query, max_tokens=min(room, share), counter=counter)
        left -= counter.text(f"{head}\n{text}") + 1
        yield head, text


def _size(message: BaseMessage, most: int, counter: TokenCounter) -> int:
    """Return the tokens of a message; more than `most` of a text that is so long that it need not be counted."""
    text = joined_texts(message)
    return most + 1 if len(text) > most * _MOST_CHARS else counter.text(text)


def headline(one: SearchHit, more: str = "") -> str:
    """Return the line above a message: its handle, its type and its name."""
    name = f" {one.message.name}" if one.message.name else ""
    return f"[{one.handle[:12]} {one.message.type}{name}{more}]"


def _removal(one: SearchHit, before: SearchHit | None) -> str:
    """Return when and by which compaction a message was removed; empty if it also removed the one listed before."""
    if before is not None and before.compaction_id == one.compaction_id:
        return ""
    at = datetime.fromtimestamp(one.archived_at, UTC).strftime("%Y-%m-%d %H:%M")
    return f", left the view {at} in compaction {one.compaction_id}"


def excerpt(message: BaseMessage, query: str, *, max_tokens: int, counter: TokenCounter) -> str:
    """Return a message's text, or, if it does not fit, the pieces around those with most of the query's words."""
    text = joined_texts(message)
    if _size(message, max_tokens, counter) <= max_tokens:
        return text
    low, high = _PIECES
    pieces = pieces_of(text, min(high, max(low, max_tokens)))
    languages = [language_of(text)]
    wanted = set(query_terms(query, languages))
    worth = [len(wanted.intersection(terms(piece, languages))) for piece in pieces]
    order = sorted(range(len(pieces)), key=lambda index: (-_around(worth, index), index))
    gap, chosen, left = counter.text(f"\n{GAP}\n"), set[int](), max_tokens
    for index in order:
        if left <= gap:
            break
        size = counter.text(pieces[index]) + gap
        if size <= left:
            chosen.add(index)
            left -= size
    if order[0] not in chosen:  # even the best piece is too long: show its beginning
        return counter.head("".join(pieces[order[0] :]), max_tokens)
    shown = [
        pieces[index] if index == 0 or index - 1 in chosen else f"\n{GAP}\n{pieces[index]}"
        for index in sorted(chosen)
    ]
    return counter.head("".join(shown).strip(), max_tokens)


def _around(worth: Sequence[int], index: int) -> float:
    """Return the worth of a piece: its own number of query words, plus a quarter of those around it."""
    beside = worth[max(0, index - 1) : index + 2]
    return worth[index] + sum(beside) / 4


def pieces_of(text: str, size: int) -> list[str]:
    """Cut a text into pieces that end, where possible, after a separator such as a space.

    A piece has at most `size` characters, not counting this separator.
    """
    return [piece for line in text.splitlines(keepends=True) for piece in _cut(line, size)]


def _cut(line: str, size: int) -> Iterator[str]:
    at = 0
    while len(line) - at > size:
        window = line[at + 1 : at + size + 1]
        length = 2 + max(map(window.rfind, _ENDS))
        length = length if length > 1 else size
        yield line[at : at + length]
        at += length
    if line[at:]:
        yield line[at:]
