"""LangGraph's own server in a folder of its own, and what a test says to it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from tests.server.factories import GRAPHS

ROOT = Path(__file__).parent.parent.parent
START_S = 90
PLAIN_LOG = {"LOG_COLOR": "false", "LOG_JSON": "false"}
"""Each line of the log has its level in brackets, without escape sequences."""


def free_port() -> int:
    """A port of loopback that nobody holds."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A server in a folder of its own, started by one of the project's files, with the graphs of `factories` too."""

    def __init__(
        self,
        folder: Path,
        *,
        config: str = "langgraph.json",
        own_saver: bool = True,
        environment: Mapping[str, str] | None = None,
        graphs: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.environment = dict(environment or {})
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.database = f"sqlite:///{folder}/server.db"
        named: dict[str, Any] = json.loads((ROOT / config).read_text(encoding="utf-8"))
        named["graphs"] |= {name: f"./factories.py:{name}" for name in GRAPHS} if graphs is None else graphs
        if not own_saver:
            del named["checkpointer"]
        if "http" in named:
            named["http"]["app"] = str(ROOT / named["http"]["app"])
        (folder / "langgraph.json").write_text(json.dumps(named), encoding="utf-8")
        (folder / "factories.py").write_bytes((Path(__file__).parent / "factories.py").read_bytes())
        (folder / "pyproject.toml").write_text('[project]\nname = "studio"\nversion = "0"\n', encoding="utf-8")

    @property
    def log(self) -> str:
        """All that it said."""
        return (self.folder / "log").read_text(encoding="utf-8")

    def errors(self, start: int) -> list[str]:
        """Lines of the log from this character on that are errors, or say that a call blocked the event loop.

        That a graph took long to load depends on the machine's load.
        """
        found = re.findall(r".*BlockingError.*|Traceback.*|.*\[error .*|.*\[critical.*", self.log[start:])
        return [line for line in found if "Slow graph load" not in line]

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [str(Path(sys.executable).parent / "langgraph"), "dev", "--no-browser", "--no-reload"]
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "LANGSMITH_"))}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port)],
                cwd=self.folder,
                env={**clean, **PLAIN_LOG, "LANGGRAPH_COMPACTION_DATABASE_URL": self.database, **self.environment},
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

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Run the server within the `with` block."""
        try:
            self.start()
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        """End it, and wait until it is gone."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(timeout=20)


def ran(client: Any, thread: str, assistant: str, text: str) -> dict[str, Any]:
    """The state after a turn."""
    state: dict[str, Any] = client.runs.wait(thread, assistant, input=said(text))
    assert "messages" in state, state
    return state


def said(text: str) -> dict[str, Any]:
    """The input of a user who says this."""
    return {"messages": [{"role": "user", "content": text}]}


def talk(words: int, rounds: int = 4) -> dict[str, Any]:
    """The input that adopts a conversation: each of so many rounds takes about as many tokens as it has words."""
    spoken = [{"role": "user", "content": f"part {n} {'word ' * words}"} for n in range(rounds)]
    answers = [{"role": "assistant", "content": f"heard part {n}"} for n in range(rounds)]
    both = [message for pair in zip(spoken, answers, strict=True) for message in pair]
    return {"messages": [{**message, "id": f"m{n}"} for n, message in enumerate(both[:-1])]}


def wish(**request: Any) -> dict[str, Any]:
    """The input of a run by which a person asks for something."""
    return {"messages": [], "compaction_request": request}


def said_by_user(state: dict[str, Any]) -> list[str]:
    """What the user said, as the state has it."""
    return [message["content"] for message in state["messages"] if message["type"] == "human"]


def ids(state: dict[str, Any]) -> list[str]:
    """The ids of the state's messages."""
    return [message["id"] for message in state["messages"]]


def steps(client: Any, thread: str) -> list[str]:
    """The ids of a thread's checkpoints, newest first."""
    return [one["checkpoint_id"] for one in client.threads.get_history(thread, limit=100)]
