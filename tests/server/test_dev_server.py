"""LangGraph's own server loads what `langgraph.json` names: it runs the graph, and keeps its threads with us."""

from typing import Any
from uuid import uuid4

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from tests.server.dev_server import Server, ids, ran, said, said_by_user, steps, talk, wish


def test_threads_of_the_server_are_in_our_tables(
    server: Server, client: Any, assistant: str, kept: SQLAlchemySaver
) -> None:
    """Every checkpoint that the server tells of stands in the database, beside the compactions of its thread."""
    thread = client.threads.create()["thread_id"]
    state = client.runs.wait(thread, assistant, input=talk(900))
    told = client.threads.get_history(thread, limit=100)
    ours = list(kept.list({"configurable": {"thread_id": thread}}))
    assert [one.config["configurable"]["checkpoint_id"] for one in ours] == [one["checkpoint_id"] for one in told]
    assert [one.id for one in ours[0].checkpoint["channel_values"]["messages"]] == ids(state)
    assert [row.verdict for row in CompactionRecords(kept.database).history(thread)] == ["committed"]
    assert "Custom checkpointer missing" not in server.log


def test_the_middleware_keeps_its_records_beside_the_checkpoints(client: Any, kept: SQLAlchemySaver) -> None:
    """Of an agent that was built without a checkpointer and without `database=`."""
    [agent] = client.assistants.search(graph_id="langchain_loaded")
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, agent["assistant_id"], input=talk(900))
    assert [row.verdict for row in CompactionRecords(kept.database).history(thread)] == ["committed"]


def test_a_copied_thread_goes_its_own_way(client: Any, assistant: str) -> None:
    """A copy has the state and the history of its source, and neither sees what is said to the other."""
    source = client.threads.create()["thread_id"]
    ran(client, source, assistant, "to both")
    copy = client.threads.copy(source)["thread_id"]
    assert steps(client, copy) == steps(client, source)
    ran(client, copy, assistant, "to the copy")
    ran(client, source, assistant, "to the source")
    assert said_by_user(client.threads.get_state(copy)["values"]) == ["to both", "to the copy"]
    assert said_by_user(client.threads.get_state(source)["values"]) == ["to both", "to the source"]


def test_what_is_deleted_over_http_is_gone(client: Any, assistant: str, kept: SQLAlchemySaver) -> None:
    """Deleting a run takes its checkpoints, deleting the thread takes all that we keep of it, compactions too."""
    thread = client.threads.create()["thread_id"]
    for given in (talk(900), said("last")):
        client.runs.wait(thread, assistant, input=given)
    last = client.runs.list(thread)[0]["run_id"]
    before = [one for one in client.threads.get_history(thread, limit=100) if one["metadata"]["run_id"] != last]
    client.runs.delete(thread, last)
    assert [one["checkpoint_id"] for one in before] == steps(client, thread)
    assert CompactionRecords(kept.database).history(thread)
    client.threads.delete(thread)
    assert thread not in kept.threads()
    assert CompactionRecords(kept.database).history(thread) == []


def test_a_restarted_server_goes_on(server: Server, client: Any, assistant: str) -> None:
    """State, history and archive of a thread are there again after a restart, whatever the server itself kept."""
    thread = str(uuid4())
    client.threads.create(thread_id=thread)
    compacted = client.runs.wait(thread, assistant, input=talk(900))
    before = steps(client, thread)
    server.stop()
    for own in (server.folder / ".langgraph_api").glob(".langgraph_checkpoint*"):
        own.unlink()
    server.start()
    assert steps(client, thread) == before
    assert ids(client.threads.get_state(thread)["values"]) == ids(compacted)
    assert said_by_user(ran(client, thread, assistant, "And now?")) == [*said_by_user(compacted), "And now?"]
    back = client.runs.wait(thread, assistant, input=wish(undo="last", force=True))
    assert ids(back)[: len(talk(900)["messages"])] == [message["id"] for message in talk(900)["messages"]]
