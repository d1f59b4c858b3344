"""A recorded conversation for the command line, and databases for it to import."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.graph.cli import foreign
from tests.graph.cli.replaying import READ, rounds, written


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Write a recorded conversation with a tool schema, and return its path."""
    return written(tmp_path / "talk.json", {"messages": rounds(10), "tools": [READ]})


@pytest.fixture(scope="session")
def foreign_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Return a function from a kind of database to the URL of one that an official saver filled; only for reading."""
    made: dict[str, str] = {}
    with ExitStack() as stack:

        def url_of(kind: str) -> str:
            if kind not in made:
                made[kind] = stack.enter_context(foreign.foreign_database(kind, tmp_path_factory.mktemp("foreign")))
                with foreign.OFFICIAL[kind](made[kind]) as saver:
                    foreign.fill(saver)
            return made[kind]

        yield url_of


@pytest.fixture
def source(foreign_url: Callable[[str], str], tmp_path: Path) -> str:
    """Return the URL of an SQLite file that the official saver filled, which the test may change."""
    path = tmp_path / "source.db"
    shutil.copy(foreign_url("sqlite").removeprefix("sqlite:///"), path)
    return f"sqlite:///{path}"


@pytest.fixture
def target(tmp_path: Path) -> str:
    """Return the URL of a database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'target.db'}"
