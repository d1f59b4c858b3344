import pytest

from langgraph_compaction.checkpoint import CompactionRecords, Database


@pytest.fixture
def records(database: Database) -> CompactionRecords:
    """Return the records of a database of each kind."""
    return CompactionRecords(database)
