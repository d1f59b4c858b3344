"""What erasing a thread leaves in the files of a database, read as bytes and row by row."""

import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_compaction.checkpoint import (
    AsyncSQLAlchemySaver,
    CompactionRecords,
    Database,
    DatabaseError,
    SQLAlchemySaver,
)
from langgraph_compaction.checkpoint.compaction.attempt import SummaryRecord
from langgraph_compaction.checkpoint.db import row_codec, tables
from langgraph_compaction.checkpoint.maintenance.thread_copies import ENCODED_COLUMNS
from langgraph_compaction.checkpoint.messages.message_codec import content_hash, dumps
from langgraph_compaction.checkpoint.usage import Usage
from tests.checkpoint.contract.steps import Steps
from tests.checkpoint.samples import COMMITTED, key_of, opening
from tests.conftest import server_database

MESSAGES = 220
"""Enough for a pack."""


@pytest.fixture
def uncompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store bodies as they are, so that words can be found in a file."""
    monkeypatch.setattr(row_codec, "_SMALL", row_codec._LARGEST)


def marks(name: str) -> list[str]:
    """Return words that stand nowhere else, one for each message of a conversation and one for the rest."""
    letters = str.maketrans("0123456789", "ghijkmnopq")  # one word each, also for a search
    return [f"{name}{uuid4().hex}".translate(letters) for _ in range(MESSAGES + 1)]


def fill(database: Database, thread_id: str, said: list[str]) -> None:
    """Write words into every kind of row of a thread, and search for one of them."""
    saver, records = SQLAlchemySaver(database), CompactionRecords(database)
    kinds: tuple[type[BaseMessage], ...] = (HumanMessage, AIMessage)
    messages = [kinds[n % 2](word, id=f"{thread_id}-{n}") for n, word in enumerate(said[:-1])]
    steps = Steps(saver, thread_id)
    for count in (20, 60, 100, 140, 180, 200, 210, 215, 219, MESSAGES):
        config = steps.put({"messages": messages[:count], "note": said[-1], "long": said[-1] * 99}, step=said[-1])
        saver.put_writes(config, [("messages", messages[:1]), ("x", said[-1])], said[-1], said[-1])
    key = key_of(thread_id, messages)
    records.begin(key, messages, now=1.0, **opening(strategy=said[-1]))
    records.record_summary(key, SummaryRecord("ab" * 16, said[-1], "m", Usage(calls=1)))
    records.commit(key, replace(COMMITTED, detail=said[-1], summary=said[-1]), archived=messages[:200])
    assert records.search(thread_id, said[3])[0].message == messages[3]


def rows(database: Database) -> Iterator[tuple[str, bytes]]:
    """Yield every value of every table as it stands in its row, and every sealed one as it is read."""
    store = CompactionRecords(database).store
    with database.read() as conn:
        names = dict(conn.execute(sa.select(tables.thread.c.id, tables.thread.c.thread_id)).all())
        for table in tables.METADATA.sorted_tables:
            for row in conn.execute(sa.select(table)).mappings():
                yield from ((table.name, _bytes(value)) for value in row.values())
                for sealed in ENCODED_COLUMNS:
                    if sealed.table is table and (
                        thread := store.threads.find(conn, names[row["thread"]], lock=False)
                    ):
                        body = bytes(row[sealed.column])
                        yield table.name, thread.codec.decode(sealed.name(row), body, bound=sealed.bound(row))


def _bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview | bytearray) else str(value).encode()


def seen(parts: list[bytes], said: list[str]) -> int:
    """Return how many of the words stand anywhere."""
    return sum(any(word.encode() in part for part in parts) for word in said)


def beside(file: Path) -> list[bytes]:
    """Return the contents of an SQLite file and of all files that belong to it."""
    return [one.read_bytes() for one in file.parent.glob(f"{file.name}*")]


@contextmanager
def server_files(database: Database) -> Generator[Callable[[], list[bytes]]]:
    """Return a function that reads the files of this database's tables on its server, if that lets us."""
    with database.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as conn:
        if database.engine.dialect.name == "postgresql":
            if not conn.exec_driver_sql("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").scalar():
                pytest.skip("only a superuser may read the server's files")
            # the statistics of the planner, which hold samples, stand in the catalog
            files = (
                "SELECT pg_read_binary_file(pg_relation_filepath(oid)) FROM pg_class WHERE relkind IN ('r', 't', 'i')"
                " AND relnamespace IN ('public'::regnamespace, 'pg_toast'::regnamespace) AND relfilenode > 0"
            )

            def read() -> list[bytes]:
                conn.exec_driver_sql("CHECKPOINT")
                return [bytes(one) for one in conn.exec_driver_sql(files).scalars()]
        else:
            folder = Path(conn.exec_driver_sql("SELECT @@datadir").scalar_one()) / str(database.engine.url.database)
            if not folder.is_dir():
                pytest.skip("the server's files are not on this machine")

            def read() -> list[bytes]:
                every = ", ".join(f"`{table.name}`" for table in tables.METADATA.sorted_tables)
                conn.exec_driver_sql(f"FLUSH TABLES {every} FOR EXPORT").close()  # written to the disk
                found = [one.read_bytes() for one in folder.iterdir()]
                conn.exec_driver_sql("UNLOCK TABLES").close()
                return found

        yield read


@pytest.mark.usefixtures("uncompressed")
@pytest.mark.parametrize(
    "forget", [CompactionRecords.forget, lambda r, t: SQLAlchemySaver(r.database).delete_thread(t)]
)
def test_no_file_holds_a_word_of_an_erased_thread(empty_url: str, forget: Any) -> None:
    """After erasing and `reclaim()`, neither the database's files nor its journals do; others' words stay."""
    gone, kept = marks("gone"), marks("kept")
    with Database.open(empty_url) as database:
        database.setup()
        if database.is_postgresql:  # which compresses large values itself
            with database.write() as conn:
                conn.conn.exec_driver_sql("ALTER TABLE compaction_item ALTER COLUMN body SET STORAGE EXTERNAL")
        for thread_id, said in (("gone", gone), ("kept", kept)):
            fill(database, thread_id, said)
        file = Path(str(database.engine.url.database))
        with server_files(database) if not file.exists() else _nothing() as on_server:
            read = on_server or (lambda: beside(file))
            assert seen(read(), gone) > MESSAGES / 2
            forget(CompactionRecords(database), "gone")
            SQLAlchemySaver(database).reclaim()
            assert seen(read(), gone) == 0
            assert seen(read(), kept) > MESSAGES / 2
        assert CompactionRecords(database).search("kept", kept[7])[0].message.text == kept[7]
    if file.exists():
        assert seen(beside(file), gone) == 0


@contextmanager
def _nothing() -> Generator[None]:
    yield None


def test_no_row_holds_a_word_of_an_erased_thread(any_url: str, thread_id: str) -> None:
    """As soon as it is erased, in whichever column; opened and inflated where it is sealed."""
    said = marks("w")
    with Database.open(any_url) as database:
        database.setup()
        fill(database, thread_id, said)
        held = list(rows(database))
        filled = {name for name, part in held if seen([part], said)}
        expected = {"item", "checkpoint", "write", "summary", "ledger"}
        assert {f"compaction_{name}" for name in expected} <= filled
        assert seen([part for _, part in held], said) == len(said)
        CompactionRecords(database).forget(thread_id)
        assert [name for name, part in rows(database) if seen([part], [*said, thread_id])] == []


@pytest.mark.parametrize("erase", ["prune", "delete_for_runs"])
def test_no_row_holds_a_word_of_a_message_that_was_erased(any_url: str, thread_id: str, erase: str) -> None:
    """Of messages that are packed with others, too, and no hash of them; the others stay, and are found again."""
    said = marks("w")
    messages = [HumanMessage(word, id=f"{thread_id}-{n}") for n, word in enumerate(said[:-1])]
    kept, gone = messages[::3], [word for n, word in enumerate(said[:-1]) if n % 3]
    with SQLAlchemySaver.from_url(any_url) as saver:
        saver.setup()
        steps = Steps(saver, thread_id)
        first = steps.put({"messages": messages, "long": said[-1] * 99}, run_id="gone")
        saver.put_writes(first, [("messages", [AIMessage(said[-1], id="w")])], "task")
        last = steps.put({"messages": kept, "long": ""}, run_id="kept")
        if erase == "prune":
            saver.prune([thread_id])
        else:
            saver.delete_for_runs(["gone"])
        found = list(rows(saver.database))
        assert [name for name, part in found if seen([part], [*gone, said[-1]])] == []
        hashes = [content_hash(dumps(one)) for n, one in enumerate(messages) if n % 3]
        assert [name for name, part in found if any(one in part for one in hashes)] == []
        assert saver.get_tuple(last).checkpoint["channel_values"]["messages"] == kept
        assert saver.stats(thread_id)[0].messages == len(kept)
        again = Steps(saver, thread_id).put({"messages": messages}, on=last)
        assert saver.get_tuple(again).checkpoint["channel_values"]["messages"] == messages
        assert saver.stats(thread_id)[0].messages == len(messages)


@pytest.mark.usefixtures("uncompressed")
@pytest.mark.parametrize("mode", ["DELETE", "PERSIST", "WAL"])
def test_no_journal_of_an_applications_own_engine_holds_a_word(tmp_path: Path, mode: str) -> None:
    """Whichever journal it uses, and although SQLite is told not to overwrite what is deleted."""
    file = tmp_path / "own.db"
    engine = sa.create_engine(f"sqlite:///{file}")

    @sa.event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA journal_mode={mode}").close()
        connection.execute("PRAGMA secure_delete=OFF").close()

    database = Database.open(engine)
    database.setup()
    gone = marks("gone")
    fill(database, "gone", gone)
    CompactionRecords(database).forget("gone")
    assert seen(beside(file), gone) > 0, "without secure_delete the words stay in free pages until reclaim()"
    database.reclaim()
    assert seen(beside(file), gone) == 0
    engine.dispose()
    assert seen(beside(file), gone) == 0


def test_reclaim_says_where_a_reader_keeps_old_bytes(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes cannot be overwritten while somebody reads an old state of the database; afterwards they can."""
    if not empty_url.startswith(("sqlite", "postgresql")):
        pytest.skip("MariaDB keeps old states in its undo log, apart from the tables")
    monkeypatch.setattr("langgraph_compaction.checkpoint.db.urls.BUSY_TIMEOUT_S", 0.05)
    with Database.open(empty_url) as database, Database.open(empty_url) as other:
        database.setup()
        CompactionRecords(database).archive("t", "", "c", [HumanMessage("x", id="m")], now=1.0)
        with other.read() as conn:
            conn.execute(sa.select(tables.thread)).all()
            CompactionRecords(database).forget("t")
            with pytest.raises(
                DatabaseError, match=r"another connection has an older transaction open; .* call reclaim\(\) again"
            ):
                database.reclaim()
        monkeypatch.undo()
        database.reclaim()


def test_reclaim_replaces_the_samples_of_the_planner() -> None:
    """PostgreSQL's statistics hold frequent values, which a copy of the tables alone leaves as they were."""
    with server_database("postgresql") as url, Database.open(url) as database:
        database.setup()
        records = CompactionRecords(database)
        for thread in ("gone", "kept"):
            for number in range(3):
                records.archive(thread, f"{thread}-here", f"c{number}", [HumanMessage("x", id="x")], now=1.0)

        def sampled() -> str:
            query = (
                "SELECT coalesce(most_common_vals::text, '') || coalesce(histogram_bounds::text, '') FROM pg_stats "
                "WHERE starts_with(tablename, 'compaction_')"
            )
            with database.read() as conn:
                return " ".join(conn.conn.exec_driver_sql(query).scalars())

        with database.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as conn:
            conn.exec_driver_sql("ANALYZE").close()
        assert "gone-here" in sampled()
        records.forget("gone")
        database.reclaim()
        assert "gone-here" not in sampled()
        assert "kept-here" in sampled()


async def test_space_goes_back_to_the_file_system(tmp_path: Path) -> None:
    """After `areclaim()` a file whose threads were erased is as small as a new one, and its log is empty."""
    file, log = tmp_path / "own.db", tmp_path / "own.db-wal"
    async with AsyncSQLAlchemySaver.from_url(f"sqlite:///{file}") as saver:
        await saver.setup()
        await saver.areclaim()
        empty = file.stat().st_size
        fill(saver.database, "gone", marks("gone"))
        await saver.adelete_thread("gone")
        assert log.stat().st_size > 0
        await saver.areclaim()
        assert (file.stat().st_size, log.stat().st_size) == (empty, 0)
