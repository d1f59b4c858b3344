"""A plugin for pytest that runs tests of LangGraph and LangChain with what is ours; `run.py` loads it.

FOREIGN_COLUMN names what runs. With `theirs` their SqliteSaver is the only saver of a test that takes one. With
`sqlite`, `postgresql` and `mariadb` our saver on that database takes its place, and that of each saver that a module
of tests imports. With `middleware` each agent gets our middleware behind its own, with `plain` nothing is changed.
The outcome of each test is appended to the file FOREIGN_RESULTS, one line of JSON each.
"""

import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from known import SERVERS
from langchain.agents import create_agent
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.db.urls import sync_url
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes import CompactionSettings

COLUMN = os.environ["FOREIGN_COLUMN"]
RESULTS = Path(os.environ["FOREIGN_RESULTS"])
OURS = COLUMN in {"sqlite", *SERVERS}
ONE_SAVER = OURS or COLUMN == "theirs"
PLACES = ("DEFAULT_POSTGRES_URI", "DEFAULT_URI")
"""Names under which their tests keep the address of PostgreSQL."""


class Databases:
    """The databases of a run. A saver that is made with no database of its own gets one that is empty."""

    def __init__(self) -> None:
        self._urls: list[str] = []
        self._used = 0
        self._stack = ExitStack()

    def next(self) -> str:
        """Return the URL of a database that no other saver of the test uses."""
        if self._used == len(self._urls):
            self._urls.append(self._create())
        self._used += 1
        return self._urls[self._used - 1]

    def shared(self) -> str:
        """Return the URL of the test's first database."""
        return self._urls[0] if self._used else self.next()

    def begin(self) -> None:
        """Empty what the last test used."""
        for url in self._urls[: self._used]:
            clear(url)
        self._used = 0

    def close(self) -> None:
        """Drop all databases."""
        self._stack.close()

    def _create(self) -> str:
        if COLUMN == "sqlite":
            return f"sqlite:///{self._stack.enter_context(TemporaryDirectory())}/test.db"
        return self._stack.enter_context(server_database(COLUMN))


@contextmanager
def server_database(kind: str) -> Iterator[str]:
    """Create a database on a server for as long as the block runs."""
    url = sync_url(os.environ[SERVERS[kind]])
    name = f"foreign_{uuid4().hex[:12]}"
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as conn:
        conn.execute(sa.DDL(f"CREATE DATABASE {name}"))
        try:
            yield url.set(database=name).render_as_string(hide_password=False)
        finally:
            conn.execute(sa.DDL(f"DROP DATABASE {name}{' WITH (FORCE)' if kind == 'postgresql' else ''}"))


def clear(url: str) -> None:
    """Delete what a test has stored."""
    engine = sa.create_engine(sync_url(url), poolclass=sa.NullPool)
    with engine.begin() as conn:
        for table in tables.METADATA.sorted_tables:
            if table is not tables.schema and sa.inspect(conn).has_table(table.name):
                conn.execute(sa.delete(table))


DATABASES = Databases()
OPEN: list[Database] = []
"""Databases that savers of the running test have open."""


def opened(connection: Any) -> Database:
    """Open the test's database; one of its own for a saver that is made without a connection."""
    database = Database.open(DATABASES.next() if connection is None else DATABASES.shared())
    database.setup()
    OPEN.append(database)
    return database


class OurSaver(SQLAlchemySaver):
    """Ours, made as their synchronous savers are made, with their serializer."""

    def __init__(self, connection: Any = None, *_: Any, serde: Any = None, **__: Any) -> None:
        super().__init__(opened(connection), serde=serde or JsonPlusSerializer())

    @classmethod
    @contextmanager
    def from_conn_string(cls, *_: Any, **__: Any) -> Iterator[Any]:
        """Yield a saver on the test's database, whatever the address."""
        yield cls("the test's")


class OurAsyncSaver(AsyncSQLAlchemySaver):
    """Ours, made as their asynchronous savers are made, with their serializer."""

    def __init__(self, connection: Any = None, *_: Any, serde: Any = None, **__: Any) -> None:
        super().__init__(opened(connection), serde=serde or JsonPlusSerializer())

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Yield a saver on the test's database, whatever the address."""
        yield cls("the test's")


IN_PLACE_OF = {
    **dict.fromkeys(("InMemorySaver", "MemorySaver", "SqliteSaver", "PostgresSaver"), OurSaver),
    **dict.fromkeys(("AsyncSqliteSaver", "AsyncPostgresSaver"), OurAsyncSaver),
}


def sync_checkpointer() -> Iterator[Any]:
    """Yield the saver of the column."""
    if OURS:
        yield OurSaver()
    else:
        with SqliteSaver.from_conn_string(":memory:") as saver:
            yield saver


async def async_checkpointer() -> AsyncIterator[Any]:
    """Yield the asynchronous saver of the column."""
    if OURS:
        yield OurAsyncSaver()
    else:
        async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            yield saver


@pytest.hookimpl(tryfirst=True)
def pytest_plugin_registered(plugin: Any) -> None:
    """Replace fixtures and addresses of their `conftest.py` before pytest reads its fixtures."""
    if not str(getattr(plugin, "__file__", "")).endswith("conftest.py"):
        return
    for function in (sync_checkpointer, async_checkpointer):
        if ONE_SAVER and hasattr(plugin, function.__name__):
            setattr(plugin, function.__name__, pytest.fixture(params=["saver"])(function))
    for name in PLACES:
        if hasattr(plugin, name):
            setattr(plugin, name, place(getattr(plugin, name)))


def place(theirs: str) -> str:
    """Return the address of our server, with the database that theirs names."""
    _, _, database = theirs.partition("//")[2].partition("/")
    name = database.partition("?")[0]
    return (
        sync_url(os.environ["TEST_POSTGRES_URL"])
        .set(drivername="postgresql", database=name)
        .render_as_string(hide_password=False)
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class) -> None:
    """Replace what a module of theirs has imported, before its first test is collected."""
    module = collector.module
    if OURS:
        for name in IN_PLACE_OF.keys() & vars(module).keys():
            setattr(module, name, IN_PLACE_OF[name])
    if COLUMN == "middleware" and hasattr(module, "create_agent"):
        module.create_agent = create_agent_with_middleware


def create_agent_with_middleware(*args: Any, middleware: Any = (), **options: Any) -> Any:
    """Create an agent with our middleware behind the middleware it is given."""
    ours = CompactionMiddleware(settings=CompactionSettings(context_window=128_000))
    return create_agent(*args, middleware=[*middleware, ours], **options)


def pytest_runtest_setup() -> None:
    """Begin with empty databases."""
    DATABASES.begin()


def pytest_runtest_teardown() -> None:
    """Close what the test has opened."""
    while OPEN:
        with contextlib.suppress(Exception):  # a test may have broken it; the next one opens its own
            OPEN.pop().close()


def pytest_sessionfinish() -> None:
    """Drop the databases."""
    DATABASES.close()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down how a part of a test ended; its last line says why it failed."""
    if report.when == "call" or report.outcome != "passed":
        lines = [line for line in str(report.longrepr or "").splitlines() if line.startswith("E ")]
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        with RESULTS.open("a") as file:
            file.write(
                json.dumps({"test": report.nodeid, "outcome": outcome, "why": "".join(lines[:1])[:300]}) + "\n"
            )


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write down a module that cannot be read."""
    if report.failed:
        with RESULTS.open("a") as file:
            file.write(
                json.dumps({"test": report.nodeid, "outcome": "failed", "why": str(report.longrepr)[-300:]}) + "\n"
            )
