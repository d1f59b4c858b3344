"""Creates the tables, and brings those of an earlier version to this one."""

from collections.abc import Generator
from contextlib import contextmanager

import sqlalchemy as sa

from ..errors import SchemaError
from . import tables, upgrade
from .row_codec import Keyring
from .statements import insert_if_absent

VERSION = 4
"""Version of the tables that this code reads and writes."""

_LOCK_NAME = "langgraph_compaction.setup"
_LOCK_NUMBER = 0x6C67_636F_6D70
_LOCK_TIMEOUT_S = 60


def create(conn: sa.Connection, keys: Keyring | None = None) -> None:
    """Create the tables, or upgrade those of an earlier version; several processes may do so at once.

    The rows of an encrypted database are encrypted with `keys`. Raise SchemaError if this code does not support the
    version of the stored tables.
    """
    with _exclusive(conn):
        found = stored_version(conn)
        if found is None:
            tables.METADATA.create_all(conn)
            # not a plain INSERT: MariaDB releases the lock of `_exclusive` before the row is committed, so another
            # process may insert the same row
            insert_if_absent(conn, tables.schema, {"id": 1, "version": VERSION})
        else:
            while found in upgrade.STEPS:
                upgrade.STEPS[found](conn, keys)
                found += 1
                conn.execute(sa.update(tables.schema).values(version=found))
            _accept(found)


def check(conn: sa.Connection) -> None:
    """Raise SchemaError unless the tables exist and have the version that this code knows."""
    found = stored_version(conn)
    if found is None:
        raise SchemaError("the tables are missing; call setup() once before the database is used")
    _accept(found)


def stored_version(conn: sa.Connection) -> int | None:
    """Return the version of the tables in the database, or None if there are no tables."""
    if not sa.inspect(conn).has_table(tables.schema.name):
        return None
    return conn.execute(sa.select(tables.schema.c.version)).scalar_one_or_none()


def _accept(found: int) -> None:
    if found in upgrade.STEPS:
        raise SchemaError(
            f"the database has version {found} of the tables and this code needs version {VERSION}: stop all "
            "processes that use it, make a backup, and call setup() once, which upgrades it"
        )
    if found < VERSION:
        raise SchemaError(
            f"the database has version {found} of the tables, which this code cannot upgrade; use a new database"
        )
    if found > VERSION:
        raise SchemaError(
            f"the database has version {found} of the tables and this code knows {VERSION}; "
            "update langgraph-compaction, or use another database"
        )


@contextmanager
def _exclusive(conn: sa.Connection) -> Generator[None]:
    """Keep other processes from creating tables at the same time; on SQLite the transaction itself keeps them out."""
    if conn.dialect.name == "postgresql":
        conn.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_NUMBER)))
        yield
    elif conn.dialect.name in {"mysql", "mariadb"}:
        name = sa.func.concat(_LOCK_NAME, ".", sa.func.database())
        if conn.execute(sa.select(sa.func.get_lock(name, _LOCK_TIMEOUT_S))).scalar() != 1:
            raise SchemaError("another process has been setting up the tables for a minute; try again")
        try:
            yield
        finally:
            if not conn.invalidated:  # a lost connection has lost the lock, too
                conn.execute(sa.select(sa.func.release_lock(name)))
    else:
        yield
