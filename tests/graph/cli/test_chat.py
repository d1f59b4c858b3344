"""`chat`: what a person types, and what comes back."""

import json
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pexpect
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.checkpoint.db import schema, tables
from langgraph_compaction.graph.cli.main import app
from tests.graph.cli.provider import ENDLESS, provider

STORY = "It is a long story about ships and ports. " * 40
"""About 400 tokens: an eighth of the scripted window, told once and repeated in part."""

NO_MODEL = {"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None, "OPENAI_MODEL": None}


def talk(*lines: str, args: Sequence[str] = (), env: dict[str, Any] | None = None) -> Result:
    """Type lines into a chat, then end its input."""
    return CliRunner().invoke(app, ["chat", *args], input="".join(f"{line}\n" for line in lines), env=env or NO_MODEL)


def heard(*lines: str, args: Sequence[str] = (), env: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return what a machine hears."""
    result = talk(*lines, args=["--json", *args], env=env)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def of_kind(said: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the objects of one type."""
    return [each for each in said if each["type"] == kind]


def test_without_a_key_the_model_says_what_it_is() -> None:
    """The first line and every answer say that the model is scripted."""
    said = heard("Hello, ship.", "/quit")
    assert "scripted" in said[0]["text"]
    assert said[0]["text"].count("OPENAI_API_KEY")
    assert [each["text"] for each in of_kind(said, "answer")] == [
        "(a scripted model; it sees 1 of your messages) Hello, ship."
    ]


def test_a_compaction_is_a_line_of_its_own() -> None:
    """A conversation that outgrows the window is compacted: trigger and outcome are shown, and the gauge falls."""
    said = heard(*[f"Story {n}. {STORY}" for n in range(8)])
    fired, closed = of_kind(said, "event")[:2]
    assert (fired["event"], closed["event"], closed["verdict"]) == ("PreCompactEvent", "CompactionEvent", "committed")
    sizes = [each["tokens"] for each in of_kind(said, "gauge")]
    assert any(after < before for before, after in pairwise(sizes))
    assert all(size <= gauge["limit"] for size, gauge in zip(sizes, of_kind(said, "gauge"), strict=True))


def test_the_thread_is_searched_pinned_and_restored_from_the_chat() -> None:
    """`/recall` finds what `/compact` took out of view, `/undo` brings it back, and `/pin` keeps a text.

    After `/release`, the chat compacts by itself again, below the limit too.
    """
    told = [f"Order {n}. {STORY}" for n in range(4)]
    typed = ["/compact", "/recall Order 0", "/undo", "/release", "/pin Ship to Oslo only.", "/status"]
    said = heard(*told, *typed, *told[:2], STORY[:600])
    notes = [each["text"] for each in of_kind(said, "note")]
    assert any("Order 0." in text for text in notes)
    assert any(text.startswith("Undone: ") and "8 messages are in view" in text for text in notes)
    assert {"Automatic compactions are allowed again.", "Pinned: Ship to Oslo only."} <= set(notes)
    # The first ten lines are two notes, and an answer and a gauge for each of the four orders.
    answered = [each["type"] for each in said[10:18]]
    assert answered == ["event", "gauge", "note", "note", "gauge", "note", "note", "status"]
    compacted, undone = said[11], said[14]
    assert (compacted["tokens"], undone["tokens"]) == (said[10]["tokens_after"], said[10]["tokens_before"])
    assert of_kind(said, "status")[0]["messages"] == 9
    assert [each.get("verdict") for each in of_kind(said, "event")] == ["committed", None, "committed"]


def test_the_chat_shows_what_fills_the_window() -> None:
    """`/context`: the parts sum to the window; on a terminal a bar and the figures of each part."""
    (*_, usage) = of_kind(heard("Hello.", "/context"), "gauge")
    assert sum(usage["parts"].values()) == usage["window"]
    assert {"user", "assistant", "free", "reserve"} <= usage["parts"].keys()
    shown = talk("Hello.", "/context").output
    assert f"U {usage['parts']['user']:>9,}  user" in shown.splitlines()


def test_a_command_that_cannot_be_run_is_an_error_and_the_chat_goes_on() -> None:
    """There is nothing to undo and nothing to search for; the next message is answered."""
    said = heard("/undo", "/recall", "Hello.")
    assert len(of_kind(said, "error")) == 2
    assert len(of_kind(said, "answer")) == 1
    assert talk("/undo").output.count("there is nothing to undo") == 1


def test_a_conversation_is_taken_up_again(shared_url: str, thread_id: str) -> None:
    """With --db, of any kind, the same thread goes on where it ended, and another one is new."""
    db = ["--db", shared_url]
    left = heard("My name is Ada.", args=[*db, "--thread", thread_id])
    assert f"The conversation is kept as {thread_id} in " in left[-1]["text"]
    again = heard("Hello.", args=[*db, "--thread", thread_id])
    other = heard("Hello.", args=[*db, "--thread", f"{thread_id}-b"])
    assert "it sees 2 of your messages" in of_kind(again, "answer")[0]["text"]
    assert [each["type"] for each in again] == ["note", "note", "note", "gauge", "answer", "gauge", "note"]
    assert again[2]["text"] == f"Taking up {thread_id}: 2 messages."
    assert again[3] == of_kind(left, "gauge")[0]
    assert "it sees 1 of your messages" in of_kind(other, "answer")[0]["text"]


def full() -> list[str]:
    """Return lines that bring the scripted window between trigger and limit."""
    return [f"Story {n}. {STORY}" for n in range(6)] + ["And then? " + "Tell me of the ships. " * 40]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("yes", "committed"),
        ("keep: the ships", "committed"),
        (
            '{"decisions": [{"type": "edit", "edited_action": {"name": "x", "args": {"focus": "the ships"}}}]}',
            "committed",
        ),
        *((refusal, "declined") for refusal in ("no", "reject", "否")),
    ],
)
def test_a_confirmation_is_asked_in_the_chat(answer: str, verdict: str) -> None:
    """With --confirm the person is asked first; yes or a focus compacts, no goes on without."""
    said = heard(*full(), answer, "/status", args=["--confirm"])
    (question,) = of_kind(said, "question")
    assert (question["max_tokens"], question["limit"]) == (4_000, 3_600)
    (status,) = of_kind(said, "status")
    assert status["last"] == verdict
    assert len(of_kind(said, "answer")) == len(full())


@pytest.mark.parametrize("line", ["", "the ships", "yes, but not now", "rather not"])
def test_an_unclear_answer_is_asked_again_and_compacts_nothing(line: str) -> None:
    """The chat says what can be answered; it neither takes the line for a focus nor for a consent."""
    said = heard(*full(), line, "reject", "/status", args=["--confirm"])
    assert len(of_kind(said, "question")) == 2
    assert any("answer yes or no" in each["text"] for each in of_kind(said, "note"))
    (status,) = of_kind(said, "status")
    assert (status["last"], status["epoch"]) == ("declined", 0)


def test_a_question_left_open_is_asked_again(tmp_path: Path) -> None:
    """Who leaves at the question below an answer finds it at the next start, and the turn is then finished."""
    args = ["--confirm", "--db", f"sqlite:///{tmp_path / 'chat.db'}"]
    left = heard(*full(), args=args)
    assert len(of_kind(left, "answer")) == len(full())
    back = heard("no", args=args)
    # The first three lines are two notes, and a note that gives the number of messages.
    answered = [each["type"] for each in back[3:]]
    assert answered == ["gauge", "question", "event", "gauge", "note"]
    assert "And then?" in of_kind(left, "answer")[-1]["text"]


def test_a_message_over_the_limit_is_refused_and_the_next_one_works() -> None:
    """The person is told the sizes; the chat goes on."""
    output = talk(STORY * 10, "Hello.").output
    assert "your message was not sent: it needs 4,0" in output
    assert "it sees 2 of your messages) Hello." in output


def test_a_real_model_streams_through_the_agent() -> None:
    """With a key the provider's words are shown, and its window and usage count."""
    with provider("Good day to you.") as script:
        said = heard("Hello.", args=["--window", "5000"], env=script.env)
    assert "gpt-4o-mini" in said[0]["text"]
    assert of_kind(said, "answer")[0]["text"].strip() == "Good day to you."
    assert of_kind(said, "gauge")[0]["window"] == 5_000
    assert script.requests[0]["stream"]


def test_a_summary_by_the_model_is_not_shown_as_an_answer() -> None:
    """The model writes the summary of `/compact` too, and its words stay out of the chat.

    The newest twelve rounds stay, and five messages of each type: to keep fewer is for the scripted model alone.
    """
    turns = 20
    replies = [*["Yes."] * turns, "<summary>The person counted.</summary>", "Well."]
    with provider(*replies) as script:
        said = heard(*[f"{n}. {STORY}" for n in range(turns)], "/compact the ports", "And?", env=script.env)
    assert "The user asks to keep above all: the ports" in script.requests[-2]["messages"][-1]["content"]
    (event,) = of_kind(said, "event")
    assert (event["verdict"], event["strategy"]) == ("committed", "selective+model")
    assert [each["text"].strip() for each in of_kind(said, "answer")] == [*["Yes."] * turns, "Well."]
    assert "The person counted." in json.dumps(script.requests[-1])
    sent = [message["content"] for message in script.requests[-1]["messages"]]
    assert [text.partition(".")[0] for text in sent if STORY.strip() in text] == [str(n) for n in range(3, 20)]


@pytest.mark.parametrize(
    ("status", "advice"),
    [(401, "OPENAI_API_KEY"), (404, "OPENAI_MODEL"), (429, "rate limit"), (500, "wait a bit")],
)
def test_a_models_error_is_one_line_and_the_chat_goes_on(status: int, advice: str) -> None:
    """The line says what to do; an empty line tries the same message again."""
    with provider(status, "Here I am.") as script:
        said = heard("Hello.", "", env=script.env)
    (error,) = of_kind(said, "error")
    assert advice in error["text"]
    assert str(status) in error["text"]
    assert error["text"].endswith(". An empty line tries again.")
    assert "\n" not in error["text"]
    assert of_kind(said, "answer")[0]["text"].strip() == "Here I am."
    assert [message["content"] for message in script.requests[-1]["messages"]] == ["Hello."]


@pytest.mark.parametrize(
    ("args", "env", "said"),
    [
        (["--window", "-5"], {}, "is neither a number of tokens nor a share"),
        (["--db", "nonsense"], {}, "no database URL"),
        (["--thread", ""], {}, "an id is empty"),
        ([], {"OPENAI_API_KEY": "x", "OPENAI_MODEL": "my-own-model"}, "--window TOKENS"),
    ],
)
def test_what_cannot_work_is_said_clearly(args: list[str], env: dict[str, str], said: str) -> None:
    """A wrong option ends the command at once, with what to change and no traceback."""
    result = talk("Hello.", args=args, env={**NO_MODEL, **env})
    assert result.exit_code == 2
    assert said in result.output
    assert isinstance(result.exception, SystemExit)


def test_a_database_that_cannot_be_used_is_told_before_the_chat_begins(tmp_path: Path) -> None:
    """The command prints only the error, and the chat does not ask for a message."""
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    with Database.open(url) as database:
        database.setup()
        with database.engine.begin() as conn:
            conn.execute(sa.update(tables.schema).values(version=99))
    result = talk("Hello.", args=["--json", "--db", url])
    assert result.exit_code == 2
    (line,) = result.stdout.splitlines()
    assert json.loads(line) == {
        "type": "error",
        "text": f"the database has version 99 of the tables and this code knows {schema.VERSION}; "
        "update langgraph-compaction, or use another database",
    }


COMMAND = "from langgraph_compaction.graph.cli.main import app; app(['chat'])"


def terminal(env: dict[str, str]) -> "pexpect.spawn[str]":
    """Start a chat in a terminal of 100 columns."""
    clean = {"PATH": "/usr/bin:/bin", "TERM": "xterm", "LANG": "C.UTF-8", **env}
    return pexpect.spawn(
        sys.executable,
        ["-c", COMMAND],
        env=clean,
        encoding="utf-8",
        dimensions=(40, 100),
        timeout=30,
        preexec_fn=heed_interrupts,
    )


def heed_interrupts() -> None:
    """Undo what a shell does to what it runs in the background: there Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_in_a_terminal_ctrl_c_at_the_prompt_ends_politely() -> None:
    """A real terminal shows prompt, answer and gauge; Ctrl-C ends the chat with exit code 0."""
    child = terminal({})
    child.expect("you> ")
    child.sendline("Ahoy.")
    child.expect(r"a scripted model; it sees 1 of your messages\) Ahoy\.")
    child.expect(r"of 3,600 tokens \(trigger 3,200\)")
    child.expect("you> ")
    child.sendintr()
    child.expect("Bye.")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_ctrl_c_does_not_await_the_rest_of_an_answer() -> None:
    """During an answer that would never end, Ctrl-C ends it, the request and the chat."""
    with provider(ENDLESS) as script:
        child = terminal(script.env)
        child.expect("you> ")
        child.sendline("Count.")
        child.expect("41 42 43")
        child.kill(signal.SIGINT)
        child.expect("Bye.")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
        assert script.deserted.wait(10)
