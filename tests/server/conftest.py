from collections.abc import Iterator
from typing import Any

import pytest
from langgraph_sdk import get_sync_client

from langgraph_compaction.checkpoint import SQLAlchemySaver
from tests.server.dev_server import Server

SMALL = {"LANGGRAPH_COMPACTION_CONTEXT_WINDOW": "4000"}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server."""
    with Server(tmp_path_factory.mktemp("server"), environment=SMALL).running() as found:
        yield found


@pytest.fixture(scope="session")
def plain_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server with its own saver."""
    with Server(tmp_path_factory.mktemp("plain_server"), own_saver=False, environment=SMALL).running() as found:
        yield found


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server as `make studio` starts it, while its threads are made."""
    with Server(tmp_path_factory.mktemp("studio"), config="studio.json", graphs={}).running() as found:
        yield found


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    """A client of the server, over HTTP."""
    with get_sync_client(url=server.address) as opened:
        yield opened


@pytest.fixture
def assistant(client: Any) -> str:
    """The id of the assistant of `langgraph.json`."""
    found: str = client.assistants.search(graph_id="agent")[0]["assistant_id"]
    return found


@pytest.fixture
def kept(server: Server) -> Iterator[SQLAlchemySaver]:
    """Open what the server keeps, beside it."""
    with SQLAlchemySaver.from_url(server.database) as saver:
        yield saver
