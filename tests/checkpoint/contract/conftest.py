"""Each saver of the table for each test; what a peer is known to get wrong must fail, and is named."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from tests.checkpoint.contract.known import HANGS, KNOWN_FAILURES
from tests.checkpoint.contract.savers import SAVERS, USUAL, Kind, Saver
from tests.conftest import server_database

Opened = Callable[..., Any]


@pytest.fixture(scope="session")
def peer_url() -> Iterator[Callable[[], str]]:
    """Return a function that gives the URL of a PostgreSQL database with the tables of LangGraph's saver."""
    made: list[str] = []
    with ExitStack() as stack:

        def url() -> str:
            if not made:
                database = stack.enter_context(server_database("postgresql"))
                made.append(database.replace("postgresql+psycopg:", "postgresql:"))
                with PostgresSaver.from_conn_string(made[0]) as saver:
                    saver.setup()
            return made[0]

        yield url


@pytest.fixture
def url_for(
    session_url: Callable[[str], str], cleared_url: Callable[[str], str], peer_url: Callable[[], str], tmp_path: Path
) -> Callable[[Kind], str]:
    """Return a function that gives the URL of the database of a kind of saver."""

    @cache
    def url_for(kind: Kind) -> str:
        if kind.database == "memory":
            return "memory"
        if kind.encrypted:  # a list of all threads would refuse those of other tests, which are not encrypted
            return f"sqlite:///{tmp_path / 'encrypted.db'}" if kind.local else cleared_url(kind.database)
        if kind.ours:
            return session_url(kind.database)
        return peer_url() if kind.database == "postgresql" else f"sqlite:///{tmp_path / 'peer.db'}"

    return url_for


@pytest.fixture
def opened(url_for: Callable[[Kind], str]) -> Iterator[Opened]:
    """Return a function that opens a saver of a kind, with options, until the test is over."""
    with ExitStack() as stack:

        def open_one(kind: Kind, **options: Any) -> Any:
            url = url_for(kind)
            saver = stack.enter_context(kind.opens(url, **options))
            if kind.ours and (url == "memory" or kind.encrypted):
                saver.setup()
            return saver

        yield open_one


def marked(kinds: Iterable[Kind]) -> list[Any]:
    """Return the kinds as parameters; those of LangGraph's own savers carry the mark `peers`."""
    return [kind if kind.ours else pytest.param(kind, marks=pytest.mark.peers) for kind in kinds]


def known(request: pytest.FixtureRequest) -> Kind:
    """Return the kind of saver a test is given; where the table says that it fails, it has to."""
    kind: Kind = request.param
    if reason := KNOWN_FAILURES.get(request.node.originalname, {}).get(kind.name):
        assert not kind.ours
        request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True, run=reason != HANGS))
    return kind


@pytest.fixture(params=marked(SAVERS), ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Return each kind of saver."""
    return known(request)


@pytest.fixture(params=marked(each for each in SAVERS if each.detects), ids=str)
def detecting_kind(request: pytest.FixtureRequest) -> Kind:
    """Return each kind of saver that notices a change in place."""
    return known(request)


@pytest.fixture(params=[each for each in USUAL if each.detects], ids=str)
def our_detecting_kind(request: pytest.FixtureRequest) -> Kind:
    """Return each kind of saver of ours that notices a change in place."""
    return known(request)


@pytest.fixture(params=USUAL, ids=str)
def our_kind(request: pytest.FixtureRequest) -> Kind:
    """Return each kind of saver of ours."""
    return known(request)


@pytest.fixture(params=marked(each for each in SAVERS if each.prunes), ids=str)
def pruning_kind(request: pytest.FixtureRequest) -> Kind:
    """Return each kind of saver that has `prune`."""
    return known(request)


@pytest.fixture
def saver(kind: Kind, opened: Opened) -> Saver:
    """Open a saver of each kind."""
    return opened(kind)


@pytest.fixture
def detecting(detecting_kind: Kind, opened: Opened) -> Saver:
    """Open a saver of each kind that notices a change in place."""
    return opened(detecting_kind)


@pytest.fixture
def ours(our_kind: Kind, opened: Opened) -> Any:
    """Open a saver of each kind of ours."""
    return opened(our_kind)


@pytest.fixture
def pruner(pruning_kind: Kind, opened: Opened) -> Saver:
    """Open a saver of each kind that has `prune`."""
    return opened(pruning_kind)
