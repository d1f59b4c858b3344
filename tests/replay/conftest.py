"""Plays each conversation once per session, for all tests."""

from collections.abc import Callable, Iterator
from functools import cache, partial

import pytest

from langgraph_compaction.checkpoint import Database
from tests.replay.plays import Case, Play, play


@pytest.fixture(scope="session")
def played() -> Iterator[Callable[[Case], Play]]:
    """Return a function that plays a conversation, or returns the earlier result."""
    with Database.open() as database:
        database.setup()
        yield cache(partial(play, database=database))
