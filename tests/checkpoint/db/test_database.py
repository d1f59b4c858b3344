import multiprocessing
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from langgraph_compaction.checkpoint import (
    AsyncSQLAlchemySaver,
    CompactionRecords,
    Database,
    DatabaseError,
    SchemaError,
    SQLAlchemySaver,
)
from langgraph_compaction.checkpoint.db import connections, tables, urls
from langgraph_compaction.checkpoint.db.thread_row import Threads
from langgraph_compaction.checkpoint.db.transaction import READS, SINGLE, WRITES, Transaction
from langgraph_compaction.checkpoint.errors import KeyTextError, RowError
from tests.checkpoint.processes import forks, run_together
from tests.checkpoint.samples import begin

THREADS = Threads()


def threads_of(database: Database) -> set[str]:
    """Return the ids of all threads in a database."""
    with database.read() as conn:
        return set(conn.execute(sa.select(tables.thread.c.thread_id)).scalars())


def create_thread(database: Database, thread_id: str) -> int:
    """Write one thread row and return its key."""
    with database.write() as conn:
        return THREADS.lock(conn, thread_id).id


def memory_engine() -> sa.Engine:
    """Return an application's engine of one connection."""
    return sa.create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})


def has_tables(engine: sa.Engine) -> bool:
    """Whether the tables are there; memory ends with its connection."""
    return sa.inspect(engine).has_table("compaction_thread")


def test_a_read_sees_one_moment(shared_url: str, thread_id: str) -> None:
    """A transaction that reads does not see what another writes meanwhile, and does not hold it up."""
    with Database.open(shared_url) as database, database.read() as conn:
        query = sa.select(tables.thread.c.id).where(tables.thread.c.thread_id == thread_id)
        assert conn.execute(query).first() is None
        with ThreadPoolExecutor(1) as pool:
            pool.submit(create_thread, database, thread_id).result(timeout=20)
        assert conn.execute(query).first() is None


def test_two_databases_on_one_memory_engine_wait_for_each_other(thread_id: str) -> None:
    """The queue belongs to the only connection, not to the object that uses it."""
    engine = memory_engine()
    first, second = Database.open(engine), Database.open(engine)
    first.setup()
    with ThreadPoolExecutor(2) as pool:
        keys = list(pool.map(create_thread, [first, second] * 20, [f"{thread_id}-{n // 2}" for n in range(40)]))
    assert len(set(keys)) == 20
    engine.dispose()


def test_a_transaction_left_open_in_memory_is_an_error_and_not_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second transaction inside the first says what is wrong after the usual waiting time."""
    monkeypatch.setattr(connections, "BUSY_TIMEOUT_S", 0.01)
    with Database.open() as database:
        database.setup()
        with database.write(), pytest.raises(DatabaseError, match="left open"), database.write():
            pass


async def test_who_opens_a_database_closes_it() -> None:
    """An engine or a `Database` that was passed in still works after close(); one of a URL is closed."""
    engine = memory_engine()
    with Database.open(engine) as shared:
        given = SQLAlchemySaver(shared)
        given.setup()
        given.close()
    assert has_tables(engine)
    engine.dispose()
    with SQLAlchemySaver.from_url("memory") as saver:
        saver.setup()
    async with AsyncSQLAlchemySaver.from_url("memory") as other:
        await other.setup()
    own = SQLAlchemySaver("memory")
    own.setup()
    own.close()
    assert [has_tables(one.database.engine) for one in (saver, other, own)] == [False] * 3


def test_a_foreign_engine_works_whatever_its_isolation(shared_url: str, thread_id: str) -> None:
    """An engine with the strictest isolation of its own serves, and keeps its own settings for its owner."""
    engine = sa.create_engine(urls.sync_url(shared_url), isolation_level="SERIALIZABLE")
    database = Database.open(engine)
    keys = {create_thread(database, thread_id) for _ in range(2)}
    assert len(keys) == 1
    with engine.connect() as conn:
        assert conn.get_isolation_level() == "SERIALIZABLE"
    engine.dispose()


def ask(database: Database) -> None:
    """Ask with a statement that is a transaction of its own."""
    database.run(SINGLE, lambda transaction: transaction.execute(sa.select(tables.thread.c.id)).all())


@pytest.mark.parametrize("change", [ask, Database.reclaim])
def test_transactions_of_a_mariadb_session_have_their_isolation(
    session_url: Callable[[str], str], thread_id: str, change: Callable[[Database], None]
) -> None:
    """Readers see one snapshot and writers the newest rows, whatever the connection did before."""
    url = session_url("mariadb")
    count = sa.select(sa.func.count()).where(tables.thread.c.thread_id.startswith(thread_id))
    with Database.open(url) as database, Database.open(url) as other:

        def seen(transaction: Callable[[], AbstractContextManager[Transaction]], name: str) -> int:
            """How many rows that were committed meanwhile a transaction sees."""
            with transaction() as conn:
                before = conn.execute(count).scalar_one()
                create_thread(other, f"{thread_id}-{name}")
                return int(conn.execute(count).scalar_one()) - before

        for turn in range(2):
            assert [seen(database.read, f"{turn}{n}") for n in "ab"] == [0, 0]
            assert [seen(database.write, f"{turn}{n}") for n in "cd"] == [1, 1]
            change(database)  # SQLAlchemy changes the session, and changes it back


def test_what_is_left_open_on_a_mariadb_connection_is_rolled_back(
    session_url: Callable[[str], str], thread_id: str
) -> None:
    """By the pool, which sends nothing after a transaction that has ended."""
    with Database.open(session_url("mariadb")) as database:
        key = create_thread(database, thread_id)
        with database.engine.connect() as conn:
            raw = conn.connection.cursor()  # bypasses SQLAlchemy, which then knows of no transaction
            raw.execute("UPDATE compaction_thread SET packed = 9 WHERE id = %s", (key,))
        with database.read() as conn:
            assert conn.execute(sa.select(tables.thread.c.packed).where(tables.thread.c.id == key)).scalar() == 0


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        (sa.create_engine("sqlite://"), "database of its own"),
        (sa.create_engine("postgresql+psycopg_async://u@h/d"), "asynchronous driver"),
    ],
    ids=["memory per thread", "asynchronous"],
)
def test_an_engine_that_cannot_serve_is_refused(engine: sa.Engine, text: str) -> None:
    """A memory engine that shares nothing between threads, and an asynchronous one, are errors that say so."""
    with pytest.raises(DatabaseError, match=text):
        Database.open(engine)


def test_an_sqlite_file_writes_ahead_and_is_set_up_once(tmp_path: Path) -> None:
    """A file is in WAL mode, and writers wait 30 seconds; used before setup() it is an error that says so."""
    with Database.open(f"sqlite:///{tmp_path / 'a.db'}") as database:
        for transaction in (database.read, database.write):
            with pytest.raises(SchemaError, match=r"setup\(\)"), transaction():
                pass
        database.setup()
        with database.read() as conn:
            assert conn.execute(sa.text("PRAGMA journal_mode")).scalar() == "wal"
            assert conn.execute(sa.text("PRAGMA busy_timeout")).scalar() == 30_000


def test_sql_errors_show_neither_statement_nor_values(database: Database, thread_id: str) -> None:
    """What a database refuses is a DatabaseError that names the place and nothing of what was to be written."""
    begin(CompactionRecords(database), thread_id, strategy="secret plan")
    query = sa.select(tables.ledger).where(tables.ledger.c.strategy == "secret plan").limit(1)
    with database.read() as conn:
        row = {**conn.execute(query).mappings().one()}
    for change in ({"id": row["id"] + 1_000_000}, {"compaction_id": "other", "reason": None}):
        with pytest.raises(DatabaseError) as caught, database.write() as conn:
            conn.execute(sa.insert(tables.ledger).values({**row, **change}))
        assert urls.place(database.engine.url) in str(caught.value)
        assert "secret plan" not in str(caught.value)
        assert "[parameters:" not in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("name", "text"),
    [("", "empty"), ("a\0b", "NUL"), ("\ud800", "surrogate"), ("x" * 513, "513 bytes"), ("界" * 171, "513 bytes")],
    ids=["empty", "nul", "surrogate", "long", "long in bytes"],
)
def test_an_id_no_database_can_keep_is_refused_alike(database: Database, name: str, text: str) -> None:
    """The same thread ids are refused on every database, with the reason, as an error of this package."""
    with pytest.raises(KeyTextError, match=text):
        create_thread(database, name)


@forks
def test_a_forked_child_does_not_use_its_parents_connections(shared_url: str, thread_id: str) -> None:
    """A database opened before a fork serves parent and children, each on connections of its own.

    SQLite would find its file locked for ever, so a fork waits until no OS thread writes to it.
    """
    with Database.open(shared_url) as database, ThreadPoolExecutor(1) as pool:
        with database.read() as conn, database.read() as other:
            parents = [one.conn.connection.driver_connection for one in (conn, other)]
        begun = threading.Event()

        def write() -> None:
            with database.write() as conn:
                begun.set()
                THREADS.lock(conn, f"{thread_id}-parent")
                time.sleep(0.3)  # long enough for the fork

        def work(number: int) -> None:
            with database.read() as conn, database.read() as other:
                assert conn.conn.connection.driver_connection not in parents
                assert other.conn.connection.driver_connection not in parents
            for n in range(10):
                create_thread(database, f"{thread_id}-{number}-{n}")

        writer = pool.submit(write)
        assert begun.wait(20)
        run_together(2, work)
        writer.result(timeout=20)
        assert len({name for name in threads_of(database) if name.startswith(thread_id)}) == 21


@forks
def test_what_a_child_writes_outlives_its_parents_connections(tmp_path: Path) -> None:
    """Who closes the last connection to an SQLite file deletes its log, which a child may still write to."""
    url = f"sqlite:///{tmp_path / 'file.db'}"
    with Database.open(url) as database:
        database.setup()
        create_thread(database, "parent")
        context = multiprocessing.get_context("fork")
        written, closed = context.Event(), context.Event()

        def work() -> None:
            create_thread(database, "before")
            written.set()
            assert closed.wait(30)
            create_thread(database, "after")

        child = context.Process(target=work)
        child.start()
        assert written.wait(30)
    closed.set()
    child.join(30)
    assert child.exitcode == 0
    with Database.open(url) as again:
        assert threads_of(again) == {"parent", "before", "after"}


@forks
@pytest.mark.parametrize("way", ["read", "write"])
def test_a_child_of_a_transaction_is_told_what_to_do(tmp_path: Path, way: str) -> None:
    """The OS thread that forks cannot wait for itself: SQLite's file cannot be used by the child."""

    def work(_: int) -> None:
        with pytest.raises(DatabaseError, match="fork outside of transactions"):
            create_thread(database, "child")

    with Database.open(f"sqlite:///{tmp_path / 'file.db'}") as database:
        database.setup()
        with database.read() if way == "read" else database.write():
            run_together(1, work)
        create_thread(database, "parent")
        assert threads_of(database) == {"parent"}


TWO_ROWS = sa.select(tables.schema.c.id).union_all(sa.select(tables.schema.c.version))


def find_damage(conn: Transaction) -> None:
    """Raise an error half-way through a query."""
    rows = conn.execute(TWO_ROWS)
    for _ in rows:  # a name of this function, which the error's traceback keeps
        raise RowError("damaged")


def find_damage_past_sqlalchemy(transaction: Transaction) -> None:
    """Raise an error half-way through a query of the driver."""
    cursor = transaction.run(TWO_ROWS)
    assert cursor.fetchone()
    raise RowError("damaged")


FAILURES: dict[str, Callable[[Database], None]] = {
    "read": lambda database: database.run_read(find_damage),
    "write": lambda database: database.run_write(find_damage),
    "read past SQLAlchemy": lambda database: database.run(READS, find_damage_past_sqlalchemy),
    "write past SQLAlchemy": lambda database: database.run(WRITES, find_damage_past_sqlalchemy),
}


@pytest.mark.parametrize("how", FAILURES)
def test_an_error_that_is_kept_does_not_keep_a_connection_in_the_past(tmp_path: Path, how: str) -> None:
    """Who logs an error, or holds it as a task does, holds a query that was not read to its end."""
    failed: list[BaseException] = []
    with Database.open(f"sqlite:///{tmp_path / 'file.db'}") as database:
        database.setup()
        for number in range(3):
            with pytest.raises(RowError, match="damaged") as caught:
                FAILURES[how](database)
            failed.append(caught.value)
            assert threads_of(database) == {f"{one}" for one in range(number)}
            create_thread(database, f"{number}")
            assert threads_of(database) == {f"{one}" for one in range(number + 1)}


def test_an_error_of_another_database_stays_what_it_is(database: Database) -> None:
    """What the application's own code raises within a transaction is not this database's."""
    own: Any = sqlite3.OperationalError("its own")
    for opened in (database.read, database.write):
        with pytest.raises(sqlite3.OperationalError, match="its own"), opened():
            raise own


def test_only_objects_that_open_one_database_have_the_same_identity() -> None:
    """Equal URLs but for the password, or one engine; memory is shared by nobody."""

    def identity(target: str | sa.Engine) -> Any:
        opened.append(Database.open(target))
        return opened[-1].identity

    opened, engine, server = list[Database](), memory_engine(), "postgresql://user:{}@host/name{}"
    assert identity(server.format("old", "")) == identity(server.format("new", ""))
    assert identity(engine) == identity(engine)
    several = ["memory", "memory", "sqlite:///a.db", engine, memory_engine()]
    several += [server.format("old", ""), server.format("old", "?options=-csearch_path%3Dtenant")]
    assert len({identity(one) for one in several}) == len(several)


@pytest.mark.parametrize("mode", [READS, WRITES])
def test_a_connection_in_use_while_a_database_is_closed_is_closed_after_its_use(tmp_path: Path, mode: str) -> None:
    """What runs during `close` goes on to its end, and leaves no connection to the file open."""
    with Database.open(f"sqlite:///{tmp_path / 'own.db'}") as database:
        database.setup()
        used: list[Any] = []

        def work(transaction: Transaction) -> str | None:
            used.append(database.engine.pool)
            used.append(transaction.run(sa.select(tables.schema.c.version)).connection)
            database.close()
            return Threads().find(transaction, "t", lock=False) and "found"

        assert database.run(mode, work) is None
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            used[1].execute("SELECT 1")


def test_who_waits_for_a_connection_gets_one_that_is_kept_open(shared_url: str) -> None:
    """One that another transaction gives back is not kept from who waits while all 15 are in use."""
    with Database.open(shared_url) as database, ExitStack() as others:
        database.setup()
        for _ in range(14):
            others.enter_context(database.read())
        with ThreadPoolExecutor(4) as pool:
            assert not any(pool.map(lambda _: database.run_read(lambda _: None), range(200)))
        if database.engine.dialect.name != "sqlite":
            status: Any = database.engine.pool
            assert status.checkedout() == 15
