"""Full-text search in a thread's archive: reads every archived message, and ranks the messages with a query's words.

There is no index. An index would hold the words of a thread in plain text beside encrypted rows, and an
index of SQLite would keep deleted words. The search works alike on every database.

Words are compared in lower case. An identifier counts as one word, and each of its parts counts as a word too.
Chinese, Japanese and Korean have no spaces between words, so pairs of neighboring characters count as words.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import hexdigits
from typing import NamedTuple
from unicodedata import normalize

import sqlalchemy as sa
from langchain_core.messages import AIMessage, BaseMessage

from ..db.thread_row import Thread
from ..messages.message_codec import HANDLE_CHARS, HASH_BYTES
from ..messages.message_codec import handle as handle_of
from ..messages.message_store import MessageStore
from ..messages.sequence_runs import covering, expand, runs_of
from ..patterns import Anchored, Pattern
from . import archive
from .archive import Entry
from .original_conversation import clipped_from, is_original, retells

_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = Pattern(rf"[{_WIDE}]++|[^\W{_WIDE}]++(?:[-./@:#+'’]++[^\W{_WIDE}]++)*+")
_IS_WIDE = Anchored(f"[{_WIDE}]")
_PART = Pattern(r"[A-Z]{1,40}(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_SHORTEST_PLURAL = 4
_MAX_TOKENS = 20_000
"""Number of tokens, from the start of a text, that are compared; later tokens are ignored."""
_SATURATION, _LENGTH = 1.2, 0.75
"""The parameters k1 and b of BM25."""
_QUERY_WORDS = 64
_REMEMBERED_TOKENS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A message of the archive that a search found."""

    message: BaseMessage
    handle: str
    """The handle by which `recall` returns the message."""
    compaction_id: str
    """The compaction_id of the first compaction that archived the message."""
    archived_at: float
    """Time at which the message was archived, in Unix seconds."""
    score: float
    """Rank of the hit: higher is better; scores of different searches cannot be compared."""


class Match(NamedTuple):
    """The words of a query that one text contains."""

    counts: Mapping[str, int]
    """Number of occurrences in the text, by word of the query; words that do not occur are left out."""
    length: int
    """Number of words in the text."""


@dataclass(frozen=True, slots=True)
class Hits:
    """The messages that contain a word of a query, keyed by the numbers under which they were passed to `scan`.

    In an archive the key is the message's sequence number in its thread.
    """

    scores: Mapping[int, float] = field(default_factory=dict[int, float])
    words: Mapping[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])
    """The words of the query that each message contains, by the number of the message."""


class Scope(NamedTuple):
    """The part of an archive that is searched; times are Unix seconds."""

    compaction_id: str | None
    since: float | None
    until: float | None

    def contains(self, entry: Entry) -> bool:
        """Return whether the scope includes the messages of an archive entry."""
        begin = -math.inf if self.since is None else self.since
        end = math.inf if self.until is None else self.until
        return self.compaction_id in (None, entry.compaction_id) and begin <= entry.created_at <= end


def search_archive(
    conn: sa.Connection, store: MessageStore, thread: Thread, query: str, *, limit: int, scope: Scope
) -> list[SearchHit]:
    """Return the archived messages that contain words of a query, best match first; [] for a query without words."""
    entries = archive.entries(conn, thread)
    places = {seq: one for one in reversed(entries) for seq in expand(one.runs)}
    wanted = covering(one.runs for one in entries if scope.contains(one))
    hits = scan(query, ((seq, message) for seq, _, message in store.each(conn, thread, wanted)))
    order = sorted(hits.scores, key=lambda seq: (-hits.scores[seq], -seq))
    held: dict[int, BaseMessage] = {}
    size = max(1, limit)
    while len(held) < len(order) and sum(map(is_original, held.values())) < limit:
        part = order[len(held) : len(held) + size]
        held = store.get_many(conn, thread, [runs_of(sorted(part))], known=held)
        size *= 2
    best = originals_first([seq for seq in order if seq in held], held, hits.words)[:limit]
    return [_found(held[seq], places[seq], hits.scores[seq]) for seq in best]


def find_by_handle(
    conn: sa.Connection, store: MessageStore, thread: Thread, handle: str, *, compactions: bool
) -> list[SearchHit]:
    """Return the archived message with a handle as a list of one hit; [] if there is none.

    With `compactions`, `handle` can also be the id of a compaction, or at least 12 characters from its start: then
    all messages that the compaction archived are returned, in the order of their sequence numbers.
    """
    entries = archive.entries(conn, thread)
    named = [one for one in entries if compactions and _is_named(one, handle.lower())]
    places = {seq: one for one in reversed(named or entries) for seq in expand(one.runs)}
    prefix = hash_prefix(handle)
    seqs = [] if prefix is None else [s for s in store.find_by_hash(conn, thread, prefix) if s in places][:1]
    if not seqs and named:
        seqs = sorted(places)
    held = store.get_many(conn, thread, [runs_of(sorted(seqs))])
    return [_found(held[seq], places[seq], 0.0) for seq in seqs]


def hash_prefix(handle: str) -> bytes | None:
    """Return the bytes of a handle, or None if the text is not a handle, because a model can pass any text."""
    if not HANDLE_CHARS <= len(handle) <= 2 * HASH_BYTES or len(handle) % 2 or not set(handle) <= set(hexdigits):
        return None
    return bytes.fromhex(handle)


def scan(query: str, messages: Iterable[tuple[int, BaseMessage]]) -> Hits:
    """Return the messages that contain a word of the query, in singular or plural.

    A query has no syntax: any text is a valid query. If the query has no words, no message is read.
    """
    asked = list(dict.fromkeys(map(singular, words(query)[:_QUERY_WORDS])))
    matcher = WordMatcher(asked)
    found = ((seq, matcher.match(text_of(message))) for seq, message in (messages if asked else ()))
    matches = {seq: match for seq, match in found if match is not None}
    scores = ranked(asked, matches)
    return Hits(scores, {seq: frozenset(matches[seq].counts) for seq in scores})


def text_of(message: BaseMessage) -> str:
    """Return the searchable text of a message: its text, its name, and its tool calls."""
    calls = (
        [f"{call['name']} {call['args']}" for call in message.tool_calls] if isinstance(message, AIMessage) else []
    )
    return "\n".join([message.text, message.name or "", *calls])


class WordMatcher:
    """Counts the words of a query in many texts. The words of each token are cached for the next texts."""

    def __init__(self, asked: Sequence[str]) -> None:
        self._asked = frozenset(asked)
        self._known: set[str] = set()
        self._special: dict[str, tuple[int, Sequence[str]]] = {}
        """(number of words, words of the query among them) by token.

        Only tokens that consist of several words or contain a word of the query are held. Any other token in
        `_known` counts as one word that is not in the query.
        """

    def match(self, text: str) -> Match | None:
        """Count the words of the query in a text; return None if the text contains no word of the query."""
        whole = folded(text)
        if not any(word in whole for word in self._asked):  # takes a tenth of the time of `tokens`
            return None
        found = Counter(tokens(text))
        self._learn(found.keys() - self._known)
        length, counts = found.total(), dict[str, int]()
        for token in found.keys() & self._special.keys():
            size, held = self._special[token]
            length += (size - 1) * found[token]
            for word in held:
                counts[word] = counts.get(word, 0) + found[token]
        if len(self._known) > _REMEMBERED_TOKENS:
            self._known.clear()
            self._special.clear()
        return Match(counts, length) if counts else None

    def _learn(self, new: Iterable[str]) -> None:
        for token in new:
            found = list(map(singular, words_in(token)))
            held = [word for word in found if word in self._asked]
            self._known.add(token)
            if held or len(found) > 1:
                self._special[token] = len(found), held


def ranked(asked: Sequence[str], matches: Mapping[int, Match]) -> dict[int, float]:
    """Score texts relative to each other by BM25 (Robertson & Zaragoza 2009); skip texts without a query word."""
    average = sum(match.length for match in matches.values()) / max(1, len(matches)) or 1.0
    scores: dict[int, float] = {}
    for word in asked:
        having = [(seq, match) for seq, match in matches.items() if word in match.counts]
        rarity = math.log(1 + (len(matches) - len(having) + 0.5) / (len(having) + 0.5))
        for seq, match in having:
            count, relative_length = match.counts[word], match.length / average
            weight = count * (_SATURATION + 1) / (count + _SATURATION * (1 - _LENGTH + _LENGTH * relative_length))
            scores[seq] = scores.get(seq, 0.0) + rarity * weight
    return scores


def originals_first(
    order: Sequence[int], held: Mapping[int, BaseMessage], words: Mapping[int, frozenset[str]]
) -> list[int]:
    """Put original messages before messages that repeat others, and leave out repetitions that add nothing.

    A clipped message adds nothing if its original is among the messages in `held`. A summary or a recalled message
    adds nothing if the originals together contain all the query's words that it contains.
    """
    whole = [seq for seq in order if is_original(held[seq])]
    names = {handle_of(held[seq]) for seq in whole}
    said = frozenset[str]().union(*(words[seq] for seq in whole))
    clipped = [seq for seq in order if (name := clipped_from(held[seq])) is not None and name not in names]
    return [*whole, *clipped, *(seq for seq in order if retells(held[seq]) and not words[seq] <= said)]


def words(text: str) -> list[str]:
    """Return every word of a text in order, with repetitions."""
    return [word for token in tokens(text) for word in words_in(token)]


def tokens(text: str) -> list[str]:
    """Return the words, identifiers and sequences of Chinese, Japanese or Korean characters of a text, in order."""
    return _TOKEN.findall(normalize("NFKC", text))[:_MAX_TOKENS]


def folded(text: str) -> str:
    """Return a text in normalized form (NFKC) and lower case, which contains each of the text's `words` verbatim."""
    return normalize("NFKC", text).casefold()


def singular(word: str) -> str:
    """Return a word without the s of a plural, so that `flights` matches `flight`; keep short words unchanged."""
    return word[:-1] if len(word) >= _SHORTEST_PLURAL and word.endswith("s") and not word.endswith("ss") else word


def words_in(token: str) -> list[str]:
    """Return the words of one token (see `tokens`)."""
    if _IS_WIDE.match(token):
        return [token[at : at + 2] for at in range(max(1, len(token) - 1))]
    whole = token.casefold()
    parts = [part.casefold() for part in _PART.findall(token)]
    return [whole] if parts == [whole] else [whole, *parts]


def _is_named(entry: Entry, handle: str) -> bool:
    """Return whether a handle is the id of the entry's compaction, or at least 12 characters from the id's start."""
    name = entry.compaction_id
    return name == handle or (len(handle) >= HANDLE_CHARS and name.startswith(handle))


def _found(message: BaseMessage, entry: Entry, score: float) -> SearchHit:
    return SearchHit(
        message=message,
        handle=handle_of(message),
        compaction_id=entry.compaction_id,
        archived_at=entry.created_at,
        score=score,
    )
