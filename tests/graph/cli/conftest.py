"""A recorded conversation for the command line."""

from pathlib import Path

import pytest

from tests.graph.cli.replaying import READ, rounds, written


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Write a recorded conversation with a tool schema, and return its path."""
    return written(tmp_path / "talk.json", {"messages": rounds(10), "tools": [READ]})
