"""LangGraph's own server loads what `langgraph.json` names: it runs the graph, and keeps its threads with us."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import get_sync_client

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver

ROOT = Path(__file__).parent.parent.parent
START_S = 90


def free_port() -> int:
    """A port of loopback that nobody holds."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A server in a folder of its own, started as `make studio` starts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.database = f"sqlite:///{folder}/server.db"
        (folder / "langgraph.json").write_bytes((ROOT / "langgraph.json").read_bytes())
        (folder / "pyproject.toml").write_text('[project]\nname = "studio"\nversion = "0"\n', encoding="utf-8")

    @property
    def log(self) -> str:
        """All that it said."""
        return (self.folder / "log").read_text(encoding="utf-8")

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [str(Path(sys.executable).parent / "langgraph"), "dev", "--no-browser", "--no-reload"]
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "LANGSMITH_"))}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port)],
                cwd=self.folder,
                env={**clean, "LANGGRAPH_COMPACTION_DATABASE_URL": self.database},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.address}/ok", timeout=2).status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                time.sleep(0.3)
        pytest.fail(f"the server did not start:\n{self.log[-3000:]}")

    def stop(self) -> None:
        """End it, and wait until it is gone."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(timeout=20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server."""
    started = Server(tmp_path_factory.mktemp("server"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    """A client of the server, over HTTP."""
    with get_sync_client(url=server.address) as opened:
        yield opened


@pytest.fixture
def assistant(client: Any) -> str:
    """The id of the one assistant that the server has."""
    found: str = client.assistants.search()[0]["assistant_id"]
    return found


@pytest.fixture
def kept(server: Server) -> Iterator[SQLAlchemySaver]:
    """Open what the server keeps, beside it."""
    with SQLAlchemySaver.from_url(server.database) as saver:
        yield saver


def test_the_server_compacts_a_thread(client: Any, assistant: str) -> None:
    """Threads of the server grow past the window, are compacted, and take settings from the run's context."""
    drawn = client.assistants.get_graph(assistant)
    assert {"token_check", "summarize", "rollback", "model"} <= {node["id"] for node in drawn["nodes"]}
    schemas = client.assistants.get_schemas(assistant)
    assert "trigger_ratio" in (schemas["context_schema"] or {})["properties"]
    thread = client.threads.create()["thread_id"]
    for _ in range(4):
        state = _run(client, thread, assistant, "hello " + "word " * 900)
    assert state["compaction"]["epoch"] == 1
    assert state["messages"][0]["additional_kwargs"]["lc_source"] == "summarization"
    events = [
        chunk.data["event"]
        for chunk in client.runs.stream(
            thread,
            assistant,
            input={"messages": [{"role": "user", "content": "word " * 900}]},
            context={"trigger_ratio": 0.4, "target_ratio": 0.2},
            stream_mode="custom",
        )
        if chunk.event == "custom"
    ]
    assert events[0] == "PreCompactEvent"
    assert events[-1] == "CompactionEvent"


def test_threads_of_the_server_are_in_our_tables(
    server: Server, client: Any, assistant: str, kept: SQLAlchemySaver
) -> None:
    """Every checkpoint that the server tells of stands in the database, beside the compactions of its thread."""
    thread = client.threads.create()["thread_id"]
    for _ in range(4):
        state = _run(client, thread, assistant, "hello " + "word " * 900)
    told = client.threads.get_history(thread, limit=100)
    ours = list(kept.list({"configurable": {"thread_id": thread}}))
    assert [one.config["configurable"]["checkpoint_id"] for one in ours] == [one["checkpoint_id"] for one in told]
    assert _ids(ours[0].checkpoint["channel_values"]["messages"]) == [one["id"] for one in state["messages"]]
    assert [row.verdict for row in CompactionRecords(kept.database).history(thread)] == ["committed"]
    assert "Custom checkpointer missing" not in server.log


def test_a_thread_can_be_read_and_gone_on_with_at_any_checkpoint(client: Any, assistant: str) -> None:
    """The server finds the state of each step, and a run from an old one goes on from what was said by then."""
    thread = client.threads.create()["thread_id"]
    for text in ("first", "second"):
        _run(client, thread, assistant, text)
    steps = client.threads.get_history(thread, limit=100)
    [after_first] = [one for one in steps if not one["next"] and len(one["values"]["messages"]) == 2]
    again = client.threads.get_state(thread, checkpoint=after_first["checkpoint"])
    assert again["values"]["messages"] == after_first["values"]["messages"]
    state: Any = client.runs.wait(thread, assistant, input=_said("third"), checkpoint=after_first["checkpoint"])
    assert _said_by_user(state) == ["first", "third"]
    assert _said_by_user(client.threads.get_state(thread)["values"]) == ["first", "third"]


def test_a_copied_thread_goes_its_own_way(client: Any, assistant: str) -> None:
    """A copy has the state and the history of its source, and neither sees what is said to the other."""
    source = client.threads.create()["thread_id"]
    _run(client, source, assistant, "to both")
    copy = client.threads.copy(source)["thread_id"]
    assert _steps(client, copy) == _steps(client, source)
    _run(client, copy, assistant, "to the copy")
    _run(client, source, assistant, "to the source")
    assert _said_by_user(client.threads.get_state(copy)["values"]) == ["to both", "to the copy"]
    assert _said_by_user(client.threads.get_state(source)["values"]) == ["to both", "to the source"]


def test_what_is_deleted_over_http_is_gone(client: Any, assistant: str, kept: SQLAlchemySaver) -> None:
    """Deleting a run takes its checkpoints, deleting the thread takes all that we keep of it, compactions too."""
    thread = client.threads.create()["thread_id"]
    for _ in range(4):
        _run(client, thread, assistant, "hello " + "word " * 900)
    last = client.runs.list(thread)[0]["run_id"]
    before = [one for one in client.threads.get_history(thread, limit=100) if one["metadata"]["run_id"] != last]
    client.runs.delete(thread, last)
    assert [one["checkpoint_id"] for one in before] == _steps(client, thread)
    assert CompactionRecords(kept.database).history(thread)
    client.threads.delete(thread)
    assert thread not in kept.threads()
    assert CompactionRecords(kept.database).history(thread) == []


def test_a_restarted_server_goes_on(server: Server, client: Any, assistant: str) -> None:
    """State, history and archive of a thread are there again after a restart, whatever the server itself kept."""
    thread = str(uuid4())
    client.threads.create(thread_id=thread)
    _run(client, thread, assistant, "Remember me.")
    steps = _steps(client, thread)
    server.stop()
    for own in (server.folder / ".langgraph_api").glob(".langgraph_checkpoint*"):
        own.unlink()
    server.start()
    assert _steps(client, thread) == steps
    assert _said_by_user(_run(client, thread, assistant, "And now?")) == ["Remember me.", "And now?"]


def _run(client: Any, thread: str, assistant: str, text: str) -> dict[str, Any]:
    state: dict[str, Any] = client.runs.wait(thread, assistant, input=_said(text))
    assert "messages" in state, state
    return state


def _said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def _said_by_user(state: dict[str, Any]) -> list[str]:
    return [message["content"] for message in state["messages"] if message["type"] == "human"]


def _steps(client: Any, thread: str) -> list[str]:
    return [one["checkpoint_id"] for one in client.threads.get_history(thread, limit=100)]


def _ids(messages: list[Any]) -> list[str]:
    return [message.id for message in messages]
