"""Writing the tables' files anew, so that nothing of erased rows stands in them.

A database only marks erased rows as free: their bytes stay in its files until something else is written there.
"""

from typing import Any

import sqlalchemy as sa

from . import tables
from .errors import DatabaseError


def rewrite(conn: sa.Connection, place: str) -> None:
    """Write every table anew, outside of a transaction; DatabaseError, naming `place`, where that is not finished.

    PostgreSQL and MariaDB copy a table at a time. Their own logs, replicas and backups are not touched.
    """
    if conn.dialect.name == "sqlite":
        _rewrite_file(conn.connection.driver_connection, place)
        return
    verb = "VACUUM FULL" if conn.dialect.name == "postgresql" else "OPTIMIZE TABLE"
    for table in tables.METADATA.sorted_tables:
        conn.exec_driver_sql(f"{verb} {table.name}").close()


def _rewrite_file(driver: Any, place: str) -> None:
    # PRAGMA incremental_vacuum and secure_delete would leave copies of rows within pages that stay in use
    driver.execute("VACUUM").close()
    busy, *_ = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise DatabaseError(
            f"{place}: what was erased is still in the write-ahead log, as another connection reads an old state "
            "of the file; end that read and call reclaim() again"
        )
    [mode] = driver.execute("PRAGMA journal_mode").fetchone()
    if mode == "persist":  # this journal stays beside the file with the old pages in it; changing the mode deletes it
        driver.execute("PRAGMA journal_mode=DELETE").close()
        driver.execute("PRAGMA journal_mode=PERSIST").close()
