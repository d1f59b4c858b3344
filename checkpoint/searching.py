"""Searching a thread's archive, with the index that its search needs."""

import math
from typing import NamedTuple

import sqlalchemy as sa

from . import archive, search
from .archive import Entry
from .codec import handle
from .database import reads, writes
from .runs import covering, expand, runs_of
from .search import Found
from .undoing import Records


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

    def search(
        self,
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
        With an encryption key there is no index, and the newest `SCANNED_BYTES` are looked through.
        """
        if self.database.keys is None:
            self._index(thread_id)
        begin, end = -math.inf if since is None else since, math.inf if until is None else until
        return self._find(thread_id, query, Scope(compaction_id, begin, end), limit)

    @writes
    def _index(self, conn: sa.Connection, thread_id: str) -> None:
        """Add to the index what was archived since the last search; seen by the next transaction."""
        thread = self.store.find(conn, thread_id)
        if thread is not None:
            new = search.missing(conn, thread, expand(covering(archive.of_thread(conn, thread).values())))
            search.add(conn, thread, self.store.get_many(conn, thread, [runs_of(new)]))

    @reads
    def _find(
        self,
        conn: sa.Connection,
        thread_id: str,
        query: str,
        scope: Scope,
        limit: int,
    ) -> list[Found]:
        thread = self.store.find(conn, thread_id, lock=False)
        if thread is None:
            return []
        entries = archive.entries(conn, thread)
        places = {seq: one for one in reversed(entries) for seq in expand(one.runs)}
        wanted = {seq for one in entries if scope.holds(one) for seq in expand(one.runs)}
        if self.database.keys is None:
            scores = search.find(conn, thread, query)
        else:
            scores = search.scan(thread, query, self.store.newest(conn, thread, wanted, search.SCANNED_BYTES))
        best = sorted(wanted & scores.keys(), key=lambda seq: (-scores[seq], -seq))[:limit]
        held = self.store.get_many(conn, thread, [runs_of(sorted(best))])
        return [
            Found(
                message=held[seq],
                handle=handle(held[seq]),
                compaction_id=places[seq].compaction_id,
                archived_at=places[seq].created_at,
                score=scores[seq],
            )
            for seq in best
        ]
