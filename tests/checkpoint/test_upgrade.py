"""A database of the version before: setup() upgrades it, and every thread in it is what it was.

`kept/version_2.msgpack.zst` holds the rows of two databases that the last code of version 2 wrote, one encrypted,
and what that code read from them. Three threads: a graph with tools, `Send`s and a subgraph; the same with a question
that waits for its answer; and lists with very many runs, a delta snapshot, an `Overwrite`, messages without ids.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
import sqlalchemy as sa
import zstandard
from sqlalchemy import Column, Integer, Text

from langgraph_compaction.checkpoint import CompactionRecords, Keyring, SchemaError, SQLAlchemySaver
from langgraph_compaction.checkpoint.db import tables, upgrade
from langgraph_compaction.checkpoint.db.columns import Body, Ident, Key, Long
from langgraph_compaction.checkpoint.db.urls import sync_url
from langgraph_compaction.checkpoint.errors import KeyringError
from langgraph_compaction.checkpoint.maintenance.import_checkpoints import difference
from langgraph_compaction.checkpoint.usage import Usage
from tests.checkpoint.contract.steps import Steps, where
from tests.checkpoint.listening import listening
from tests.checkpoint.samples import COMMITTED, key_of, opening, talk

KEYS = {"plain": None, "encrypted": Keyring({"kept": bytes(32)}, current="kept")}
NUMBERS = ("next_seq", "stamp", "next_blob", "next_checkpoint", "packed", "nameless")


def old_columns() -> dict[str, list[Column[Any]]]:
    """Return the columns of the tables that were different, by table."""

    def of_thread(*more: Column[Any]) -> list[Column[Any]]:
        return [Column("thread", Integer, primary_key=True, autoincrement=False), *more]

    def key(name: str, kind: Any) -> Column[Any]:
        return Column(name, kind, primary_key=True, autoincrement=False)

    def body() -> Column[Any]:
        return Column("body", Body, nullable=False)

    return {
        "thread": [
            Column("id", Integer, primary_key=True),
            Column("thread_id", Key(512), nullable=False, unique=True),
            *(Column(name, Long, nullable=False) for name in NUMBERS),
            Column("salt", Body),
            Column("updated_at", sa.Double, nullable=False),
            Column("lease", Key(64)),
            Column("lease_until", sa.Double),
        ],
        "message": of_thread(key("seq", Long), Column("hash", Ident(16)), body()),
        "block": of_thread(key("block", Long), body()),
        "hash": of_thread(key("hash", Ident(16)), Column("seq", Long, nullable=False)),
        "blob": of_thread(key("number", Long), Column("hash", Ident(16)), body()),
        "checkpoint": of_thread(
            key("namespace", Key(2048, empty=True)),
            key("number", Long),
            *(Column(name, Ident(255)) for name in ("id", "parent", "run")),
            Column("metadata_hashes", Text),
            body(),
        ),
        "write": of_thread(
            key("namespace", Key(2048, empty=True)), key("checkpoint", Ident(255)), key("task", Ident(255)), body()
        ),
    }


def kept() -> dict[str, Any]:
    """Return the kept databases by name."""
    data = (Path(__file__).parent / "kept" / "version_2.msgpack.zst").read_bytes()
    found: dict[str, Any] = ormsgpack.unpackb(zstandard.ZstdDecompressor().decompress(data))
    return found


def write_old(url: str, database: dict[str, Any]) -> None:
    """Write tables of version 2."""
    metadata, old = sa.MetaData(), old_columns()
    for table in tables.METADATA.sorted_tables:
        name = table.name.removeprefix("compaction_")
        if name not in {"item", *old}:
            table.to_metadata(metadata)
    for name, columns in old.items():
        sa.Table(f"compaction_{name}", metadata, *columns, mysql_charset="utf8mb4")
    engine = sa.create_engine(sync_url(url))
    metadata.create_all(engine)
    with engine.begin() as conn:
        for name, rows in database["rows"].items():
            columns = [sa.column(one) for one in database["columns"][name]]
            if rows:  # without types: the rows are as the database holds them
                insert = sa.insert(sa.table(name, *columns))
                conn.execute(insert, [dict(zip(database["columns"][name], row, strict=True)) for row in rows])
    engine.dispose()


@pytest.mark.parametrize("name", ["plain", "encrypted"])
def test_a_database_of_the_version_before_is_upgraded(empty_url: str, name: str) -> None:
    """Every checkpoint and pending write is equal; the thread goes on; its archive is there."""
    database = kept()[name]
    write_old(empty_url, database)
    with SQLAlchemySaver.from_url(empty_url, keys=KEYS[name]) as saver:
        with pytest.raises(SchemaError, match=r"call setup\(\) once, which upgrades it"):
            saver.get_tuple(where("long"))
        saver.setup()
        for data in database["checkpoints"]:
            thread, place, checkpoint, metadata, parent, writes = saver.serde.loads_typed(("msgpack", data))
            found = saver.get_tuple({"configurable": place})
            assert found is not None
            told = [found.checkpoint, found.metadata, (found.parent_config or {}).get("configurable")]
            assert difference([checkpoint, metadata, parent], told, thread) is None
            assert difference(writes, [list(one) for one in found.pending_writes or []], thread) is None
        assert saver.stats("runs")[0].messages >= 400
        steps = Steps(saver, "runs")
        head = steps.put({"messages": talk(5)}, on=where("runs"))
        assert saver.get_tuple(head) is not None
        hits = CompactionRecords(saver.database).search("long", "m7")
        assert hits[0].message.id == "m7"
        saver.prune(["long", "runs", "asks"])
        assert saver.get_tuple(head) is not None


def test_an_encrypted_database_is_not_upgraded_without_its_keys(empty_url: str) -> None:
    """The error says what is missing, and with the keys the upgrade succeeds."""
    write_old(empty_url, kept()["encrypted"])
    with SQLAlchemySaver.from_url(empty_url) as saver, pytest.raises(KeyringError):
        saver.setup()
    with SQLAlchemySaver.from_url(empty_url, keys=KEYS["encrypted"]) as saver:
        saver.setup()
        assert saver.get_tuple(where("long")) is not None


@pytest.mark.parametrize(
    "after", ["RENAME COLUMN", "ADD COLUMN", "INSERT INTO compaction_item", "DROP COLUMN", "DROP TABLE"]
)
def test_an_upgrade_that_was_interrupted_is_finished(empty_url: str, after: str) -> None:
    """MariaDB commits before each change of a table, so the second try finds what the first has done."""
    texts = [""]

    def interrupt(_conn: object, _cursor: object, text: str, *_: object) -> None:
        texts.append(text)
        if after in texts[-2]:
            raise KeyboardInterrupt

    write_old(empty_url, kept()["plain"])
    with (
        SQLAlchemySaver.from_url(empty_url) as saver,
        listening(saver.database.engine, "before_cursor_execute", interrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        saver.setup()
    with SQLAlchemySaver.from_url(empty_url) as saver:
        saver.setup()
        assert [saver.get_tuple(where(name)) is not None for name in ("long", "asks", "runs")] == [True] * 3
        assert len(list(saver.list(where("runs")))) == 3


OLD_WRITE = "UPDATE compaction_thread SET next_blob = next_blob + 1"
"""What each transaction of version 2 names."""
IMPATIENT = {
    "sqlite": {"timeout": 0},
    "postgresql": {"options": "-c lock_timeout=1"},
    "mysql": {"init_command": "SET lock_wait_timeout = 1"},
    "mariadb": {"init_command": "SET lock_wait_timeout = 1"},
}


def test_nothing_is_written_by_the_version_before_from_when_an_upgrade_begins(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that were not stopped get an error: a thread that is already copied gets no more messages."""
    write_old(empty_url, kept()["plain"])
    url = sync_url(empty_url)
    old = sa.create_engine(url, connect_args=IMPATIENT[url.get_backend_name()], poolclass=sa.NullPool)
    real: Callable[..., Any] = upgrade._add_references

    def meanwhile(*args: Any) -> None:
        with pytest.raises(sa.exc.DBAPIError), old.begin() as conn:
            conn.exec_driver_sql(OLD_WRITE)
        real(*args)

    with SQLAlchemySaver.from_url(empty_url) as saver:
        monkeypatch.setattr(upgrade, "_add_references", meanwhile)
        saver.setup()
        with pytest.raises(sa.exc.DBAPIError), old.begin() as conn:
            conn.exec_driver_sql(OLD_WRITE)


def test_a_process_learns_that_the_tables_were_upgraded(empty_url: str) -> None:
    """One that was running then says what to do, from its next call on."""
    with SQLAlchemySaver.from_url(empty_url) as saver:
        saver.setup()
        steps = Steps(saver, "t")
        steps.put({"messages": talk(2)})
        with saver.database.write() as conn:
            conn.conn.exec_driver_sql("ALTER TABLE compaction_thread RENAME COLUMN stamp TO stamp_5")
            conn.execute(sa.update(tables.schema).values(version=5))
        with pytest.raises(SchemaError, match="update langgraph-compaction"):
            steps.put({"messages": talk(3)}, on=where("t"))
        with pytest.raises(SchemaError, match="update langgraph-compaction"):
            saver.get_tuple(where("t"))


def test_the_cost_of_summaries_is_added_to_a_database_of_version_3(empty_url: str) -> None:
    """Rows from before have none, and those from after have it; an upgrade that was interrupted is finished."""
    new = [one for one in tables.ledger.c if one.name.endswith(("_cost", "cache_read_tokens"))]
    with SQLAlchemySaver.from_url(empty_url) as saver:
        saver.setup()
        records, key = CompactionRecords(saver.database), key_of("t", talk(3))
        records.begin(key, talk(3), now=1.0, **opening())
        records.close(key, COMMITTED)
        with saver.database.write() as conn:
            for column in [*new, tables.summary.c.cost]:
                conn.conn.exec_driver_sql(f"ALTER TABLE {column.table.name} DROP COLUMN {column.name}")
            conn.execute(sa.update(tables.schema).values(version=3))
    with SQLAlchemySaver.from_url(empty_url) as saver:
        saver.setup()
        records = CompactionRecords(saver.database)
        [row] = records.history("t")
        assert (row.summary_input_tokens, row.summary_cache_read_tokens, row.summary_cost) == (900, None, None)
        assert row.usage == Usage(calls=2, input_tokens=900, output_tokens=80, reasoning_tokens=7, cost=None)
        records.close(key, COMMITTED)
        assert records.history("t")[0].usage == COMMITTED.usage


def test_tables_of_a_version_that_is_not_known_are_refused(tmp_path: Path) -> None:
    """Newer ones say what to update, and those before the first step say that they cannot be upgraded."""
    with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'x.db'}") as saver:
        saver.setup()
        for version, told in ((99, "update langgraph-compaction"), (1, "cannot upgrade")):
            with saver.database.write() as conn:
                conn.execute(sa.update(tables.schema).values(version=version))
            with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'x.db'}") as other:
                with pytest.raises(SchemaError, match=told):
                    other.setup()
                with pytest.raises(SchemaError, match=told):
                    other.get_tuple(where("t"))
