"""Rewrites the tables' files, so that they hold no bytes of deleted rows.

A database only marks deleted rows as free: the bytes of deleted rows stay in the database's files until other rows
overwrite these bytes.
"""

import time
from typing import Any

import sqlalchemy as sa

from ..errors import DatabaseError
from . import tables, urls

_PAUSE_S = 0.05
_OLDEST_TRANSACTIONS = (
    "SELECT txid_snapshot_xmax(now), txid_snapshot_xmin(now), (SELECT max(age(backend_xmin)) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()) FROM txid_current_snapshot() AS now"
)
"""PostgreSQL's query: the next transaction number, the number of the oldest transaction of the server that writes and
is open, and how many transactions began since the oldest open snapshot of this database.
"""


def rewrite(conn: sa.Connection, place: str) -> None:
    """Rewrite every table, outside of a transaction; raise DatabaseError, naming `place`, if old bytes remain.

    PostgreSQL and MariaDB copy one table at a time. On PostgreSQL, new statistics of the planner then replace the
    samples of deleted rows, except in a table that is now empty, which PostgreSQL does not analyze. The logs,
    replicas and backups of these servers are not changed.
    """
    if conn.dialect.name == "sqlite":
        _rewrite_file(conn.connection.driver_connection, place)
        return
    is_postgresql = conn.dialect.name == "postgresql"
    if is_postgresql:
        _wait_for_readers(conn, place)
    verb = "VACUUM (FULL, ANALYZE)" if is_postgresql else "OPTIMIZE TABLE"
    for table in tables.METADATA.sorted_tables:
        conn.exec_driver_sql(f"{verb} {table.name}").close()


def _wait_for_readers(conn: sa.Connection, place: str) -> None:
    """Wait until VACUUM can leave out the deleted rows: it copies every row that some snapshot may still see.

    These snapshots are the open ones of this database, and the one of VACUUM, which begins at the oldest transaction
    that is writing in any database of the server.
    """
    deadline = time.monotonic() + urls.BUSY_TIMEOUT_S
    first: int | None = None
    while True:
        following, writing, oldest = conn.exec_driver_sql(_OLDEST_TRANSACTIONS).one()
        first = following if first is None else first
        if writing >= first and (oldest is None or oldest <= following - first):
            return
        if time.monotonic() > deadline:
            raise _still_read(place, "the tables")
        time.sleep(_PAUSE_S)


def _still_read(place: str, where: str) -> DatabaseError:
    return DatabaseError(
        f"{place}: erased data is still in {where}, because another connection has an older transaction open; "
        "end that transaction and call reclaim() again"
    )


def _rewrite_file(driver: Any, place: str) -> None:
    # PRAGMA incremental_vacuum and secure_delete leave copies of deleted rows inside pages that stay in use
    driver.execute("VACUUM").close()
    busy, *_ = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise _still_read(place, "the write-ahead log")
    [mode] = driver.execute("PRAGMA journal_mode").fetchone()
    if mode == "persist":  # in this mode the journal file stays, with old pages; another mode deletes the file
        driver.execute("PRAGMA journal_mode=DELETE").close()
        driver.execute("PRAGMA journal_mode=PERSIST").close()
