import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from langgraph_compaction.graph.cli.inspect_thread import file_name
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.inspector.page import page
from tests.graph.harness import THREAD
from tests.graph.inspector.conftest import HOSTILE, Told


class Parts(HTMLParser):
    """The tags of a page and what its scripts hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        """Note what stands in a script."""
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data


def test_a_page_holds_everything_and_asks_for_nothing(every: Told) -> None:
    """No address stands in it but the name of SVG, and its policy lets nothing be loaded."""
    text = page(every.report())
    parts = Parts(text)
    assert not [attrs for _, attrs in parts.tags if {"src", "data", "action"} & attrs.keys()]
    assert [attrs["href"] for _, attrs in parts.tags if "href" in attrs] == ["#attempts"]
    assert set(re.findall(r"(?:https?|wss?):", text.replace('"http://www.w3.org/2000/svg"', ""))) == set()
    (policy,) = [attrs["content"] for _, attrs in parts.tags if "http-equiv" in attrs]
    style, script = (re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("style", "script"))
    assert dict(part.split(" ") for part in (policy or "").split("; ")) == {
        "default-src": "'none'",
        "style-src": hashed(*style),
        "script-src": hashed(*script),
        "style-src-attr": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "connect-src": "'none'",
    }


def hashed(text: str) -> str:
    """Return the source of a content security policy that allows this script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("thread", [THREAD, HOSTILE])
def test_words_of_a_conversation_are_never_html(told: Told, thread: str) -> None:
    """They stand in the data alone, and come back from there to the letter; a thread's name is escaped."""
    report = {**told.report(), "thread": thread}
    parts = Parts(page(report))
    assert [tag for tag, _ in parts.tags].count("script") == 2
    assert not [tag for tag, attrs in parts.tags if tag == "img" or any(name.startswith("on") for name in attrs)]
    found = json.loads(parts.scripts[0])
    assert any(HOSTILE.splitlines()[0] in one["text"] for one in found["messages"].values())
    assert found["thread"] == thread


def test_the_command_writes_a_page_beside(every: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the thread's name, or where it is told to; `--json` prints the data instead."""
    monkeypatch.chdir(tmp_path)
    name = f"{'long-' * 30}.html"
    done = CliRunner().invoke(app, ["inspect", THREAD, "--db", every.url, "--out", name], env={"COLUMNS": "60"})
    size = (tmp_path / name).stat().st_size / 1_000
    assert (
        done.stdout == f"{name}, {size:.1f} kB (requests: 4, compactions: 3)\n"
    )  # neither an undo nor an attempt that failed
    assert CliRunner().invoke(app, ["inspect", THREAD, "--db", every.url]).exit_code == 0
    assert (tmp_path / f"{THREAD}.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    shown = CliRunner().invoke(app, ["inspect", THREAD, "--db", every.url, "--json"]).stdout
    assert [one["kind"] for one in json.loads(shown)["attempts"]].count("undone") == 2


def test_without_a_thread_the_threads_are_listed(told: Told) -> None:
    """As `threads` lists them, as a table and as JSON; a page to serve or to write needs a thread."""
    listed = CliRunner().invoke(app, ["inspect", "--db", told.url])
    assert listed.exit_code == 0
    assert listed.stdout == CliRunner().invoke(app, ["threads", "--db", told.url]).stdout
    assert THREAD in listed.stdout
    row = json.loads(CliRunner().invoke(app, ["inspect", "--db", told.url, "--json"]).stdout)
    assert row["thread_id"] == THREAD
    for option in (["--serve"], ["--out", "page.html"]):
        refused = CliRunner().invoke(app, ["inspect", "--db", told.url, *option])
        assert (refused.exit_code, "name the thread" in refused.stderr) == (2, True)


def test_what_cannot_be_done_is_told(told: Told, tmp_path: Path) -> None:
    """A thread that is not there, a place that cannot be written to."""
    runner = CliRunner()
    assert "there is no thread" in runner.invoke(app, ["inspect", "nobody", "--db", told.url]).stderr
    away = runner.invoke(app, ["inspect", THREAD, "--db", told.url, "--out", str(tmp_path / "no" / "where.html")])
    assert away.exit_code == 2
    assert "name another place by --out" in away.stderr


@pytest.mark.parametrize(
    ("thread", "name"),
    [
        ("t-1", "t-1.html"),
        ("../../etc/passwd", "_.._etc_passwd.html"),
        ("a b/c", "a_b_c.html"),
        ("..", "thread.html"),
        ("t" * 101, f"{'t' * 100}.html"),
    ],
)
def test_a_threads_name_leads_to_no_other_folder(thread: str, name: str) -> None:
    """Whatever it is."""
    assert file_name(thread) == name
