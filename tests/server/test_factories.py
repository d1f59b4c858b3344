"""Nothing of ours blocks the server's event loop, whoever builds the graph, and whoever keeps its threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langgraph_sdk import get_sync_client

from tests.server.dev_server import Server, ids, ran, said, said_by_user, talk
from tests.server.factories import GRAPHS, HOUSES


@pytest.fixture(params=["server", "plain_server"])
def running(request: pytest.FixtureRequest) -> Server:
    """A server with our saver, and one with its own."""
    found: Server = request.getfixturevalue(request.param)
    return found


def over_trigger(graph: str) -> dict[str, Any]:
    """The input that adopts a conversation over the graph's trigger."""
    return talk(28_000 if graph.startswith("deep") else 900)


def test_graphs_of_every_kind_answer(running: Server) -> None:
    """Their schemas are told, each compacts a conversation over its trigger, and no call held up the loop."""
    before = len(running.log)
    others = [graph for graph in GRAPHS if graph not in HOUSES]
    with ThreadPoolExecutor() as pool:
        assert all(pool.map(lambda graph: compacts(running, graph), others))
    assert running.errors(before) == []
    assert "BlockingError" not in running.log


def compacts(running: Server, graph: str) -> bool:
    """Whether a run of this graph, in a thread of its own, compacts and keeps all messages."""
    with get_sync_client(url=running.address) as client:
        thread, given = client.threads.create()["thread_id"], over_trigger(graph)
        client.runs.wait(thread, schemas_told(client, graph), input=given)
        state: Any = client.threads.get_state(thread)["values"]
        return state["compaction"]["epoch"] == 1 and keeps(state, given)


def keeps(state: Any, given: dict[str, Any]) -> bool:
    """Whether the state begins with all messages of the input."""
    told = [message["id"] for message in given["messages"]]
    return ids(state)[: len(told)] == told


def test_each_house_tells_schemas_streams_travels_and_interrupts(running: Server) -> None:
    """As the guide says, each graph in each house does all four, without an error."""
    before = len(running.log)
    with ThreadPoolExecutor() as pool:
        found = dict(zip(HOUSES, pool.map(lambda graph: outcomes(running, graph), HOUSES), strict=True))
    assert found == dict.fromkeys(HOUSES, ["yes"] * 4)
    assert running.errors(before) == []


def outcomes(running: Server, graph: str) -> list[str]:
    """What the four checks of a graph come to."""
    with get_sync_client(url=running.address) as client:
        return [outcome(check, client, graph) for check in (schemas_told, streams, travels, interrupts)]


def outcome(check: Callable[[Any, str], Any], client: Any, graph: str) -> str:
    """What a check comes to."""
    try:
        check(client, graph)
    except Exception as error:  # noqa: BLE001 - the test's message names it
        return repr(error)
    return "yes"


def schemas_told(client: Any, graph: str) -> str:
    """Check that the graph's schemas are told; return its assistant.

    A graph that only compacts puts out no messages.
    """
    [assistant] = client.assistants.search(graph_id=graph)
    name: str = assistant["assistant_id"]
    schemas = client.assistants.get_schemas(name)
    assert "messages" in schemas["input_schema"]["properties"]
    assert "messages" in schemas["state_schema"]["properties"]
    assert ("messages" in schemas["output_schema"]["properties"]) == (graph != "compaction_later")
    assert "compaction_request" in schemas["input_schema"]["properties"]
    return name


def streams(client: Any, graph: str) -> None:
    """Check that a run that compacts streams its event, one update a node, and the words of the answer alone."""
    thread, assistant = client.threads.create()["thread_id"], schemas_told(client, graph)
    given = over_trigger(graph)
    modes = ["updates", "custom", "messages-tuple"]
    chunks = list(client.runs.stream(thread, assistant, input=given, stream_mode=modes))
    told = [chunk.data for chunk in chunks if chunk.event == "custom" and chunk.data["event"] == "CompactionEvent"]
    assert [event["verdict"] for event in told] == ["committed"]
    updates = [update for chunk in chunks if chunk.event == "updates" for update in chunk.data.values()]
    assert all(update is None or isinstance(update, dict) for update in updates)
    words = [chunk.data[0] for chunk in chunks if chunk.event == "messages"]
    assert "".join(message["content"] for message in words) == "heard"
    state = client.threads.get_state(thread)["values"]
    assert state["compaction"]["epoch"] == 1
    assert keeps(state, given)


def travels(client: Any, graph: str) -> None:
    """Check that a run from a checkpoint before a compaction goes on from what was said by then."""
    thread, assistant = client.threads.create()["thread_id"], schemas_told(client, graph)
    ran(client, thread, assistant, "first")
    [end] = [one for one in client.threads.get_history(thread, limit=100) if not one["next"]]
    client.runs.wait(thread, assistant, input=over_trigger(graph))
    assert client.threads.get_state(thread)["values"]["compaction"]["epoch"] == 1
    fork = client.runs.wait(thread, assistant, input=said("second"), checkpoint=end["checkpoint"])
    assert said_by_user(fork) == ["first", "second"]
    assert said_by_user(ran(client, thread, assistant, "third")) == ["first", "second", "third"]
    assert not client.threads.get_state(thread)["values"]["compaction"].get("epoch")


def interrupts(client: Any, graph: str) -> None:
    """Check that a tool's question reaches the user, and the answer the model."""
    thread, assistant = client.threads.create()["thread_id"], schemas_told(client, graph)
    client.runs.wait(thread, assistant, input=said("ask me"))
    assert client.threads.get(thread)["status"] == "interrupted"
    [question] = client.threads.get_state(thread)["interrupts"]
    assert question["value"] == "which one?"
    state = client.runs.wait(thread, assistant, command={"resume": "the red one"})
    assert "the red one" in state["messages"][-1]["content"]
    assert client.threads.get(thread)["status"] == "idle"
