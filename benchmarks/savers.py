"""The savers that are compared: how each is opened in a database of its own, and what it holds there in bytes."""

import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from workload import PER_TURN, agent, question, script

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.urls import sync_url

VARIABLES = {"postgresql": "TEST_POSTGRES_URL", "mariadb": "TEST_MARIADB_URL"}
"""Where the URL of a server is looked for, whose user may create databases."""

VACUUM_TURNS = 50
"""Where PostgreSQL's autovacuum is off, which is on by default, a VACUUM after so many turns stands for it."""

Saver = BaseCheckpointSaver[Any]
SEED_INPUTS = 4
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


class Contender:
    """A saver in its own database, the agent on it, and the time of every `put` by thread and turn."""

    def __init__(self, kind: Kind, saver: Saver, size: Callable[[], Size], vacuum: Callable[[], None]) -> None:
        self.kind = kind
        self.size = size
        self.vacuum = vacuum
        self.graph = agent(saver, delta=kind.delta)
        self.puts: dict[tuple[str, int], list[float]] = defaultdict(list)
        self._at = ("", 0)
        self._watch(saver)

    def turn(self, thread: str, number: int) -> float:
        """Run a turn (counted from 0) and return its seconds."""
        self._at = (thread, number)
        start = time.perf_counter()
        self.graph.invoke({"messages": [question(number)]}, config(thread), durability="sync")
        seconds = time.perf_counter() - start
        if (number + 1) % VACUUM_TURNS == 0:
            self.vacuum()
        return seconds

    def seed(self, thread: str, turns: int) -> None:
        """Bring a thread to so many turns in few large inputs."""
        messages = script()[: turns * PER_TURN]
        step = -(-len(messages) // SEED_INPUTS)
        for start in range(0, len(messages), step):
            update = {"messages": list(messages[start : start + step])}
            self.graph.update_state(config(thread), update, as_node="model")

    def get_state(self, thread: str) -> float:
        """Return the seconds of one `get_state`."""
        start = time.perf_counter()
        state = self.graph.get_state(config(thread))
        seconds = time.perf_counter() - start
        assert state.values["messages"], "an empty thread is no measurement"
        return seconds

    def history(self, thread: str, limit: int | None = None) -> float:
        """Return the seconds of reading the history, or the newest of it, one state after the other."""
        start = time.perf_counter()
        read = sum(1 for _ in self.graph.get_state_history(config(thread), limit=limit))
        seconds = time.perf_counter() - start
        assert read, "an empty history is no measurement"
        return seconds

    def put_times(self, thread: str, turns: Iterable[int]) -> list[float]:
        """Return the seconds of the puts of these turns."""
        return [seconds for turn in turns for seconds in self.puts.get((thread, turn), ())]

    def _watch(self, saver: Saver) -> None:
        put = saver.put

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = put(*args, **kwargs)
            self.puts[self._at].append(time.perf_counter() - start)
            return result

        saver.put = timed  # type: ignore[method-assign]


def config(thread: str) -> dict[str, Any]:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread}}


@contextmanager
def opened(kinds: Sequence[Kind], folder: Path, servers: dict[str, str]) -> Generator[list[Contender]]:
    """Open each kind in a new database of its own, which goes with the block."""
    with ExitStack() as stack:
        yield [stack.enter_context(_contender(kind, folder, servers)) for kind in kinds]


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


@contextmanager
def _contender(kind: Kind, folder: Path, servers: dict[str, str]) -> Generator[Contender]:
    with _place(kind.database, folder, servers) as (url, size), _saver(kind, url) as saver:
        vacuum = (lambda: _stand_for_autovacuum(url)) if kind.database == "postgresql" else (lambda: None)
        yield Contender(kind, saver, size or (lambda: _memory_size(saver)), vacuum)


Place = tuple[str, Callable[[], Size] | None]


@contextmanager
def _place(database: str, folder: Path, servers: dict[str, str]) -> Generator[Place]:
    if database == "memory":
        yield "memory", None
    elif database == "sqlite":
        file = folder / f"{uuid4().hex}.db"
        yield f"sqlite:///{file}", lambda: _sqlite_size(file)
    else:
        name, force = f"bench_{uuid4().hex[:12]}", " WITH (FORCE)" if database == "postgresql" else ""
        measure = {"postgresql": _postgres_size, "mariadb": _mariadb_size}[database]
        with _administrator(servers[database]) as conn:
            conn.exec_driver_sql(f"CREATE DATABASE {name}")
        url = sync_url(servers[database]).set(database=name).render_as_string(hide_password=False)
        try:
            yield url, lambda: measure(url)
        finally:
            with _administrator(servers[database]) as conn:
                conn.exec_driver_sql(f"DROP DATABASE {name}{force}")


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
    """All serialised values: checkpoints, metadata, channel values and writes."""
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
