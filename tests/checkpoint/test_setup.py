from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from langgraph_compaction.checkpoint import (
    Database,
    SchemaError,
)
from langgraph_compaction.checkpoint.db import schema, tables
from langgraph_compaction.checkpoint.db.thread_row import Threads
from tests.checkpoint.processes import forks, run_together

DIALECTS = (mysql.dialect(), postgresql.dialect(), sqlite.dialect())
KEPT = Path(__file__).parent / "kept" / f"version_{schema.VERSION}.sql"


def set_up(_number: int, url: str) -> None:
    """Create the tables and use them."""
    with Database.open(url) as database:
        database.setup()
        with database.read() as conn:
            assert schema.stored_version(conn.conn) == schema.VERSION


@forks
def test_processes_that_set_up_at_once_all_succeed(empty_url: str) -> None:
    """Four processes that meet an empty database at the same time leave one version of the tables."""
    run_together(4, set_up, empty_url)
    with Database.open(empty_url) as database, database.read() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(tables.schema)).scalar() == 1
        assert set(tables.METADATA.tables) <= set(sa.inspect(conn.conn).get_table_names())


def test_setup_again_keeps_what_is_there(empty_url: str) -> None:
    """Setup may be called at every start: rows stay."""
    with Database.open(empty_url) as database:
        database.setup()
        with database.write() as conn:
            Threads().lock(conn, "t")
        database.setup()
        with database.read() as conn:
            assert conn.execute(sa.select(tables.thread.c.thread_id)).scalars().all() == ["t"]


def test_setup_finishes_what_was_begun(empty_url: str) -> None:
    """Where a process died half-way, as it can on MariaDB, the next one creates what is missing."""
    with Database.open(empty_url) as database:
        tables.METADATA.create_all(database.engine, tables=[tables.schema, tables.thread])
        database.setup()
        with database.read() as conn:
            assert conn.execute(sa.select(tables.item)).first() is None


@pytest.mark.parametrize(("step", "advice"), [(1, "update langgraph-compaction"), (-3, "use a new database")])
def test_a_database_of_another_version_is_refused(empty_url: str, step: int, advice: str) -> None:
    """Tables of another version are neither used nor changed; the error says what to do."""
    with Database.open(empty_url) as database:
        database.setup()
        with database.write() as conn:
            conn.execute(sa.update(tables.schema).values(version=schema.VERSION + step))
    with Database.open(empty_url) as late:
        for use in (late.setup, late.read().__enter__, late.write().__enter__):
            with pytest.raises(SchemaError, match=advice):
                use()


def statements() -> Iterator[str]:
    """Yield the statements that create the tables and their indexes in each kind of database."""
    for dialect in DIALECTS:
        yield f"-- {dialect.name}"
        for table in tables.METADATA.sorted_tables:
            for made in (CreateTable(table), *map(CreateIndex, sorted(table.indexes, key=lambda one: str(one.name)))):
                yield " ".join(f"{made.compile(dialect=dialect)};".split()).replace(" ;", ";")


def test_the_tables_of_a_version_never_change() -> None:
    """Databases of users have them: others need another VERSION, a step in `upgrade`, and a file of what they are."""
    assert list(statements()) == KEPT.read_text(encoding="utf-8").splitlines()
