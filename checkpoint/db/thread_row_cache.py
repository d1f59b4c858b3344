"""Rows of threads as a connection to an SQLite file left them: read again only where somebody has changed anything.

Only of a connection that one `Database` has for itself (`Database.keeps`): who shares it could have other keys, or
see other tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

import sqlalchemy as sa

from .thread_row import Thread

_KEY = "compaction_threads"
_MOST = 64

Stamp = tuple[int, int]
"""See `Database.stamp`."""


@dataclass(slots=True)
class Left:
    """Threads, by their ids, as a transaction saved them. Until it is `committed` they may stand otherwise."""

    stamp: Stamp
    threads: dict[str, Thread]
    committed: bool = False


def left(conn: sa.Connection, stamp: Stamp) -> dict[str, Thread]:
    """Return the threads that the last transaction of this connection left, if they still stand so.

    Until it leaves them again the connection is without them.
    """
    last: Left | None = conn.info.pop(_KEY, None)
    return last.threads if last is not None and last.committed and last.stamp == stamp else {}


def leave(conn: sa.Connection, stamp: Stamp, threads: Mapping[str, Thread]) -> Left:
    """Keep threads whose rows are about to be committed; the last ones, where they are many."""
    newest = dict(islice(threads.items(), max(len(threads) - _MOST, 0), None))
    for thread in newest.values():
        thread.added.clear()
    conn.info[_KEY] = last = Left(stamp, newest)
    return last
