"""The server with a key: the agent's own model, a scripted provider over HTTP, answers and writes the summaries.

Settings and sizes are those of the presets with a window of 128,000 tokens. `script.requests` is the provider's log.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from tests.graph.cli.provider import Provider, provider
from tests.graph.test_who_summarizes import SUMMARY, WRITTEN, asks_for_summary
from tests.server.dev_server import Server, ids, said

EMPTY = "write no summary"
"""Words in a conversation of which the provider writes an empty summary."""


def reply(request: dict[str, Any]) -> str:
    """What the provider answers."""
    if not asks_for_summary(request):
        return "All is calm."
    return "" if EMPTY in json.dumps(request) else SUMMARY


@pytest.fixture(scope="module")
def started() -> Iterator[Provider]:
    """Serve the model."""
    with provider(answer=reply) as found:
        yield found


@pytest.fixture
def script(started: Provider) -> Provider:
    """The model's server, with an empty log."""
    started.requests.clear()
    started.counted = 20
    return started


@pytest.fixture(scope="module")
def server(started: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server whose environment has a key."""
    with Server(tmp_path_factory.mktemp("keyed"), environment=started.env).running() as found:
        yield found


def talk(tokens: int, first: str = "Begin.", rounds: int = 40) -> list[dict[str, str]]:
    """A conversation of about so many tokens."""
    words = tokens // (2 * rounds)
    spoken = [("user", f"Day {n}:" + " sea" * words) for n in range(rounds)]
    answers = [("assistant", f"Day {n}:" + " wind" * words) for n in range(rounds)]
    both = [one for pair in zip(spoken, answers, strict=True) for one in pair]
    every = [("user", first), ("assistant", "Begun."), *both]
    return [{"role": role, "content": text, "id": f"m{n}"} for n, (role, text) in enumerate(every)]


def summaries(script: Provider) -> list[dict[str, Any]]:
    """The requests that asked for a summary."""
    return [request for request in script.requests if asks_for_summary(request)]


def seen(request: dict[str, Any]) -> list[dict[str, str]]:
    """The messages of a request."""
    return [{"role": message["role"], "content": message["content"]} for message in request["messages"]]


def test_an_empty_reply_is_rolled_back(client: Any, assistant: str, script: Provider, kept: SQLAlchemySaver) -> None:
    """Three requests for a summary; then state and request hold the conversation, byte for byte."""
    thread = client.threads.create(graph_id="agent")["thread_id"]
    given = talk(108_000, EMPTY)
    client.threads.update_state(thread, {"messages": given}, as_node="model")
    before = client.threads.get_state(thread)["values"]["messages"]
    state = client.runs.wait(thread, assistant, input=said("And now?"))
    assert len(summaries(script)) == 3
    assert [row.verdict for row in CompactionRecords(kept.database).history(thread)] == ["rejected_empty"]
    assert json.dumps(state["messages"][:-2]) == json.dumps(before)
    spoken = [{"role": one["role"], "content": one["content"]} for one in given]
    assert seen(script.requests[-1]) == [*spoken, {"role": "user", "content": "And now?"}]


SYSTEMS = {
    "selective": (talk(108_000), {}, "precheck"),
    "typed_rules": (talk(90_000), {}, "check"),
    "progressive": (talk(2_000), {"calls": 199}, "model_calls"),
    "layered_defence": (talk(118_000), {}, "input"),
    "recent_rounds": (talk(108_000), {}, "input"),
}
"""For each system's preset: a conversation, what the state knows beside it, and the trigger that fires."""


@pytest.mark.parametrize("preset", SYSTEMS)
def test_each_system_compacts_at_its_own_trigger(
    client: Any, assistant: str, script: Provider, kept: SQLAlchemySaver, preset: str
) -> None:
    """Chosen by the run's context: four are summarized by the agent's own model, a rule by type needs no summary.

    The next request has the summary.
    """
    talked, known, trigger = SYSTEMS[preset]
    thread, context = client.threads.create(graph_id="agent")["thread_id"], {"preset": preset}
    script.counted = 110_000 if trigger == "check" else 20
    client.threads.update_state(thread, {"messages": talked, "compaction": known}, as_node="model")
    client.runs.wait(thread, assistant, input=said("And now?"), context=context)
    waiting = client.threads.get_state(thread)["interrupts"]
    assert bool(waiting) == (preset == "recent_rounds")
    if waiting:
        client.runs.wait(thread, assistant, command={"resume": "approve"}, context=context)
    (row,) = CompactionRecords(kept.database).history(thread)
    assert (row.verdict, row.trigger) == ("committed", trigger)
    state = client.threads.get_state(thread)["values"]
    stays = preset != "layered_defence"  # its document keeps the list light: what is hidden moves to the archive
    assert (ids(state)[: len(talked)] == [message["id"] for message in talked]) == stays
    assert state["compaction_view"]["hidden"] or not stays
    assert (len(script.requests[-1]["messages"]) < len(talked)) == (trigger != "check")
    assert bool(summaries(script)) == (preset != "typed_rules")
    assert all(asked["model"] == "gpt-4o-mini" for asked in summaries(script))
    assert (WRITTEN in json.dumps(seen(script.requests[-1]))) == (preset != "typed_rules")
    assert state["messages"][-1]["content"].strip() == "All is calm."
