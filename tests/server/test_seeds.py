"""What `make studio` opens on: an assistant for each preset, and threads with compactions of every outcome."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph_sdk import get_sync_client

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.nodes.config.policies import PRESETS
from langgraph_compaction.nodes.config.settings import CompactionOverrides, effective, settings_of
from studio.seeds import APPROVAL, TOUR, identifier
from tests.server.dev_server import Server, ran

WAIT_S = 60


@pytest.fixture
def client(studio: Server) -> Iterator[Any]:
    """A client of the server."""
    with get_sync_client(url=studio.address) as opened:
        yield opened


@pytest.fixture
def kept(studio: Server) -> Iterator[SQLAlchemySaver]:
    """Open what the server keeps, beside it."""
    with SQLAlchemySaver.from_url(studio.database) as saver:
        yield saver


def last(client: Any, title: str) -> dict[str, Any]:
    """What the state of a thread says of its last compaction."""
    values = client.threads.get_state(identifier(title))["values"]
    found: dict[str, Any] = (values.get("compaction") or {}).get("last", {})
    return found


def until(client: Any, title: str, status: str, verdict: str | None = None) -> None:
    """Wait until a thread has this status, and its last compaction this verdict."""
    deadline = time.monotonic() + WAIT_S
    while (client.threads.get(identifier(title))["status"], last(client, title).get("verdict")) != (status, verdict):
        assert time.monotonic() < deadline, client.threads.get(identifier(title))
        time.sleep(0.2)


def test_each_preset_is_an_assistant(client: Any) -> None:
    """Its context is the policy with all of its settings, as the form of the graph's settings takes them."""
    named = {one["name"]: one["context"] for one in client.assistants.search(graph_id="agent", limit=50)}
    assert named.keys() == {"agent", *PRESETS}
    for preset in PRESETS:
        settings = effective(settings_of(None), CompactionOverrides.model_validate(named[preset]))
        assert settings == settings_of(None).model_validate({"preset": preset})
        assert named[preset]["policy"]["name"] == preset


def test_a_thread_shows_a_compaction_of_each_outcome(studio: Server, client: Any, kept: SQLAlchemySaver) -> None:
    """It was committed, rolled back and undone; the history tells so in words, and a further turn is answered."""
    until(client, TOUR, "idle", "undone")
    rows = [row for row in CompactionRecords(kept.database).history(identifier(TOUR)) if row.verdict != "prepared"]
    assert [row.verdict for row in rows][-3:] == ["rejected_empty", "committed", "undone"]
    assert {row.verdict for row in rows[:-3]} == {"committed"}
    told = {
        state["values"].get("compaction", {}).get("last", {}).get("text", "")
        for state in client.threads.get_history(identifier(TOUR), limit=500)
    }
    for words in ("compacted: ", "not compacted: ", "undone: "):
        assert any(text.startswith(words) for text in told)
    (thread,) = client.threads.search(metadata={"title": TOUR})
    assert next(iter(thread["values"]["compaction"])) == "last"
    assert studio.errors(0) == []


def test_a_thread_waits_for_the_approval_of_its_compaction(client: Any) -> None:
    """Approved, it compacts."""
    until(client, APPROVAL, "interrupted")
    thread = identifier(APPROVAL)
    client.runs.wait(thread, "agent", command={"resume": "approve"})
    assert client.threads.get(thread)["status"] == "idle"
    assert last(client, APPROVAL)["verdict"] == "committed"


@pytest.mark.parametrize("preset", ["selective", "typed_rules", "progressive"])
def test_a_few_questions_compact(client: Any, preset: str) -> None:
    """The agent reads files with its tools, and a summary of its own model stands for what it read."""
    thread = client.threads.create()["thread_id"]
    for pattern in ("heapq", "zlib", "tempfile", "struct", "weakref"):
        state = ran(client, thread, identifier(preset), f"Which modules use `{pattern}\\.`?")
        assert state["messages"][-1]["content"].startswith(f"Found for `{pattern}")
    assert state["compaction"]["epoch"]
