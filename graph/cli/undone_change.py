"""A change that is tried and undone: what it would come to."""

from collections.abc import Generator
from contextlib import contextmanager

import sqlalchemy as sa

from langgraph_compaction.checkpoint import Database


class _Rehearsal(Database):
    """A database of which everything happens in one transaction of another."""

    def __init__(self, database: Database, conn: sa.Connection) -> None:
        super().__init__(database.engine, keys=database.keys)
        self._conn = conn

    @contextmanager
    def write(self) -> Generator[sa.Connection]:
        """The transaction; whether it is kept is not decided here."""
        yield self._conn

    read = write


@contextmanager
def rehearsed(database: Database) -> Generator[Database]:
    """A database in which all that is done inside the block is undone at its end; others wait as for a write."""
    with database.write() as conn:
        try:
            yield _Rehearsal(database, conn)
        finally:
            conn.rollback()
