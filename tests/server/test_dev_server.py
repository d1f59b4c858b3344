"""LangGraph's own server loads the graph of `langgraph.json`, runs it and compacts with it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client

ROOT = Path(__file__).parent.parent.parent
START_S = 90


def free_port() -> int:
    """A port of loopback that nobody holds."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running server, started as `make studio` starts it."""
    port, folder = free_port(), tmp_path_factory.mktemp("server")
    (folder / "langgraph.json").write_text((ROOT / "langgraph.json").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "pyproject.toml").write_text('[project]\nname = "studio"\nversion = "0"\n', encoding="utf-8")
    command = [str(Path(sys.executable).parent / "langgraph"), "dev", "--no-browser", "--no-reload"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "LANGSMITH_"))}
    environment["LANGGRAPH_COMPACTION_DATABASE_URL"] = f"sqlite:///{folder}/server.db"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield _ready(f"http://127.0.0.1:{port}", process, folder / "log")
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=20)


def _ready(address: str, process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{address}/ok", timeout=2).status_code == httpx.codes.OK:
                return address
        except httpx.TransportError:
            time.sleep(0.3)
    pytest.fail(f"the server did not start:\n{log.read_text(encoding='utf-8')[-3000:]}")


def test_the_server_compacts_a_thread(server: str) -> None:
    """Threads of the server grow past the window, are compacted, and take settings from the run's context."""
    with get_sync_client(url=server) as client:
        assistant = client.assistants.search()[0]
        drawn = client.assistants.get_graph(assistant["assistant_id"])
        assert {"token_check", "summarize", "rollback", "model"} <= {node["id"] for node in drawn["nodes"]}
        schemas = client.assistants.get_schemas(assistant["assistant_id"])
        assert "trigger_ratio" in (schemas["context_schema"] or {})["properties"]
        thread = client.threads.create()["thread_id"]
        for _ in range(4):
            state = _run(client, thread, assistant["assistant_id"], "hello " + "word " * 900)
        assert state["compaction"]["epoch"] == 1
        assert state["messages"][0]["additional_kwargs"]["lc_source"] == "summarization"
        events = [
            chunk.data["event"]
            for chunk in client.runs.stream(
                thread,
                assistant["assistant_id"],
                input={"messages": [{"role": "user", "content": "word " * 900}]},
                context={"trigger_ratio": 0.4, "target_ratio": 0.2},
                stream_mode="custom",
            )
            if chunk.event == "custom"
        ]
        assert events[0] == "PreCompactEvent"
        assert events[-1] == "CompactionEvent"


def _run(client: Any, thread: str, assistant: str, text: str) -> dict[str, Any]:
    given = {"messages": [{"role": "user", "content": text}]}
    state: dict[str, Any] = client.runs.wait(thread, assistant, input=given)
    assert "messages" in state, state
    return state
