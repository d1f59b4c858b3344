"""Rows of threads as a connection to an SQLite file left them: read again only where somebody has changed anything.

Only of a connection that one `Database` has for itself (`Database.keeps`): who shares it could have other keys, or
see other tables.
"""

from collections.abc import Mapping
from itertools import islice

import sqlalchemy as sa

from .threads import Thread

_KEY = "compaction_threads"
_MOST = 64

Stamp = tuple[int, int]
"""See `Database.stamp`."""


def left(conn: sa.Connection, stamp: Stamp) -> dict[str, Thread]:
    """Return the threads, by their ids, that the last transaction of this connection left, if they still stand so.

    Until it leaves them again the connection is without them: so it is after an error.
    """
    then, threads = conn.info.pop(_KEY, (None, {}))
    return threads if then == stamp else {}


def leave(conn: sa.Connection, stamp: Stamp, threads: Mapping[str, Thread]) -> None:
    """Keep threads whose rows are about to be committed as they are here; the last ones, where they are many.

    Where the commit fails the connection must not be used again.
    """
    newest = dict(islice(threads.items(), max(len(threads) - _MOST, 0), None))
    for thread in newest.values():
        thread.added.clear()
    conn.info[_KEY] = stamp, newest
