"""`demo`: the whole investigation once, and what it must say when something is wrong."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph.lab.demo import investigation
from langgraph_compaction.graph.lab.demo.investigation import problems
from langgraph_compaction.graph.lab.demo.questions import QUESTIONS
from tests.graph.cli.commanding import call


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    """Run the command once as a machine would, and return its figures."""
    return json.loads(call("demo", "--json").stdout)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the investigation to its first two questions: too short for a rollback, and for its promise."""
    monkeypatch.setattr(investigation, "QUESTIONS", QUESTIONS[:2])


def test_nothing_is_lost_in_ten_windows_of_tool_results(whole: dict[str, Any]) -> None:
    """No request is over the limit, one summary fails and changes nothing, and the last compaction is undone."""
    assert problems(whole) == whole["problems"] == []
    assert (whole["tool_calls"] >= 60, whole["tool_tokens"] >= 300_000, whole["window"]) == (True, True, 32_000)
    assert 0 < whole["max_request_tokens"] <= whole["limit"] < whole["window"]
    assert whole["messages_in_view"] < whole["messages_said"] / 3
    verdicts = [row["verdict"] for row in whole["compactions"]]
    failed = verdicts.index("rejected_empty")
    assert verdicts[failed + 1] == "degraded_deterministic"
    assert set(verdicts[:failed] + verdicts[failed + 2 :]) == {"committed"}
    assert whole["undone"]["messages_after"] > whole["undone"]["messages_before"]


def test_what_the_user_said_first_still_counts(whole: dict[str, Any]) -> None:
    """Rule and ticket of the first turn have left the view by the end, and are obeyed all the same."""
    assert whole["answer"].startswith("STD-4711 is done. Modules found: ")
    assert "test" not in whole["answer"]


def test_the_page_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eighty columns, each compaction as it happens, and at the end what to try next."""
    monkeypatch.setattr(investigation, "QUESTIONS", QUESTIONS[:4])
    shown = call("demo", width=80, expect=1).output
    assert "scripted" in shown.splitlines()[0]
    text = " ".join(shown.split())
    assert re.search(r"turn 4: not compacted: rejected_empty \(\w+\); the messages are as they were", text)
    assert "tokens by the fallback, without a model" in text
    assert re.search(r"last compaction, in tokens [PTWSUA]+R+\S* [PTWSUA]+R+·+\|", text)
    assert "failed summary conversation is identical" in text
    assert "demo --db sqlite:///demo.db keep the thread" in text
    assert text.endswith("calls were made the tools returned only " + text.rpartition("only ")[2])


@pytest.mark.usefixtures("short")
def test_the_report_of_the_thread_is_written_and_named(tmp_path: Path) -> None:
    """With --out, the page of `inspect` about the whole thread, also where the thread itself is not kept."""
    path = tmp_path / "demo.html"
    shown = call("demo", "--out", str(path), expect=1).output
    assert f"Open the report in a browser: {path}, " in shown
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert QUESTIONS[0][:20] in page
    assert QUESTIONS[1][:20] in page
    json.loads(call("demo", "--json", "--out", str(path), expect=1).stdout)


@pytest.mark.usefixtures("short")
def test_a_database_keeps_the_thread(shared_url: str) -> None:
    """With --db, of any kind, checkpoints and records stay, and the command names the thread they are under."""
    shown = call("demo", "--db", shared_url, expect=1).output
    thread, place = re.findall(r"It is thread (demo-\w+) in (\S+)\.", shown)[0]
    without_driver = re.sub(r"[+]\w+", "", shared_url)
    assert f"langgraph-compaction inspect {thread} --db {without_driver}\n" in shown
    assert place.partition(":")[0] == shared_url.partition(":")[0].partition("+")[0]
    with SQLAlchemySaver.from_url(shared_url) as saver:
        newest = saver.get_tuple({"configurable": {"thread_id": thread}})
    assert newest is not None
    asked = [m.text for m in newest.checkpoint["channel_values"]["messages"] if m.type == "human"]
    assert [asked[0], asked[-1]] == list(QUESTIONS[:2])


@pytest.mark.parametrize(
    ("db", "said", "code"),
    [
        ("oracle://x/y", "oracle", 2),
        ("postgresql://user:secret@127.0.0.1:1/y", "cannot connect to postgresql://127.0.0.1:1/y", 1),
        ("sqlite:////no/such/folder/x.db", "/no/such/folder/x.db", 2),
    ],
)
def test_a_database_that_cannot_be_used_is_named_in_one_line(db: str, said: str, code: int) -> None:
    """Without its password and without a traceback."""
    shown = call("demo", "--db", db, expect=code).stderr
    assert said in shown
    assert len(shown.splitlines()) == 1
    assert "secret" not in shown
