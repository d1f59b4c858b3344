import pytest

from langgraph_compaction.checkpoint import CompactionRecords, Database
from tests.checkpoint.samples import Clock


@pytest.fixture
def records(database: Database) -> CompactionRecords:
    """Return the records of a database of each kind."""
    return CompactionRecords(database)


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands."""
    return Clock()
