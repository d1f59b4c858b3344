"""Searching a thread's archive."""

import math
from collections.abc import Sequence
from string import hexdigits
from typing import NamedTuple

import sqlalchemy as sa
from langchain_core.messages import BaseMessage

from ..db.database import reads
from ..db.thread_row import Thread
from ..messages.message_codec import HANDLE_CHARS, HASH_BYTES
from ..messages.message_codec import handle as handle_of
from ..messages.sequence_runs import covering, expand, runs_of
from . import archive, search
from .archive import Entry
from .search import Found
from .transcript import is_original
from .undo_queries import Records


class Scope(NamedTuple):
    """Which part of an archive is meant."""

    compaction_id: str | None
    since: float
    until: float

    def holds(self, entry: Entry) -> bool:
        """Whether what a compaction archived belongs to it."""
        return self.compaction_id in (None, entry.compaction_id) and self.since <= entry.created_at <= self.until


class Searching(Records):
    """Finds archived messages by their words."""

    @reads
    def search(
        self,
        conn: sa.Connection,
        thread_id: str,
        query: str,
        *,
        limit: int = 5,
        compaction_id: str | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> list[Found]:
        """Return the archived messages of a thread that a query finds, the best first; none for no words.

        Of one compaction, or archived within `since` and `until` (wall clock, seconds), where that is asked.
        Every archived message of that scope is read: the time grows with the archive.
        """
        begin, end = -math.inf if since is None else since, math.inf if until is None else until
        scope = Scope(compaction_id, begin, end)
        thread = self.store.find(conn, thread_id, lock=False)
        if thread is None:
            return []
        entries = archive.entries(conn, thread)
        places = {seq: one for one in reversed(entries) for seq in expand(one.runs)}
        wanted = covering(one.runs for one in entries if scope.holds(one))
        hits = search.scan(query, ((seq, message) for seq, _, message in self.store.each(conn, thread, wanted)))
        order = sorted(hits.scores, key=lambda seq: (-hits.scores[seq], -seq))
        held = self._until_enough(conn, thread, order, limit)
        best = search.originals_first([seq for seq in order if seq in held], held, hits.words)[:limit]
        return [_found(held[seq], places[seq], hits.scores[seq]) for seq in best]

    def _until_enough(
        self, conn: sa.Connection, thread: Thread, order: Sequence[int], limit: int
    ) -> dict[int, BaseMessage]:
        """Return the first of these messages, as many as it takes to have so many originals among them."""
        held: dict[int, BaseMessage] = {}
        size = max(1, limit)
        while len(held) < len(order) and sum(map(is_original, held.values())) < limit:
            part = order[len(held) : len(held) + size]
            held = self.store.get_many(conn, thread, [runs_of(sorted(part))], known=held)
            size *= 2
        return held

    @reads
    def by_handle(self, conn: sa.Connection, thread_id: str, handle: str, *, compactions: bool = True) -> list[Found]:
        """Return the archived message with this handle (12 to 32 hexadecimal characters); nothing for any other text.

        With `compactions` also all that a compaction archived, in order, by its id or the first 12 characters of it.
        """
        thread = self.store.find(conn, thread_id, lock=False)
        if thread is None:
            return []
        entries = archive.entries(conn, thread)
        named = [one for one in entries if compactions and _is_named(one, handle.lower())]
        places = {seq: one for one in reversed(named or entries) for seq in expand(one.runs)}
        prefix = hash_prefix(handle)
        seqs = [] if prefix is None else [s for s in self.store.find_digest(conn, thread, prefix) if s in places][:1]
        if not seqs and named:
            seqs = sorted(places)
        held = self.store.get_many(conn, thread, [runs_of(sorted(seqs))])
        return [_found(held[seq], places[seq], 0.0) for seq in seqs]


def _is_named(entry: Entry, handle: str) -> bool:
    """Say whether a handle is a compaction's id, or enough of its beginning."""
    name = entry.compaction_id
    return name == handle or (len(handle) >= HANDLE_CHARS and name.startswith(handle))


def _found(message: BaseMessage, place: Entry, score: float) -> Found:
    return Found(
        message=message,
        handle=handle_of(message),
        compaction_id=place.compaction_id,
        archived_at=place.created_at,
        score=score,
    )


def hash_prefix(handle: str) -> bytes | None:
    """Return the bytes a handle stands for, or None for what is no handle: a model may ask for anything."""
    if not HANDLE_CHARS <= len(handle) <= 2 * HASH_BYTES or len(handle) % 2 or not set(handle) <= set(hexdigits):
        return None
    return bytes.fromhex(handle)
