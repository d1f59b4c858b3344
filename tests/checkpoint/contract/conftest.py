"""A saver of each kind for each test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.checkpoint import SQLAlchemySaver
from tests.checkpoint.contract.savers import KINDS, Kind

Opened = Callable[..., SQLAlchemySaver]

SHARED = [each for each in KINDS if each.database != "memory"]
shared = pytest.mark.parametrize("kind", SHARED, indirect=True, ids=str)
"""For tests of databases that several savers can open."""


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Return each kind of saver."""
    return request.param


@pytest.fixture
def opened(
    kind: Kind, session_url: Callable[[str], str], cleared_url: Callable[[str], str], tmp_path: Path
) -> Iterator[Opened]:
    """Return a function that opens a saver, with options, until the test is over."""
    if kind.database == "memory":
        url = "memory"
    elif not kind.encrypted:
        url = session_url(kind.database)
    else:  # a list of all threads would refuse those of other tests, which are not encrypted
        url = f"sqlite:///{tmp_path / 'own.db'}" if kind.database == "sqlite" else cleared_url(kind.database)
    with ExitStack() as stack:

        def open_one(**options: Any) -> SQLAlchemySaver:
            saver = stack.enter_context(kind.open(url, **options))
            saver.setup()
            return saver

        yield open_one


@pytest.fixture
def saver(opened: Opened) -> SQLAlchemySaver:
    """Open a saver."""
    return opened()
