"""The compared savers: how each opens its own database, and the bytes that it stores there."""

import sqlite3
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from workload import PER_TURN, script

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.db.urls import sync_url

VARIABLES = {"postgresql": "TEST_POSTGRES_URL", "mariadb": "TEST_MARIADB_URL"}
"""Where the URL of a server is looked for, whose user may create databases."""

VACUUM_TURNS = 50
"""Where PostgreSQL's autovacuum is off, which is on by default, a VACUUM after so many turns stands for it."""

Saver = BaseCheckpointSaver[Any]
MAKE_READABLE_S = 60


@dataclass(frozen=True)
class Kind:
    """A saver, what it writes to, and the form of the state."""

    name: str
    database: str
    ours: bool = False
    delta: bool = False


KINDS = (
    Kind("SqliteSaver", "sqlite"),
    Kind("PostgresSaver", "postgresql"),
    Kind("InMemorySaver", "memory"),
    Kind("SqliteSaver, DeltaChannel(50)", "sqlite", delta=True),
    Kind("PostgresSaver, DeltaChannel(50)", "postgresql", delta=True),
    Kind("SQLAlchemySaver, SQLite", "sqlite", ours=True),
    Kind("SQLAlchemySaver, PostgreSQL", "postgresql", ours=True),
    Kind("SQLAlchemySaver, MariaDB", "mariadb", ours=True),
)


@dataclass(frozen=True)
class Size:
    """Bytes on disk, and of them the pages in use, by which growth is measured."""

    held: int
    used: int


@dataclass(frozen=True)
class Opened:
    """A saver in its own database, and what is asked of that."""

    kind: Kind
    saver: Saver
    size: Callable[[], Size]
    vacuum: Callable[[], None]


@contextmanager
def opened(kind: Kind, name: str, folder: Path, servers: dict[str, str]) -> Generator[Opened]:
    """Open a kind in a new database of this name, which goes with the block."""
    with _place(kind, name, folder, servers) as (url, size), _saver(kind, url) as saver:
        vacuum = (lambda: _stand_for_autovacuum(url)) if kind.database == "postgresql" else (lambda: None)
        yield Opened(kind, saver, size or (lambda: _memory_size(saver)), vacuum)


def drop(kind: Kind, name: str, servers: dict[str, str]) -> None:
    """Drop the server's database of this name, if it is there; a file goes with its folder."""
    if kind.database in VARIABLES:
        force = " WITH (FORCE)" if kind.database == "postgresql" else ""
        with _administrator(servers[kind.database]) as conn:
            conn.exec_driver_sql(f"DROP DATABASE IF EXISTS {name}{force}")


def chosen(parts: Sequence[str] | None, servers: dict[str, str]) -> list[Kind]:
    """Return the kinds with one of the parts in their names, but for those whose server is not there, and say so."""
    named = [kind for kind in KINDS if not parts or any(part.lower() in kind.name.lower() for part in parts)]
    for kind in named:
        if kind.database in VARIABLES and kind.database not in servers:
            print(f"{VARIABLES[kind.database]} is not set: {kind.name} is left out", file=sys.stderr)
    return [kind for kind in named if kind.database not in VARIABLES or kind.database in servers]


def payload(turns: int) -> int:
    """All messages of a thread, each serialized once, as LangGraph does it."""
    serde = JsonPlusSerializer()
    return sum(len(serde.dumps_typed(message)[1]) for message in script()[: turns * PER_TURN])


def settings(servers: dict[str, str]) -> dict[str, str]:
    """Versions, and how durable a commit is, in words of each database."""
    names = ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "sqlalchemy")
    found = {name: version(name) for name in names}
    found["sqlite"] = f"{sqlite3.sqlite_version}, WAL, synchronous FULL"
    if url := servers.get("postgresql"):
        with _administrator(url) as conn:
            found["postgresql"] = (
                f"{_one(conn, 'SHOW server_version')}, fsync {_one(conn, 'SHOW fsync')}, "
                f"synchronous_commit {_one(conn, 'SHOW synchronous_commit')}, "
                f"autovacuum {_one(conn, 'SHOW autovacuum')}"
            )
    if url := servers.get("mariadb"):
        with _administrator(url) as conn:
            commit = _one(conn, "SELECT @@innodb_flush_log_at_trx_commit")
            found["mariadb"] = f"{_one(conn, 'SELECT version()')}, innodb_flush_log_at_trx_commit {commit}"
    return found


Place = tuple[str, Callable[[], Size] | None]


@contextmanager
def _place(kind: Kind, name: str, folder: Path, servers: dict[str, str]) -> Generator[Place]:
    if kind.database == "memory":
        yield "memory", None
    elif kind.database == "sqlite":
        file = folder / f"{name}.db"
        yield f"sqlite:///{file}", lambda: _sqlite_size(file)
    else:
        server = servers[kind.database]
        measure = {"postgresql": _postgres_size, "mariadb": _mariadb_size}[kind.database]
        with _administrator(server) as conn:
            conn.exec_driver_sql(f"CREATE DATABASE {name}")
        url = sync_url(server).set(database=name).render_as_string(hide_password=False)
        try:
            yield url, lambda: measure(url)
        finally:
            drop(kind, name, servers)


@contextmanager
def _saver(kind: Kind, url: str) -> Generator[Saver]:
    if kind.database == "memory":
        with InMemorySaver() as memory:
            yield memory
    elif kind.ours:
        with SQLAlchemySaver.from_url(url) as ours:
            ours.setup()
            yield ours
    elif kind.database == "sqlite":
        with SqliteSaver.from_conn_string(url.removeprefix("sqlite:///")) as lite:
            lite.setup()
            yield lite
    else:
        with PostgresSaver.from_conn_string(url.replace("+psycopg", "")) as postgres:
            postgres.setup()
            yield postgres


def _sqlite_size(file: Path) -> Size:
    """The file after its write-ahead log has gone into it, without VACUUM."""
    conn = sqlite3.connect(file, timeout=MAKE_READABLE_S)
    try:
        busy, *_ = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy, "something still reads the file"
        pages, free, page = (
            conn.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    finally:
        conn.close()
    return Size(file.stat().st_size, (pages - free) * page)


def _postgres_size(url: str) -> Size:
    """Tables, their indexes and TOAST, after VACUUM."""
    with _administrator(url) as conn:
        conn.execute(sa.text("VACUUM"))
        held = _one(
            conn,
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
        )
    return Size(int(held), int(held))


def _stand_for_autovacuum(url: str) -> None:
    with _administrator(url) as conn:
        if _one(conn, "SHOW autovacuum") == "off":
            conn.execute(sa.text("VACUUM"))


def _mariadb_size(url: str) -> Size:
    """Data and indexes after ANALYZE; in use are the pages of the rows, as space is taken a megabyte at a time."""
    with _administrator(url) as conn:
        tables = sa.inspect(conn).get_table_names()
        conn.exec_driver_sql("ANALYZE TABLE " + ", ".join(tables)).close()
        held = _one(
            conn,
            "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = DATABASE()",
        )
        used = _one(
            conn,
            "SELECT sum(stat_value) * @@innodb_page_size FROM mysql.innodb_index_stats "
            "WHERE database_name = DATABASE() AND stat_name = 'n_leaf_pages'",
        )
    return Size(int(held), int(used))


def _memory_size(saver: Saver) -> Size:
    """All serialized values: checkpoints, metadata, channel values and writes."""
    assert isinstance(saver, InMemorySaver)
    held = sum(len(value) for _, value in saver.blobs.values())
    for namespaces in saver.storage.values():
        for rows in namespaces.values():
            held += sum(len(row[0][1]) + len(row[1][1]) for row in rows.values())
    held += sum(len(value[1]) for rows in saver.writes.values() for _, _, value, _ in rows.values())
    return Size(held, held)


@contextmanager
def _administrator(url: str) -> Generator[sa.Connection]:
    engine = sa.create_engine(sync_url(url), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as conn:
        yield conn


def _one(conn: sa.Connection, query: str) -> Any:
    return conn.execute(sa.text(query)).scalar_one()
