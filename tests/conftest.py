"""Databases for tests (memory, an SQLite file, the servers that the environment names), and the markers of tests."""

import gc
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4
from zlib import crc32

import pytest
import sqlalchemy as sa
from hypothesis import settings

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.checkpoint.db import connections, tables
from langgraph_compaction.checkpoint.db.urls import sync_url
from langgraph_compaction.nodes.runtime import summarize_chunks
from langgraph_compaction.nodes.selection import breaker
from tests.full import FULL
from tests.shared_data import recordings_found

settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")  # no example of a property fails because the machine is slow

SERVERS = {"postgresql": "TEST_POSTGRES_URL", "mariadb": "TEST_MARIADB_URL"}
SHARED = ("sqlite", *SERVERS)
"""Kinds of database that several processes can open."""
KINDS = ("memory", *SHARED)

WAYS = ("sync", "async")
"""How a graph is driven."""

SLOW_FOLDERS = ("tests/faults", "tests/kill", "tests/real_model", "tests/replay", "tests/server")
PURE_FOLDERS = ("tests/nodes",)
DATABASE_FIXTURES = frozenset(
    {"database", "database_url", "empty_url", "own_url", "server_url", "session_url", "shared_url"}
)


@pytest.fixture(autouse=True, scope="session")
def _no_pauses() -> Iterator[None]:
    """Let a call of a summarizer be repeated at once; the tests of the pause set it themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summarize_chunks, "BACKOFF_S", 0)
        yield


@pytest.fixture
def unbraked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let compactions follow each other as often as they are due."""
    monkeypatch.setattr(breaker, "CALLS", 0)


class CompiledStatements(dict[Any, Any]):
    """Compiled SQL statements, found by the kind and version of the database instead of by the engine's dialect."""

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the compiled statement."""
        return super().get(self._shared(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(self._shared(key), compiled)

    @staticmethod
    def _shared(key: Any) -> Any:
        dialect, *rest = key
        return type(dialect), getattr(dialect, "server_version_info", None), *rest


def share_compiled_statements() -> None:
    """Let all engines of this process use the same compiled statements.

    Each engine compiles a statement anew, and nearly every test opens a database of its own: this was a third of the
    time of all tests.
    """
    compiled, create_engine = CompiledStatements(), connections.create_engine

    def create(url: sa.URL) -> sa.Engine:
        engine = create_engine(url)
        engine.update_execution_options(compiled_cache=compiled)
        return engine

    connections.create_engine = create


share_compiled_statements()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect garbage only once all tests are collected: what lives by then stays, and is not searched again.

    From then on garbage is collected after 20,000 new objects instead of 700, which saves a sixth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Drive a graph both ways in a full run, and by default one of them: every other test is asynchronous.

    Both ways run the same bodies; what differs between them has tests of its own.
    """
    if "go" in metafunc.fixturenames:
        chosen = crc32(metafunc.function.__name__.encode()) % len(WAYS)
        metafunc.parametrize("go", WAYS if FULL else WAYS[chosen : chosen + 1], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its fixtures and its folder: `db`, `slow`, or `unit` where it needs neither.

    A test in a pure folder that starts a process carries the mark `slow` itself. The slow folders come first, so that
    no long file is left over for one process at the end.
    """
    for item in items:
        path = _path(item)
        if not DATABASE_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.db)
        if path.startswith(SLOW_FOLDERS):
            item.add_marker(pytest.mark.slow)
        if path.startswith(PURE_FOLDERS) and not {"db", "slow"} & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.unit)
    items.sort(key=lambda item: not _path(item).startswith(SLOW_FOLDERS))


def _path(item: pytest.Item) -> str:
    return item.path.relative_to(item.config.rootpath).as_posix()


def pytest_report_header() -> list[str]:
    """Say once which recordings and which servers this run has."""
    absent = [variable for variable in SERVERS.values() if not os.environ.get(variable)]
    servers = f"servers: not set: {', '.join(absent)}" if absent else "servers: all"
    return [recordings_found(), servers]


@contextmanager
def server_database(kind: str) -> Iterator[str]:
    """Create a database on a server for as long as the block runs; skip the test where there is no server."""
    variable = SERVERS[kind]
    if not (server := os.environ.get(variable)):
        pytest.skip(f"{variable} is not set")
    url = sync_url(server)
    name = f"compaction_{uuid4().hex[:12]}"
    force = " WITH (FORCE)" if kind == "postgresql" else ""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as conn:
        conn.execute(sa.DDL(f"CREATE DATABASE {name}"))
        if kind == "postgresql":  # no test stops the server's machine: a commit need not wait for the disk
            conn.execute(sa.DDL(f"ALTER DATABASE {name} SET synchronous_commit = off"))
        try:
            yield url.set(database=name).render_as_string(hide_password=False)
        finally:
            conn.execute(sa.DDL(f"DROP DATABASE {name}{force}"))


@pytest.fixture(scope="session")
def session_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Return a function from a kind of database to the URL of the session's own, with tables."""
    made: dict[str, str] = {}
    with ExitStack() as stack:

        def url_of(kind: str) -> str:
            if kind not in made:
                file = f"sqlite:///{tmp_path_factory.mktemp('database') / 'test.db'}"
                made[kind] = file if kind == "sqlite" else stack.enter_context(server_database(kind))
                with Database.open(made[kind]) as database:
                    database.setup()
            return made[kind]

        yield url_of


@pytest.fixture(params=SHARED)
def shared_url(request: pytest.FixtureRequest, session_url: Callable[[str], str]) -> str:
    """Return the URL of a database, with tables, that other processes can open too."""
    return session_url(request.param)


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, session_url: Callable[[str], str]) -> str:
    """Return the URL of a database: memory (without tables), or one with tables that the session shares."""
    return "memory" if request.param == "memory" else session_url(request.param)


@pytest.fixture(params=KINDS if FULL else ("sqlite",))
def database(request: pytest.FixtureRequest, session_url: Callable[[str], str]) -> Iterator[Database]:
    """Open a database with its tables, of every kind in a full run; tests keep apart by their thread ids."""
    with Database.open("memory" if request.param == "memory" else session_url(request.param)) as opened:
        opened.setup()
        yield opened


@pytest.fixture
def thread_id() -> str:
    """Return a thread id that no other test uses."""
    return f"thread-{uuid4()}"


@pytest.fixture(scope="session")
def cleared_url() -> Iterator[Callable[[str], str]]:
    """Return a function from a kind of server to the URL of a database, with tables, that each call empties.

    The tests of a process use it one after the other: creating a database and its tables takes a second.
    """
    made: dict[str, str] = {}
    with ExitStack() as stack:

        def url_of(kind: str) -> str:
            if kind in made:
                clear(made[kind])
            else:
                made[kind] = stack.enter_context(server_database(kind))
                with Database.open(made[kind]) as database:
                    database.setup()
            return made[kind]

        yield url_of


def clear(url: str) -> None:
    """Delete all rows except the version of the tables, and let generated ids start at 1 again."""
    emptied = [table for table in tables.METADATA.sorted_tables if table is not tables.schema]
    engine = sa.create_engine(sync_url(url), poolclass=sa.NullPool)
    with engine.begin() as conn:
        if engine.dialect.name == "postgresql":
            conn.execute(sa.DDL(f"TRUNCATE {', '.join(table.name for table in emptied)} RESTART IDENTITY"))
            return
        for table in emptied:  # faster on MariaDB than TRUNCATE, which makes the table's file anew
            conn.execute(sa.delete(table))
            if table.autoincrement_column is not None:
                conn.execute(sa.DDL(f"ALTER TABLE {table.name} AUTO_INCREMENT = 1"))


@pytest.fixture(params=SHARED)
def own_url(request: pytest.FixtureRequest, cleared_url: Callable[[str], str], tmp_path: Path) -> str:
    """Return the URL of a database that holds nothing of another test; the tables may be there already."""
    return f"sqlite:///{tmp_path / 'own.db'}" if request.param == "sqlite" else cleared_url(request.param)


@pytest.fixture(params=SHARED)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a database of this test alone, without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
    else:
        with server_database(request.param) as url:
            yield url
