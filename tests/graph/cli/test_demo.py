"""`demo`: the whole investigation once, and what it must say when something is wrong."""

import json
import platform
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from typer.testing import CliRunner, Result

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.cli.output.terminal import REJECTED, described
from langgraph_compaction.graph.lab.demo import investigation
from langgraph_compaction.graph.lab.demo.investigation import Investigation, fingerprint, problems
from langgraph_compaction.graph.lab.demo.scripted_reader import QUESTIONS
from langgraph_compaction.nodes import rollback


def run(*args: str, env: dict[str, str | None] | None = None) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["demo", *args], env=env)


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    """Run the command once as a machine would, and return its figures."""
    result = run("--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the investigation to its first two questions: too short for a rollback, and for its promise."""
    monkeypatch.setattr(investigation, "QUESTIONS", QUESTIONS[:2])


def test_the_investigation_is_several_windows_long(whole: dict[str, Any]) -> None:
    """At least 60 tool calls bring at least 300,000 tokens into a window of 32,000, over several turns."""
    assert whole["tool_calls"] >= 60
    assert whole["tool_tokens"] >= 300_000
    assert whole["window"] == 32_000
    assert whole["turns"] > 10


def test_no_request_is_over_the_limit(whole: dict[str, Any]) -> None:
    """The largest of all requests lies under the limit."""
    assert whole["over_limit_requests"] == 0
    assert 0 < whole["max_request_tokens"] <= whole["limit"] < whole["window"]


def test_nothing_that_was_said_is_lost(whole: dict[str, Any]) -> None:
    """The transcript holds every message in its order, though the state holds only a few."""
    assert whole["lost_messages"] == 0
    assert whole["in_order"]
    assert whole["messages_in_state"] + whole["messages_in_archive"] >= whole["messages_said"]
    assert whole["messages_in_state"] < whole["messages_said"] / 3


def test_one_summary_fails_and_the_conversation_is_as_it_was(whole: dict[str, Any]) -> None:
    """One attempt is rejected and rolled back to the same bytes; the next one takes the next level."""
    verdicts = [row["verdict"] for row in whole["compactions"]]
    failed = verdicts.index("rejected_empty")
    assert verdicts[failed + 1] == "degraded_deterministic"
    assert set(verdicts[:failed] + verdicts[failed + 2 :]) == {"committed"}
    assert whole["rollback"]["identical"]
    assert whole["rollback"]["before"] == whole["rollback"]["after"]


def test_the_last_compaction_is_undone_at_the_end(whole: dict[str, Any]) -> None:
    """All that it took away stands again."""
    undone = whole["undone"]
    assert undone["originals"] > 0
    assert undone["missing"] == 0
    assert undone["messages_after"] > undone["messages_before"]


def test_each_commit_is_smaller_and_under_the_trigger(whole: dict[str, Any]) -> None:
    """Every committed compaction says what it dropped and where it ended."""
    committed = [row for row in whole["compactions"] if row["verdict"] == "committed"]
    assert len(committed) >= 5
    for row in committed:
        assert row["tokens_after"] < whole["trigger"] <= row["tokens_before"]
        assert row["blocks_dropped"] > 0


def test_what_the_user_said_first_still_counts(whole: dict[str, Any]) -> None:
    """Rules and ticket of the first turn stand in the last request, by then in the summary, and are obeyed."""
    assert [fact["where"] for fact in whole["facts"]] == ["in the summary"] * 3
    assert whole["answer"].startswith("STD-4711 is done. Modules found: ")
    assert "test" not in whole["answer"]


@pytest.mark.usefixtures("short")
def test_the_first_line_says_that_the_model_is_scripted() -> None:
    """Nobody takes the demonstration's model for a real one; output without a terminal is plain."""
    output = run().output
    assert "scripted" in output.splitlines()[0]
    assert platform.python_version() in output
    assert "\x1b" not in output


def test_the_page_fits_a_terminal_and_needs_no_glossary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eighty columns, plain words for the summary that fails, and at the end what to try next."""
    monkeypatch.setattr(investigation, "QUESTIONS", QUESTIONS[:4])
    monkeypatch.setattr(sys, "argv", ["langgraph-compaction", "demo"])
    lines = run(env={"COLUMNS": "80"}).output.splitlines()
    page = lines[: lines.index("What to try next:") + 7]
    assert max(map(len, page)) <= 80
    text = " ".join(" ".join(page).split())
    assert "turn 4: summary rejected: the reply is empty; the messages are as they were" in text
    assert "tokens by the fallback, without a model" in text
    assert re.search(r"failed summary conversation is identical \(its hash: (\w{8}) → \1\)", text)
    assert not re.search(r"max_tokens|no_content|digest|SHA|rejected_|degraded", text)
    assert re.search(r"chat talk to an agent, and watch its window .* demo --db sqlite:///demo.db keep", text)
    assert text.endswith("README.md an agent of your own in ten lines")


def test_every_rejection_is_said_in_plain_words() -> None:
    """Each verdict that the nodes give has its words, without the name of the reason, which `history` shows."""
    nodes = Path(rollback.__file__).parent.rglob("*.py")
    given = {name for path in nodes for name in re.findall(r'"(rejected_\w+)"', path.read_text(encoding="utf-8"))}
    assert given == REJECTED.keys()
    for verdict, plain in REJECTED.items():
        said = described({"verdict": verdict, "reason": "some_reason"})
        assert said == f"summary rejected: {plain}; the messages are as they were"


@pytest.mark.usefixtures("short")
def test_a_promise_that_is_not_kept_fails_the_command() -> None:
    """Too little work and no rollback: the command says so and exits with 1."""
    result = run()
    assert result.exit_code == 1
    assert "tool calls were made" in result.output
    assert "no rollback could be shown" in result.output


@pytest.mark.usefixtures("short")
def test_the_same_work_gives_the_same_figures() -> None:
    """Two runs differ in nothing but their thread, their time, and the bytes that random ids take compressed."""
    figures = [json.loads(run("--json").stdout) for _ in range(2)]
    for each in figures:
        del each["thread"], each["seconds"], each["stored_bytes"], each["unshared_bytes"]
    assert figures[0] == figures[1]


def test_the_checkpoints_share_what_they_hold(whole: dict[str, Any]) -> None:
    """Every checkpoint of the run is read back; together they take a fraction of what copies would."""
    assert whole["checkpoints"] > 2 * whole["requests"]
    assert 10 * whole["stored_bytes"] < whole["unshared_bytes"]


@pytest.mark.usefixtures("short")
def test_a_database_keeps_the_thread(shared_url: str) -> None:
    """With --db, of any kind, checkpoints and records stay, and the command names the thread they are under."""
    output = run("--db", shared_url).output
    thread, place = re.findall(r"It is thread (demo-\w+) in (\S+)\.", output)[0]
    assert place.partition(":")[0] == shared_url.partition(":")[0].partition("+")[0]
    with SQLAlchemySaver.from_url(shared_url) as saver:
        newest = saver.get_tuple({"configurable": {"thread_id": thread}})
        assert newest is not None
        asked = [m.text for m in newest.checkpoint["channel_values"]["messages"] if m.type == "human"]
        assert [asked[0], asked[-1]] == list(QUESTIONS[:2])


@pytest.mark.usefixtures("short")
def test_no_password_is_shown(tmp_path: Path) -> None:
    """The place that is named has neither password nor options, and memory keeps nothing that could be named."""
    kept = run("--db", f"sqlite:///{tmp_path / 'kept.db'}?timeout=77").output
    assert f"in sqlite:///{tmp_path / 'kept.db'}." in kept
    assert "timeout" not in kept
    assert "It is thread" not in run("--db", "memory").output


@pytest.mark.usefixtures("short")
def test_a_checkpoint_that_is_damaged_fails_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The checkpoints are read back from the database: a message that is missing there is named."""
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    figures = Investigation.figures

    def damaged(work: Investigation) -> dict[str, Any]:
        with work.saver.database.write() as conn:
            conn.execute(sa.delete(tables.message).where(tables.message.c.seq == 0))
        return figures(work)

    monkeypatch.setattr(Investigation, "figures", damaged)
    result = run("--db", url)
    assert result.exit_code == 1
    assert "is missing" in result.output


@pytest.mark.parametrize(
    ("args", "said", "code"),
    [
        (("--summarizer", "model"), "OPENAI_API_KEY", 2),
        (("--summarizer", "magic"), "magic", 2),
        (("--db", "oracle://x/y"), "oracle", 2),
        (("--db", "postgresql://user:secret@127.0.0.1:1/y"), "cannot connect to postgresql://127.0.0.1:1/y", 1),
        (("--db", "sqlite:////no/such/folder/x.db"), "/no/such/folder/x.db", 2),
        (("--db", "sqlite:////dev/null/x.db"), "cannot connect to", 2),
    ],
)
def test_what_cannot_work_is_said_clearly(args: tuple[str, ...], said: str, code: int) -> None:
    """A wrong option ends the command at once with 2, a server that does not answer with 1, and no traceback."""
    result = run(*args, env={"OPENAI_API_KEY": None})
    assert result.exit_code == code
    assert said in result.output
    assert "secret" not in result.output
    assert isinstance(result.exception, SystemExit)


LOST: dict[str, Any] = {"messages_before": 1, "messages_after": 2, "tokens_after": 3}
LOST |= {"originals": 2, "missing": 1}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tool_calls": 59}, "59 tool calls"),
        ({"tool_tokens": 299_999}, "299,999 tokens"),
        ({"over_limit_requests": 1}, "1 requests were over"),
        ({"lost_messages": 2}, "2 messages are lost"),
        ({"in_order": False}, "order"),
        ({"checkpoints": 3}, "only 3 checkpoints"),
        ({"rollback": None}, "no rollback"),
        ({"undone": LOST}, "1 messages did not come back"),
        ({"rollback": {"before": "a", "after": "b", "identical": False}}, "changed the conversation"),
    ],
)
def test_every_promise_is_checked(whole: dict[str, Any], change: dict[str, Any], problem: str) -> None:
    """Each figure that is out of bounds is a problem of its own."""
    assert problems(whole) == []
    (said,) = problems({**whole, **change})
    assert problem in said


@pytest.mark.parametrize(
    "changed",
    [
        AIMessage("Hello", id="b"),
        AIMessage("Hello!", id="a"),
        AIMessage("Hello", id="a", response_metadata={"x": 1}),
        HumanMessage("Hello", id="a"),
    ],
    ids=["id", "text", "metadata", "type"],
)
def test_the_fingerprint_sees_every_change(changed: BaseMessage) -> None:
    """Another id, text, metadata or type is another fingerprint."""
    message = AIMessage("Hello", id="a")
    assert fingerprint([message]) == fingerprint([message.model_copy()])
    assert fingerprint([changed]) != fingerprint([message])


@pytest.mark.usefixtures("short")
def test_a_rollback_that_changes_something_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison reads the checkpoints: a rollback that loses a message fails the command."""

    def forgetful(turn: Any, _: Any) -> Any:
        yield from ()
        return turn.messages[1:]

    monkeypatch.setattr(investigation, "FAIL_AFTER", 0)
    assert "is identical" in run().output
    monkeypatch.setattr(rollback, "_restored", forgetful)
    output = run().output
    assert "is DIFFERENT" in output
    assert "the rollback changed the conversation" in output


@pytest.mark.usefixtures("short")
def test_a_message_that_is_not_in_the_transcript_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check against the transcript is a real one: a transcript with a gap fails the command."""
    monkeypatch.setattr(investigation, "LEAST_CALLS", 1)
    read = Investigation.transcript
    monkeypatch.setattr(Investigation, "transcript", lambda self: read(self)[1:])
    assert "1 messages are lost" in run().output
