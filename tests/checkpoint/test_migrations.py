from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import (
    CompactionRecords,
    Database,
    RowError,
    SchemaError,
    SQLAlchemySaver,
    schema,
    tables,
    urls,
)
from langgraph_compaction.checkpoint.codec import content_hash, dumps
from tests.checkpoint.listening import listening
from tests.checkpoint.old.loading import Old
from tests.checkpoint.processes import forks, run_together
from tests.checkpoint.samples import begin, key_of, opening, talk

VERSIONS = {version: Old(version) for version in (1, 3)}
of_1 = pytest.mark.parametrize("old", [1], indirect=True)


@pytest.fixture(params=VERSIONS)
def old(request: pytest.FixtureRequest) -> Old:
    """Return the database of an earlier version. The second had the tables of the third, but for bundles."""
    return VERSIONS[request.param]


@pytest.fixture
def old_url(empty_url: str, old: Old) -> str:
    """Return the URL of a database as the earlier version left it."""
    old.load(empty_url)
    return empty_url


class Interrupted(Exception):  # noqa: N818 - it is what happens
    """The process ends here."""


@contextmanager
def interrupted_at(database: Database, number: int) -> Iterator[list[str]]:
    """Raise in the place of the change of this number (from 0, equal ones count once), and list what was sent."""
    sent: list[str] = []

    def count(_conn: object, _cursor: object, text: str, *_: object) -> None:
        if text.startswith(("CREATE", "ALTER", "DROP", "INSERT", "UPDATE")) and text not in sent:
            if len(sent) == number:
                raise Interrupted
            sent.append(text)

    with listening(database.engine, "before_cursor_execute", count):
        yield sent


def contents(database: Database) -> dict[str, list[object]]:
    """Return all rows of all tables, but for the time at which a thread was written to."""
    with database.read() as conn:
        return {
            name: [
                {key: value for key, value in row.items() if key != "updated_at"}
                for row in conn.execute(sa.select(table).order_by(*table.primary_key.columns)).mappings()
            ]
            for name, table in tables.METADATA.tables.items()
        }


def migrated(url: str) -> dict[str, list[object]]:
    """Bring a database up to date and return its contents."""
    with Database.open(url) as database:
        database.setup()
        return contents(database)


def renew(url: str, old: Old) -> None:
    """Put the old database in the place of what is there."""
    engine = sa.create_engine(urls.sync_url(url), poolclass=sa.NullPool)
    with engine.begin() as conn:
        for name in sa.inspect(conn).get_table_names():
            conn.execute(sa.DDL(f"DROP TABLE IF EXISTS {name}"))  # an index goes with its tables
    engine.dispose()
    old.load(url)


def shape(database: Database) -> dict[str, object]:
    """Return the columns, keys and indexes of every table, whatever the order of the columns."""
    inspector = sa.inspect(database.engine)
    lax = database.engine.dialect.name == "sqlite"  # it cannot refuse NULL in a table that is there
    return {
        name: (
            sorted(
                (c["name"], str(c["type"]), lax or c["nullable"], c["default"]) for c in inspector.get_columns(name)
            ),
            inspector.get_pk_constraint(name)["constrained_columns"],
            sorted((index["name"], *index["column_names"]) for index in inspector.get_indexes(name)),
            sorted(tuple(unique["column_names"]) for unique in inspector.get_unique_constraints(name)),
        )
        for name in inspector.get_table_names()
    }


def test_every_read_answers_what_it_did(old_url: str, old: Old) -> None:
    """After setup() an old database answers every question as the code that wrote it did."""
    with Database.open(old_url) as database:
        database.setup()
        assert old.differences(CompactionRecords(database)) == []
        with database.read() as conn:
            assert schema.stored_version(conn) == schema.VERSION


def test_the_tables_are_those_of_a_new_database(old_url: str) -> None:
    """Nothing in the tables tells that they were others once."""
    with Database.open(old_url) as database, Database.open() as fresh:
        database.setup()
        if database.engine.dialect.name == "sqlite":
            fresh.setup()
            assert shape(database) == shape(fresh)
        else:
            migrated = shape(database)
            tables.METADATA.drop_all(database.engine)
            database.setup()
            assert migrated == shape(database)


def test_work_goes_on(old_url: str) -> None:
    """Old messages are found again and not stored twice, old attempts end, and new threads get new numbers."""
    with Database.open(old_url) as database:
        database.setup()
        records = CompactionRecords(database)
        with database.write() as conn:
            thread = records.store.thread(conn, "exactly 128")
            assert records.store.put(conn, thread, talk(130)) == ((0, 130),)
            assert records.store.thread(conn, "new").id > thread.id
        again = key_of("exactly 128", talk(128))
        records.begin(again, talk(128), now=1.0, **opening())
        assert records.abandon_open("exactly 128", "", keep=None, now=2.0) == 1
        assert [row.verdict for row in records.history("exactly 128")] == ["abandoned"]
        begin(records, "new")
        assert records.history("new")[0].id > records.history("exactly 128")[0].id


@of_1
def test_a_thread_without_a_time_is_no_old_one(old_url: str) -> None:
    """Version 1 kept no time of a thread: its threads count as written to when they were moved."""
    with Database.open(old_url) as database:
        database.setup()
        assert SQLAlchemySaver(database).sweep(older_than=60.0) == []


@of_1
def test_a_long_old_thread_is_packed(old_url: str, old: Old) -> None:
    """Messages of version 1 go into packs where there are enough of them, and are read as they were."""
    with Database.open(old_url) as database:
        with database.engine.begin() as conn:
            message = sa.table("compaction_message", *map(sa.column, ("thread", "seq", "hash", "body")))
            ours = tables.thread.c.thread_id == "exactly 128"
            thread = conn.execute(sa.select(tables.thread.c.id).where(ours)).scalar_one()
            bodies = enumerate(map(dumps, talk(160, start=128)), 128)
            rows = [{"thread": thread, "seq": seq, "hash": content_hash(body), "body": body} for seq, body in bodies]
            conn.execute(sa.insert(message), rows)
            conn.execute(sa.update(tables.thread).where(ours).values(next_seq=288))
        database.setup()
        assert len(contents(database)["compaction_pack"]) == 2
        assert old.differences(CompactionRecords(database)) == []
        store = CompactionRecords(database).store
        with database.read() as conn:
            assert (found := store.find(conn, "exactly 128", lock=False)) is not None
            assert store.get(conn, found, ((0, 288),)) == talk(288)


@pytest.fixture
def indexed_url(empty_url: str) -> str:
    """Return the URL of a database of version 4, in which somebody has searched."""
    engine = sa.create_engine(urls.sync_url(empty_url), poolclass=sa.NullPool)
    tables.METADATA.create_all(engine)
    words = "id INTEGER PRIMARY KEY, thread INTEGER NOT NULL, seq BIGINT NOT NULL, words TEXT NOT NULL"
    statements = [f"CREATE TABLE compaction_search ({words})"]
    if engine.dialect.name == "sqlite":
        both = "content='compaction_search', content_rowid='id'"
        statements += [
            f"CREATE VIRTUAL TABLE compaction_search_fts USING fts5(words, {both})",
            "CREATE TRIGGER compaction_search_added AFTER INSERT ON compaction_search BEGIN SELECT 1; END",
        ]
    with engine.begin() as conn:
        for statement in (
            *statements,
            "INSERT INTO compaction_search VALUES (1, 1, 0, 't1wzwischenbrugger')",
            "INSERT INTO compaction_schema VALUES (1, 4)",
        ):
            conn.exec_driver_sql(statement)
    engine.dispose()
    return empty_url


def test_the_search_index_of_version_4_goes(indexed_url: str) -> None:
    """Before setup() the database asks for it; after it the index is gone, and a thread's messages are searched."""
    with Database.open(indexed_url) as database:
        records = CompactionRecords(database)
        with pytest.raises(SchemaError, match=r"version 4; call setup\(\)"):
            records.threads()
        database.setup()
        names = sa.inspect(database.engine).get_table_names()
        assert [name for name in names if "search" in name] == []
        records.archive("t", "", "c", list(talk(3)), now=1.0)
        assert [one.message.id for one in records.search("t", "number 2")][:1] == ["m2"]


def test_an_old_database_asks_for_setup(old_url: str, old: Old) -> None:
    """Tables of an earlier version are neither read nor written before setup(); the error says so."""
    with Database.open(old_url) as database:
        for use in (database.read().__enter__, database.write().__enter__):
            with pytest.raises(SchemaError, match=rf"version {old.version}; call setup\(\)"):
                use()


def test_an_interrupted_migration_is_finished_by_the_next_setup(old_url: str, old: Old) -> None:
    """Wherever a process ends, all is as it was; on MariaDB the next setup() ends what was begun."""
    expected = migrated(old_url)
    renew(old_url, old)
    number, finished = 0, False
    while not finished:
        with Database.open(old_url) as database:
            before = shape(database)
            with interrupted_at(database, number) as sent:
                try:
                    database.setup()
                    finished = True
                except Interrupted:
                    number += 1
            if finished or database.engine.dialect.name == "mariadb":
                database.setup()
                assert contents(database) == expected, sent
                renew(old_url, old)
            else:
                assert shape(database) == before, sent
    assert number > (20 if old is VERSIONS[1] else 5)


@forks
def test_processes_that_migrate_at_once_all_succeed(old_url: str, old: Old) -> None:
    """Three processes that meet an old database at the same time bring it up to date once."""

    def work(_number: int) -> None:
        with Database.open(old_url) as database:
            database.setup()
            assert old.differences(CompactionRecords(database)) == []

    run_together(3, work)


@of_1
def test_a_damaged_old_message_stays_an_error(old_url: str) -> None:
    """A message whose bytes had changed is not taken for a sound one: reading it names the row, others are read."""
    with Database.open(old_url) as database:
        with database.engine.begin() as conn:
            message = sa.table("compaction_message", *map(sa.column, ("thread", "seq", "body")))
            odd = sa.select(tables.thread.c.id).where(tables.thread.c.thread_id == "exactly 128").scalar_subquery()
            ours = sa.and_(message.c.thread == odd, message.c.seq.in_([3, 127]))
            conn.execute(sa.update(message).where(ours).values(body=b"damaged"))
        database.setup()
        records = CompactionRecords(database)
        with pytest.raises(RowError, match=r"message 3 of thread .* missing"):
            records.snapshot(key_of("exactly 128", talk(128)))
        with database.read() as conn:
            thread = records.store.find(conn, "exactly 128", lock=False)
            assert thread is not None
            assert records.store.get(conn, thread, ((0, 3), (4, 123))) == [*talk(3), *talk(123, start=4)]
