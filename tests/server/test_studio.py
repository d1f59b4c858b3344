"""What LangGraph Studio asks of the server: to draw the graph, set it, run it, be asked, and go back in time."""

from typing import Any

import pytest

from langgraph_compaction.graph.routing import AGENT_EDGES
from langgraph_compaction.nodes.config.settings import CompactionOverrides
from tests.graph.harness import BEFORE
from tests.server.dev_server import ids, ran, said_by_user, talk, wish

SOFT = talk(800)
"""About 3,410 tokens: over the scripted model's trigger, 3,200, and under its limit, 4,000."""
HARD = talk(970)


def test_the_graph_is_drawn_by_its_names(client: Any, assistant: str) -> None:
    """Nodes and edges are those of the design, and nothing else."""
    drawn = client.assistants.get_graph(assistant)
    assert {node["id"] for node in drawn["nodes"]} == {"__start__", *AGENT_EDGES, "tools", "__end__"}
    assert {(edge["source"], edge["target"]) for edge in drawn["edges"]} == {
        ("__start__", "token_check"),
        *((source, target) for source, words in AGENT_EDGES.items() for target in words.values()),
        ("tools", "token_check"),
        ("tools", "__end__"),
    }
    words = {(edge["source"], edge["target"]): edge.get("data") for edge in drawn["edges"]}
    assert words["token_check", "selective_compaction"] == "too large"
    assert words["commit", "rollback"] == "refused by the gate"


def test_the_settings_are_the_contexts_schema(client: Any, assistant: str) -> None:
    """Every one at its node with what it means; nothing is required, and input and output show no internals."""
    schemas = client.assistants.get_schemas(assistant)
    for name in ("context_schema", "config_schema"):
        fields = schemas[name]["properties"]
        assert list(fields) == list(CompactionOverrides.model_fields)
        assert all(field["description"] and field["default"] is None for field in fields.values())
        assert "required" not in schemas[name]
        drawn = {node["id"] for node in client.assistants.get_graph(assistant)["nodes"]}
        assert all(
            field["langgraph_nodes"] and drawn.issuperset(field["langgraph_nodes"]) for field in fields.values()
        )
        assert fields["summary_prompt"]["langgraph_type"] == "prompt"
    for name in ("input_schema", "output_schema"):
        assert list(schemas[name]["properties"]) == ["messages", "compaction_request"]


@pytest.mark.parametrize("accept", [True, False])
def test_an_interrupt_is_answered(client: Any, assistant: str, accept: bool) -> None:
    """The thread waits for a person, asks in the form of front ends, goes on as they say, and keeps what was said."""
    thread = client.threads.create()["thread_id"]
    context = {"require_confirmation": True}
    client.runs.wait(thread, assistant, input=SOFT, context=context)
    waiting = client.threads.get_state(thread)
    assert waiting["next"] == ["confirm"]
    (question,) = [one["value"] for one in waiting["interrupts"]]
    (action,), (review,) = question["action_requests"], question["review_configs"]
    assert action["description"].startswith("Compact the conversation?")
    assert (action["name"], action["args"]) == (review["action_name"], {"focus": ""})
    assert review["allowed_decisions"] == ["approve", "edit", "reject"]
    assert client.threads.get(thread)["status"] == "interrupted"
    edit = {"type": "edit", "edited_action": {"name": "compact_conversation", "args": {"focus": "the parts"}}}
    answer = {"resume": {"decisions": [edit if accept else {"type": "reject"}]}}
    client.runs.wait(thread, assistant, command=answer, context=context)
    state = client.threads.get_state(thread)["values"]
    assert state["compaction"]["last"]["verdict"] == ("committed" if accept else "declined")
    assert state["compaction"].get("epoch", 0) == accept
    assert ids(state)[:-1] == [message["id"] for message in SOFT["messages"]]
    assert state["messages"][0]["content"] == SOFT["messages"][0]["content"]
    assert state["messages"][-1]["type"] == "ai"
    if accept:
        summary = state["compaction_view"]["summary"]["content"]
        assert summary not in [message["content"] for message in state["messages"]]
    assert client.threads.get(thread)["status"] == "idle"


def test_an_edited_state_is_what_a_run_goes_on_from(client: Any, assistant: str) -> None:
    """A message changed and one deleted in the middle of a question: what is compacted is what is there now."""
    thread = client.threads.create()["thread_id"]
    asks = {"require_confirmation": True, "policy": {"hooks": [*BEFORE]}}
    client.runs.wait(thread, assistant, input=SOFT, context=asks)
    edits = [{"role": "user", "id": "m6", "content": "shorter"}, {"role": "remove", "content": "", "id": "m1"}]
    client.threads.update_state(thread, {"messages": edits}, as_node="token_check")
    edited = client.threads.get_state(thread)
    assert edited["next"] == ["confirm"]
    assert said_by_user(edited["values"])[-1] == "shorter"
    assert ids(edited["values"]) == ["m0", "m2", "m3", "m4", "m5", "m6"]
    client.runs.wait(thread, assistant, input=None)
    state = client.runs.wait(thread, assistant, command={"resume": "approve"})
    assert state["compaction"]["epoch"] == 1
    assert said_by_user(state)[-1] == "shorter"
    assert "m1" not in ids(state)
    assert said_by_user(ran(client, thread, assistant, "And now?"))[-2:] == ["shorter", "And now?"]


def test_a_fork_goes_on_from_before_a_compaction(client: Any, assistant: str) -> None:
    """History has the state of every step; a run from before the compaction has all that was said."""
    thread = client.threads.create()["thread_id"]
    compacted = client.runs.wait(thread, assistant, input=HARD)
    assert compacted["compaction"]["epoch"] == 1
    history = client.threads.get_history(thread, limit=100)
    assert [one["next"] for one in reversed(history)] == [
        ["__start__"],
        ["token_check"],
        ["selective_compaction"],
        ["summarize"],
        ["commit"],
        ["model"],
        [],
    ]
    [before] = [one for one in history if one["next"] == ["token_check"]]
    assert said_by_user(before["values"]) == said_by_user(HARD_AS_STATE)
    fork = client.threads.update_state(
        thread,
        {"messages": [{"role": "remove", "content": "", "id": "m0"}]},
        checkpoint=before["checkpoint"],
        as_node="__start__",
    )
    state = client.runs.wait(thread, assistant, input=None, checkpoint=fork["checkpoint"])
    assert "epoch" not in state["compaction"]
    assert ids(state)[:-1] == [message["id"] for message in HARD["messages"][1:]]
    assert said_by_user(ran(client, thread, assistant, "On the fork.")) == [*said_by_user(state), "On the fork."]


HARD_AS_STATE = {"messages": [{**one, "type": "human"} for one in HARD["messages"] if one["role"] == "user"]}


def test_a_run_takes_a_compaction_back(client: Any, assistant: str) -> None:
    """By its input alone, for who has only the server; over the limit it says so, and wants to be forced."""
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, assistant, input=HARD)
    over = client.runs.wait(thread, assistant, input=wish(undo="last"))
    assert (over["compaction"]["last"]["verdict"], over["compaction"]["last"]["reason"]) == ("noop", "over_limit")
    forced = client.runs.stream(thread, assistant, input=wish(undo="last", force=True), stream_mode="custom")
    (told,) = [one.data for one in forced if one.event == "custom" and one.data["event"] == "CompactionEvent"]
    assert told["verdict"] == "undone"
    back = client.threads.get_state(thread)["values"]
    assert ids(back)[:-1] == [message["id"] for message in HARD["messages"]]
    assert back["compaction"]["held"]
    assert client.runs.wait(thread, assistant, input=wish(release=True))["compaction"]["held"] is False
