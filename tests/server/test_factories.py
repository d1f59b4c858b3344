"""Nothing of ours blocks the server's event loop, whoever builds the graph, and whoever keeps its threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_sync_client

from tests.server.dev_server import Server, ids, ran, said, said_by_user, talk
from tests.server.factories import GRAPHS, HOUSES

GUIDE = Path(__file__).parents[2] / "docs" / "server.md"


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
    """Whether a run of this graph, in a thread of its own, takes the oldest message out of view."""
    with get_sync_client(url=running.address) as client:
        assistant = schemas_told(client, graph)
        thread = client.threads.create()["thread_id"]
        state: Any = client.runs.wait(thread, assistant, input=over_trigger(graph))
        return len(ids(state)) > 1 and "m0" not in ids(state)


def test_what_the_guide_says_of_each_house(running: Server) -> None:
    """Schemas, streams, time travel and interrupts of each graph are as the guide has them, without an error."""
    before = len(running.log)
    table = GUIDE.read_text(encoding="utf-8").partition("| graph |")[2].partition("\n\n")[0]
    with ThreadPoolExecutor() as pool:
        rows = list(pool.map(lambda graph: row(running, graph), HOUSES))
    assert table.splitlines()[2:] == rows
    assert running.errors(before) == []


def row(running: Server, graph: str) -> str:
    """The graph's row of the guide's table."""
    with get_sync_client(url=running.address) as client:
        cells = [outcome(check, client, graph) for check in (schemas_told, streams, travels, interrupts)]
    return f"| {HOUSES[graph]} | {' | '.join(cells)} |"


def outcome(check: Callable[[Any, str], Any], client: Any, graph: str) -> str:
    """What a check comes to."""
    try:
        check(client, graph)
    except Exception as error:  # noqa: BLE001 - the test's message names it
        return repr(error)
    return "yes"


def schemas_told(client: Any, graph: str) -> str:
    """Check that the graph's schemas are told; return its assistant."""
    [assistant] = client.assistants.search(graph_id=graph)
    name: str = assistant["assistant_id"]
    schemas = client.assistants.get_schemas(name)
    for each in ("input_schema", "output_schema", "state_schema"):
        assert "messages" in schemas[each]["properties"]
    assert "compaction_request" in schemas["input_schema"]["properties"]
    return name


def streams(client: Any, graph: str) -> None:
    """Check that a run that compacts streams its event, one update a node, and the words of the answer alone."""
    thread, assistant = client.threads.create()["thread_id"], schemas_told(client, graph)
    modes = ["updates", "custom", "messages-tuple"]
    chunks = list(client.runs.stream(thread, assistant, input=over_trigger(graph), stream_mode=modes))
    told = [chunk.data for chunk in chunks if chunk.event == "custom" and chunk.data["event"] == "CompactionEvent"]
    assert [event["verdict"] for event in told] == ["committed"]
    updates = [update for chunk in chunks if chunk.event == "updates" for update in chunk.data.values()]
    assert all(update is None or isinstance(update, dict) for update in updates)
    words = [chunk.data[0] for chunk in chunks if chunk.event == "messages"]
    assert "".join(message["content"] for message in words) == "heard"
    state = client.threads.get_state(thread)["values"]
    assert state["compaction"]["epoch"] == 1
    assert "m0" not in ids(state)


def travels(client: Any, graph: str) -> None:
    """Check that a run from a checkpoint before a compaction goes on from what was said by then."""
    thread, assistant = client.threads.create()["thread_id"], schemas_told(client, graph)
    ran(client, thread, assistant, "first")
    [end] = [one for one in client.threads.get_history(thread, limit=100) if not one["next"]]
    assert "m0" not in ids(client.runs.wait(thread, assistant, input=over_trigger(graph)))
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
