"""Search in a thread's archive: ranks the messages that contain a query's terms, and those beside them.

The search works alike on every database: it uses an index in memory (`search_index`). A message is ranked by BM25.
In a conversation the words of a question often stand in one message and the answer in the next, so a message also
gets half of the best score within two messages.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import hexdigits
from typing import NamedTuple

import sqlalchemy as sa
from langchain_core.messages import BaseMessage

from ..db.thread_row import Thread
from ..messages.message_codec import HANDLE_CHARS, HASH_BYTES
from ..messages.message_codec import handle as handle_of
from ..messages.message_store import MessageStore
from ..messages.sequence_runs import expand, runs_of
from . import archive
from .archive import Entry
from .original_conversation import clipped_from, retells
from .search_index import INDEXES, found_in
from .search_terms import tokens

_BESIDE = 2
"""Distance, in original messages, up to which a message gets a share of another one's score."""
_SHARE = 0.5
"""That share."""
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
    """Relevance of the hit. A word of the query that stands in no other message adds about 1."""


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
    """Return the archived messages that match a query, best match first; [] if none contains a term of the query.

    Original messages come first. A clipped message is left out where its original is found, and a summary or a
    recalled message where the originals found contain all terms of the query that it contains.
    """
    if not tokens(query):
        return []
    places = {seq: one for one in reversed(archive.entries(conn, thread)) for seq in expand(one.runs)}
    with INDEXES.open(conn, thread, places) as index:
        new = sorted(places.keys() - index.held)
        index.add((seq, message) for seq, _, message in store.each(conn, thread, runs_of(new)))
        asked = index.terms_of(query)
        own = {seq: score for seq, score in index.scores(asked).items() if scope.contains(places[seq])}
        originals = frozenset(index.originals)
        scores = _with_neighbors(own, [seq for seq in index.originals if scope.contains(places[seq])])
    best = sorted(scores, key=lambda seq: (-scores[seq], -seq))[:limit]
    others = sorted(own.keys() - originals, key=lambda seq: (-own[seq], -seq))[:_MOST_REPETITIONS]
    if len(best) == limit:
        others = []
    held = store.get_many(conn, thread, [runs_of(sorted([*best, *others]))])
    order = [*best, *_adding(others, [held[seq] for seq in best], held, asked)][:limit]
    return [_found(held[seq], places[seq], scores.get(seq, own.get(seq, 0.0))) for seq in order]


def _with_neighbors(own: Mapping[int, float], originals: Sequence[int]) -> dict[int, float]:
    """Return the scores of original messages, each raised by its share of the best score near it."""
    near: dict[int, float] = {}
    ranks = [(rank, own[seq]) for rank, seq in enumerate(originals) if seq in own]
    for rank, score in ranks:
        for other in range(max(0, rank - _BESIDE), min(len(originals), rank + _BESIDE + 1)):
            if other != rank and near.get(other, 0.0) < score:
                near[other] = score
    scored = near.keys() | {rank for rank, _ in ranks}
    return {originals[rank]: own.get(originals[rank], 0.0) + _SHARE * near.get(rank, 0.0) for rank in scored}


def _adding(
    others: Sequence[int], originals: Sequence[BaseMessage], held: Mapping[int, BaseMessage], asked: Sequence[str]
) -> list[int]:
    """Return those clipped messages, then those summaries and recalled messages, that add something to originals."""
    if not others:
        return []
    names = {handle_of(message) for message in originals}
    said = frozenset[str]().union(*(found_in(message, asked) for message in originals))
    clipped = [seq for seq in others if (name := clipped_from(held[seq])) is not None and name not in names]
    return [*clipped, *(seq for seq in others if retells(held[seq]) and not found_in(held[seq], asked) <= said)]


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
