"""Search in a thread's archive: ranks the messages that contain a query's terms, and those beside them.

The search works alike on every database: it uses an index in memory (`search_index`). A message is ranked by BM25.
In a conversation the words of a question often stand in one message and the answer in the next, so a message also
gets half of the best score within two messages. An identifier of the query counts `IDENTIFIER_WEIGHT` times: words
such as "reservation" stand in every part of a conversation that is about the same kind of thing, identifiers do not.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from string import hexdigits
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from ..db.thread_row import Thread
from ..db.transaction import Transaction
from ..messages import items
from ..messages.message_codec import HANDLE_CHARS, HASH_BYTES
from ..messages.message_codec import handle as handle_of
from ..messages.message_store import MessageStore
from ..messages.sequence_runs import expand, runs_of
from . import archive
from .archive import Entry
from .original_conversation import clipped_from, retells
from .search_index import IDENTIFIER_WEIGHT, INDEXES, ThreadIndex, found_in, text_of
from .search_terms import identifier_terms, tokens

_BESIDE = 2
"""Distance, in original messages, up to which a message gets a share of another one's score."""
_AROUND = 12
"""That distance in a search that follows identifiers: to the other messages about the same matter."""
_SHARE = 0.5
"""That share."""
_BEST = 5
"""Number of best messages whose identifiers a search may follow."""
_MOST_FOLLOWED = 24
"""Number of identifiers that it then follows: those in the most of these messages."""
_RARE = 0.02
"""It follows identifiers in at most this share of the archive's messages."""
_MOST_REPETITIONS = 40
"""Number of summaries and other repetitions that are read to find those that add something."""


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
    """Relevance of the hit. A word of the query that stands in no other message adds about 1, an identifier 4."""


SPEAKERS = {"user": "human", "assistant": "ai", "tool": "tool"}
"""The type of the messages of each speaker."""


class Scope(NamedTuple):
    """The part of an archive that is searched; times are Unix seconds."""

    compaction_id: str | None
    since: float | None
    until: float | None
    speaker: str | None
    """A key of `SPEAKERS`: only messages of this speaker are returned. They may still be found by a neighbor."""

    @property
    def is_everything(self) -> bool:
        """Whether the scope includes all entries."""
        return self.compaction_id is None and self.since is None and self.until is None

    def contains(self, entry: Entry) -> bool:
        """Return whether the scope includes the messages of an archive entry."""
        begin = -math.inf if self.since is None else self.since
        end = math.inf if self.until is None else self.until
        return self.compaction_id in (None, entry.compaction_id) and begin <= entry.created_at <= end

    def has_said(self, kind: str) -> bool:
        """Return whether the scope includes the messages of a type."""
        return self.speaker is None or SPEAKERS[self.speaker] == kind


def search_archive(
    transaction: Transaction,
    store: MessageStore,
    thread: Thread,
    query: str,
    *,
    limit: int,
    scope: Scope,
    follow: bool,
) -> list[SearchHit]:
    """Return the archived messages that match a query, best match first; [] if none contains a term of the query.

    With `follow`, rare identifiers in the best originals are searched too, each as a word of the query, and a message
    gets a share of the best score among `_AROUND` messages around it, so that messages about the same thing come
    first.

    Original messages come first. A clipped message is left out where its original is found, and a summary or a
    recalled message where the originals found contain all terms of the query that it contains.
    """
    if not tokens(query):
        return []
    places = {seq: one for one in reversed(archive.entries(transaction, thread)) for seq in expand(one.runs)}
    hashes = {seq: one for one, seq in items.read_hashes(transaction, thread).items() if seq in places}
    with INDEXES.open(transaction, thread, hashes) as index:
        new = sorted(places.keys() - index.held.keys())
        index.add(store.each(transaction, thread, runs_of(new)))
        asked = index.terms_of(query)
        if not scope.is_everything:
            places = {seq: one for seq, one in places.items() if scope.contains(one)}
        originals = [seq for seq in index.originals if seq in places]
        own = _add_scores({}, index.scores(asked), places)
        names = [name for name in identifier_terms(query) if name in asked]
        own = _add_scores(own, index.scores(names), places, times=IDENTIFIER_WEIGHT - 1)
        first: dict[int, BaseMessage] = {}
        scores = _with_neighbors(own, originals)
        if follow:
            first = store.get_many(transaction, thread, [runs_of(sorted(_ranked(scores, _BEST)))])
            own = _add_scores(own, index.scores(_rare_names(index, first.values(), asked)), places)
            scores = _with_neighbors(_with_neighbors(own, originals), originals, _AROUND)
        if scope.speaker is not None:
            scores, own = (
                {seq: score for seq, score in each.items() if scope.has_said(index.held[seq])}
                for each in (scores, own)
            )
    best = _ranked(scores, limit)
    others = [] if len(best) == limit else _ranked({s: own[s] for s in own.keys() - scores.keys()}, _MOST_REPETITIONS)
    held = store.get_many(transaction, thread, [runs_of(sorted([*best, *others]))], first)
    more = _adding(others, [held[seq] for seq in best], held, asked, retold=scope.speaker is None)
    order = [*best, *more][:limit]
    return [_found(held[seq], places[seq], scores.get(seq, own.get(seq, 0.0))) for seq in order]


def _add_scores(
    own: Mapping[int, float], more: Mapping[int, float], places: Mapping[int, Entry], times: int = 1
) -> dict[int, float]:
    """Return the sums of scores and of `times` other scores, of the messages with a place."""
    return {**own, **{seq: own.get(seq, 0.0) + times * score for seq, score in more.items() if seq in places}}


def _ranked(scores: Mapping[int, float], most: int) -> list[int]:
    """Return at most so many messages with the best scores, the best first; of equal ones the newest first."""
    return [seq for _, seq in nlargest(most, zip(scores.values(), scores.keys(), strict=True))]


def _rare_names(index: ThreadIndex, messages: Iterable[BaseMessage], asked: Collection[str]) -> list[str]:
    """Return the rare identifiers of messages that a query does not contain: those in the most of them first."""
    said = Counter(name for message in messages for name in identifier_terms(text_of(message)))
    most = _RARE * len(index.held)
    counts = {name: count for name, count in index.counts(said.keys() - asked).items() if count <= most}
    return sorted(counts, key=lambda name: (-said[name], counts[name], name))[:_MOST_FOLLOWED]


def _with_neighbors(own: Mapping[int, float], originals: Sequence[int], distance: int = _BESIDE) -> dict[int, float]:
    """Return the scores of original messages, each raised by its share of the best score near it."""
    scores = [own.get(seq, 0.0) for seq in originals]
    beyond = [0.0] * distance
    best = _best_of_each(distance, [*beyond, *scores, *beyond])
    near = map(max, best, best[distance + 1 :])
    raised = (score + _SHARE * other for score, other in zip(scores, near, strict=False))
    return {seq: score for seq, score in zip(originals, raised, strict=False) if score}


def _best_of_each(number: int, values: Sequence[float]) -> list[float]:
    best, width = list(values), 1
    while width < number:
        step = min(width, number - width)
        best, width = list(map(max, best, best[step:])), width + step
    return best


def _adding(
    others: Sequence[int],
    originals: Sequence[BaseMessage],
    held: Mapping[int, BaseMessage],
    asked: Sequence[str],
    *,
    retold: bool,
) -> list[int]:
    """Return those clipped messages, then those summaries and recalled messages, that add something to originals.

    Without `retold`, summaries and recalled messages are left out: they tell what several speakers said.
    """
    if not others:
        return []
    names = {handle_of(message) for message in originals}
    said = frozenset[str]().union(*(found_in(message, asked) for message in originals))
    clipped = [seq for seq in others if (name := clipped_from(held[seq])) is not None and name not in names]
    retelling = [seq for seq in others if retold and retells(held[seq]) and not found_in(held[seq], asked) <= said]
    return [*clipped, *retelling]


def find_by_handle(
    transaction: Transaction, store: MessageStore, thread: Thread, handle: str, *, compactions: bool
) -> list[SearchHit]:
    """Return the archived message with a handle as a list of one hit; [] if there is none.

    With `compactions`, `handle` can also be the id of a compaction, or at least 12 characters from its start: then
    all messages that the compaction archived are returned, in the order of their sequence numbers.
    """
    entries = archive.entries(transaction, thread)
    named = [one for one in entries if compactions and _is_named(one, handle.lower())]
    places = {seq: one for one in reversed(named or entries) for seq in expand(one.runs)}
    prefix = hash_prefix(handle)
    seqs = [] if prefix is None else [s for s in store.find_by_hash(transaction, thread, prefix) if s in places][:1]
    if not seqs and named:
        seqs = sorted(places)
    held = store.get_many(transaction, thread, [runs_of(sorted(seqs))])
    return [_found(held[seq], places[seq], 0.0) for seq in seqs]


def hash_prefix(handle: str) -> bytes | None:
    """Return the bytes of a handle, or None if the text is not a handle, because a model can pass any text."""
    if not HANDLE_CHARS <= len(handle) <= 2 * HASH_BYTES or len(handle) % 2 or not set(handle) <= set(hexdigits):
        return None
    return bytes.fromhex(handle)


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
