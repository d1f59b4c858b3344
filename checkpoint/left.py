"""Rows of threads as a connection to an SQLite file left them: read again only where somebody has changed anything.

SQLite says at no cost whether anybody has: its data version changes with what other connections commit, the number
of changes with those of this one.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

import sqlalchemy as sa

from .threads import Thread

_KEY = "compaction_threads"
_MOST = 64


def left(conn: sa.Connection) -> dict[str, Thread]:
    """Return the threads, by their ids, that the last transaction of this connection left, if they still stand so.

    The connection holds the write lock. Until it leaves them again it is without them: so it is after an error.
    """
    then, threads = conn.info.pop(_KEY, (None, {}))
    return threads if threads and then == _stamp(conn) else {}


def leave(conn: sa.Connection, threads: Mapping[str, Thread]) -> None:
    """Keep threads whose rows are about to be committed as they are here; the last ones, where they are many.

    Where the commit fails the connection must not be used again.
    """
    newest = dict(islice(threads.items(), max(len(threads) - _MOST, 0), None))
    for thread in newest.values():
        thread.added.clear()
    conn.info[_KEY] = _stamp(conn), newest


def _stamp(conn: sa.Connection) -> tuple[int, int]:
    driver: Any = conn.connection.driver_connection
    [version] = driver.execute("PRAGMA data_version").fetchone()
    return version, driver.total_changes
