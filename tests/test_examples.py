"""The examples run as their READMEs say and show what these show, with a script in the place of a model."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from runpy import run_path
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langchain_core.messages import AnyMessage
from langgraph_sdk import get_sync_client

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.graph import CompactionThread, is_summary
from tests.checkpoint.contract.steps import where
from tests.server.dev_server import START_S, Server, free_port

FOLDER = Path(__file__).parents[1] / "examples"
PROGRAMS = ("deepagents_subagents", "own_graph", "supervisor")
BIN = Path(sys.executable).parent
CLEAN = {key: value for key, value in os.environ.items() if key not in {"DATABASE_URL", "MODEL"}}

pytestmark = pytest.mark.slow


def readme(name: str) -> tuple[str, str]:
    """The second command of an example's README, and what it shows."""
    text = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    [commands] = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    shown = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    _install, run = commands.splitlines()
    return run, "".join(shown)


def check_kept(records: CompactionRecords, thread_id: str, messages: Sequence[AnyMessage]) -> None:
    """A compaction was committed, and the chat has every message that one has hidden, and no summary."""
    hidden = {
        message.id
        for row in records.history(thread_id)
        if row.is_committed and row.namespace != "tools"  # a sub-agent's chat is its own
        for message in records.taken_by(thread_id, row.compaction_id)
        if not is_summary(message)
    }
    assert hidden
    assert hidden <= {message.id for message in messages}
    assert not any(map(is_summary, messages))


def check_stored(url: str, thread_id: str) -> None:
    """`check_kept`, of what a server has stored."""
    with SQLAlchemySaver.from_url(url) as saver:
        found = saver.get_tuple(where(thread_id))
        assert found is not None
        messages = found.checkpoint["channel_values"]["messages"]
        check_kept(CompactionRecords(saver.database), thread_id, messages)


def test_every_example_is_tried() -> None:
    """None stands there that nobody runs."""
    assert {path.parent.name for path in FOLDER.glob("*/README.md")} == {
        *PROGRAMS,
        "fastapi_users",
        "langgraph_server",
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_its_readme_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its command, in another folder; the thread then has a compaction and the whole chat."""
    command, shown = readme(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MODEL", raising=False)
    names = run_path(str(FOLDER.parent / command.removeprefix("python ")), run_name="__main__")
    assert capsys.readouterr() == (shown, "")
    thread: CompactionThread = names["thread"]
    state = thread.graph.get_state(thread.config).values
    check_kept(thread.records, thread.config["configurable"]["thread_id"], state["messages"])


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of the FastAPI example, started by the command of its README with another folder and port."""
    program, *arguments = shlex.split(readme("fastapi_users")[0])
    port = str(free_port())
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [BIN / program, *arguments, "--app-dir", FOLDER / "fastapi_users", "--port", port],
            cwd=folder,
            env=CLEAN,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    address, deadline = f"http://127.0.0.1:{port}", monotonic() + START_S
    try:
        while server.poll() is None and monotonic() < deadline:
            try:
                httpx.get(address)
            except httpx.TransportError:
                sleep(0.2)
            else:
                break
        else:
            pytest.fail((folder / "log").read_text())
        yield address
    finally:
        server.terminate()
        server.wait(timeout=20)


def test_users_of_the_fastapi_example_have_chats_of_their_own(tmp_path: Path) -> None:
    """One's chat compacts and is undone, the other's is untouched, and the history has all; the page is there."""
    chat = str(uuid4())
    alma, berta = {"X-User": "alma"}, {"X-User": "berta"}
    text = "The sea was calm, the wind light. " * 130
    with served(tmp_path) as address, httpx.Client(base_url=f"{address}/chats", timeout=60) as client:
        assert "Undo the last compaction" in httpx.get(address).text

        def say(headers: dict[str, str], text: str) -> str:
            return client.post(f"/{chat}", json={"text": text}, headers=headers).text

        def history(headers: dict[str, str]) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = client.get(f"/{chat}", headers=headers).json()
            return found

        say(berta, "Hello.")
        turns = 0
        while '"verdict": "committed"' not in (told := say(alma, text)):
            turns += 1
            assert turns < 10
        kept = history(alma)
        assert 0 < int(re.findall(r'data: "(\d+) ?"', told)[0]) < len(kept), "the model sees fewer"
        assert [one["text"] for one in kept if one["type"] == "human"] == [text] * (turns + 1)
        undone = client.post(f"/{chat}/undo", params={"force": True}, headers=alma)
        assert undone.json()["messages"] == len(kept)
        assert history(alma) == kept
        assert len(history(berta)) == 2
    check_stored(f"sqlite:///{tmp_path / 'chats.db'}", f"alma/{chat}")


def test_the_server_example_talks_as_its_readme_shows(tmp_path: Path) -> None:
    """In LangGraph's server, which is given its `langgraph.json` and `graph.py`."""
    command, shown = readme("langgraph_server")
    assert command == "cd examples/langgraph_server && langgraph dev"
    database = f"sqlite:///{tmp_path / 'server.db'}"
    server = Server(tmp_path, environment={"DATABASE_URL": database})
    for name in ("langgraph.json", "graph.py"):
        shutil.copy(FOLDER / "langgraph_server" / name, tmp_path)
    with server.running():
        told = subprocess.run(
            [sys.executable, FOLDER / "langgraph_server" / "talk.py", server.address],
            check=False,
            capture_output=True,
            text=True,
        )
        assert (told.returncode, told.stdout) == (0, shown), told.stderr
        assert server.errors(0) == []
        with get_sync_client(url=server.address) as client:
            [thread] = client.threads.search()
    check_stored(database, thread["thread_id"])
