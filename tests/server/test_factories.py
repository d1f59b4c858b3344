"""Nothing of ours blocks the server's event loop, whoever builds the graph, and whoever keeps its threads."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langgraph_sdk import get_sync_client

from tests.server.dev_server import Server, ids, talk
from tests.server.factories import GRAPHS


@pytest.fixture(params=["server", "plain_server"])
def running(request: pytest.FixtureRequest) -> Server:
    """A server with our saver, and one with its own."""
    found: Server = request.getfixturevalue(request.param)
    return found


def test_graphs_of_every_kind_answer(running: Server) -> None:
    """Their schemas are told, each compacts a conversation over its trigger, and no call held up the loop."""
    with ThreadPoolExecutor() as pool:
        assert all(pool.map(lambda graph: compacts(running, graph), GRAPHS))
    assert "BlockingError" not in running.log


def compacts(running: Server, graph: str) -> bool:
    """Whether a run of this graph, in a thread of its own, takes the oldest message out of view."""
    with get_sync_client(url=running.address) as client:
        [assistant] = client.assistants.search(graph_id=graph)
        schemas = client.assistants.get_schemas(assistant["assistant_id"])
        assert "messages" in schemas["input_schema"]["properties"]
        thread = client.threads.create()["thread_id"]
        state: Any = client.runs.wait(thread, assistant["assistant_id"], input=talk(900))
        return len(ids(state)) > 1 and "m0" not in ids(state)
