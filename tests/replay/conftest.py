"""Each conversation is played once a session, however many tests look at it."""

from collections.abc import Callable, Iterator
from functools import cache, partial

import pytest

from langgraph_compaction.checkpoint import Database
from tests.replay.plays import Case, Play, play


@pytest.fixture(scope="session")
def played() -> Iterator[Callable[[Case], Play]]:
    """Return a function that plays a conversation, or says how it went."""
    with Database.open() as database:
        database.setup()
        yield cache(partial(play, database=database))
