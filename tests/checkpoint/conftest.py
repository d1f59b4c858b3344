from collections.abc import Callable
from pathlib import Path

import pytest

from langgraph_compaction.checkpoint import CompactionRecords, Database
from tests.checkpoint.samples import Clock
from tests.conftest import SHARED
from tests.full import FULL


@pytest.fixture
def records(database: Database) -> CompactionRecords:
    """Return the records of a database of each kind."""
    return CompactionRecords(database)


@pytest.fixture(params=SHARED if FULL else ("sqlite",))
def any_url(request: pytest.FixtureRequest, cleared_url: Callable[[str], str], tmp_path: Path) -> str:
    """Return the URL of a database that holds nothing of another test: of every kind in a full run."""
    return f"sqlite:///{tmp_path / 'own.db'}" if request.param == "sqlite" else cleared_url(request.param)


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands."""
    return Clock()
