"""`chat`: what a person types, and what comes back."""

import io
import json
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pexpect
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.checkpoint.db import schema, tables
from langgraph_compaction.graph.cli.chat import explain
from langgraph_compaction.graph.cli.chat_screens import JsonLines, Terminal, describe
from langgraph_compaction.graph.cli.confirmation_answers import answer_of
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.window_usage import WindowUsage
from langgraph_compaction.nodes import SettingsError
from tests.graph.cli.provider import ENDLESS, provider

STORY = "It is a long story about ships and ports. " * 40
"""About 400 tokens: an eighth of the echo's window, told once and repeated in part."""

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


def test_without_a_key_the_echo_says_what_it_is() -> None:
    """The first line and every answer say that the model is scripted."""
    said = heard("Hello, ship.", "/quit")
    assert "scripted" in said[0]["text"]
    assert said[0]["text"].count("OPENAI_API_KEY")
    assert [each["text"] for each in of_kind(said, "answer")] == [
        "(a scripted echo; it sees 1 of your messages) Hello, ship."
    ]


def test_a_person_sees_the_answer_and_the_gauge() -> None:
    """In a terminal's place stand plain lines: the answer, then size, trigger and limit."""
    lines = talk("Hello, ship.").output.splitlines()
    assert "you> (a scripted echo; it sees 1 of your messages) Hello, ship." in lines
    assert "of 3,600 tokens (trigger 3,200)" in lines[-3]


@pytest.mark.parametrize("last", ["/quit", ""])
def test_the_end_is_polite(last: str) -> None:
    """Both `/quit` and the end of the input end the chat with a word and without an error."""
    result = talk("Hello.", last)
    assert result.exit_code == 0
    assert result.output.splitlines()[-1].endswith("Bye.")


def test_a_compaction_is_a_line_of_its_own() -> None:
    """A conversation that outgrows the window is compacted: trigger and outcome are shown, and the gauge falls."""
    said = heard(*[f"Story {n}. {STORY}" for n in range(8)])
    fired, closed = of_kind(said, "event")[:2]
    assert (fired["event"], closed["event"], closed["verdict"]) == ("PreCompactEvent", "CompactionEvent", "committed")
    sizes = [each["tokens"] for each in of_kind(said, "gauge")]
    assert any(after < before for before, after in pairwise(sizes))
    assert all(size <= gauge["limit"] for size, gauge in zip(sizes, of_kind(said, "gauge"), strict=True))
    assert "⟳ compacted: " in talk(*[f"Story {n}. {STORY}" for n in range(8)]).output


def test_compact_works_at_any_size() -> None:
    """`/compact` with a focus makes a short conversation shorter, and the echo then sees a summary."""
    said = heard(*[f"Order {n}. {STORY}" for n in range(4)], "/compact the orders", "And now?")
    (event,) = of_kind(said, "event")
    assert (event["event"], event["verdict"], event["strategy"]) == ("compact_now", "committed", "selective+digest")
    assert event["tokens_after"] < event["tokens_before"]
    assert "a summary of what came before" in of_kind(said, "answer")[-1]["text"]


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


def test_a_command_that_cannot_be_run_is_an_error_and_the_chat_goes_on() -> None:
    """There is nothing to undo and nothing to search for; the next message is answered."""
    said = heard("/undo", "/recall", "Hello.")
    assert len(of_kind(said, "error")) == 2
    assert len(of_kind(said, "answer")) == 1
    assert talk("/undo").output.count("there is nothing to undo") == 1


def test_help_lists_every_command() -> None:
    """Each that the chat knows, in a line of its own."""
    listed = [line.split()[0] for line in of_kind(heard("/help"), "note")[2]["text"].splitlines()]
    assert listed == ["/compact", "/undo", "/release", "/recall", "/pin", "/status", "/help", "/quit"]


def test_compact_with_nothing_to_do_says_so() -> None:
    """On a thread that is empty or all new, `/compact` is no failure."""
    assert talk("/compact", "Hello.", "/compact").output.count("nothing to compact") == 2


def test_status_tells_how_the_thread_stands() -> None:
    """`/status` holds sizes, epoch, last verdict and the ledger's last rows."""
    said = heard(*[f"Order {n}. {STORY}" for n in range(4)], "/compact", "/status")
    (status,) = of_kind(said, "status")
    assert (status["epoch"], status["last"], status["said"]) == (1, "committed", 8)
    assert status["messages"] < status["said"]
    assert [row["verdict"] for row in status["rows"]] == ["committed"]
    assert status["standing"]["limit"] == 3_600


def test_an_unknown_command_is_not_sent_to_the_model() -> None:
    """A mistyped command is named, with those that there are."""
    said = heard("/stat")
    assert "no /stat" in said[2]["text"]
    assert of_kind(said, "answer") == []


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
    """Return lines that bring the echo's window between trigger and limit."""
    return [f"Story {n}. {STORY}" for n in range(6)] + ["And then? " + "Tell me of the ships. " * 40]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("yes", "committed"),
        ("keep: the ships", "committed"),
        ('{"accept": true, "focus": "the ships"}', "committed"),
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


@pytest.mark.parametrize("line", ["keep: the ships", "保留：the ships", '{"accept": true, "focus": "the ships"}'])
def test_a_focus_is_named_behind_a_colon_or_in_json(line: str) -> None:
    """It is the answer that the question offers for it; other JSON is unclear."""
    asked = {"answers": ["approve", "reject", {"accept": True, "focus": ""}], "language": "en"}
    assert answer_of(line, asked) == {"accept": True, "focus": "the ships"}
    assert [answer_of(other, asked) for other in ("keep:", '{"focus": 1}', "[" * 9_999)] == [None, None, None]


@pytest.mark.parametrize("line", ["", "the ships", "yes, but not now", "rather not"])
def test_an_unclear_answer_is_asked_again_and_compacts_nothing(line: str) -> None:
    """The chat says what can be answered; it neither takes the line for a focus nor for a consent."""
    said = heard(*full(), line, "reject", "/status", args=["--confirm"])
    assert len(of_kind(said, "question")) == 2
    assert any("answer yes or no" in each["text"] for each in of_kind(said, "note"))
    (status,) = of_kind(said, "status")
    assert (status["last"], status["epoch"]) == ("declined", 0)


def test_an_error_is_one_line_where_no_person_reads_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the output is not a terminal, no line break is added, so a search of the output finds the whole error."""
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    Terminal().error("It broke off. " * 20)
    assert len(capsys.readouterr().out.strip().splitlines()) == 1


def test_a_question_left_open_is_asked_again(tmp_path: Path) -> None:
    """Who leaves at the question finds it at the next start, and the turn is then finished."""
    args = ["--confirm", "--db", f"sqlite:///{tmp_path / 'chat.db'}"]
    left = heard(*full(), args=args)
    assert len(of_kind(left, "answer")) == len(full()) - 1
    back = heard("no", args=args)
    # The first three lines are two notes, and a note that gives the number of messages.
    answered = [each["type"] for each in back[3:]]
    assert answered == ["gauge", "question", "event", "answer", "event", "gauge", "note"]
    assert "And then?" in of_kind(back, "answer")[0]["text"]


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
    assert of_kind(said, "gauge")[0] == {
        "type": "gauge",
        "tokens": 23,
        "trigger": 4000,
        "limit": 5000,
        "window": 5000,
    }
    assert script.requests[0]["stream"]


def test_a_summary_by_the_model_is_not_shown_as_an_answer() -> None:
    """The model writes the summary of `/compact` too, and its words stay out of the chat.

    The newest twelve rounds stay, and five messages of each type: to keep fewer is for the echo alone.
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


def test_a_summary_that_fails_is_an_event_and_no_log_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chat reports that the summary was rejected and that the messages did not change, and stderr stays empty."""
    # Handlers of pytest or of an earlier command would keep log messages out of stderr.
    for logger in (logging.getLogger(), logging.getLogger("langgraph_compaction")):
        monkeypatch.setattr(logger, "handlers", [])
    kept = {"DIALOGUE_ROUNDS_KEEP_MIN": "1", "DIALOGUE_BEYOND_KEEP": "0", "ON_SUMMARY_FAILURE": "nothing"}
    with provider("Yes.", "Yes.", "Yes.", "") as script:
        env = {**script.env, **{f"LANGGRAPH_COMPACTION_{name}": value for name, value in kept.items()}}
        result = talk(*[f"{n}. {STORY}" for n in range(3)], "/compact", env=env)
    assert "⟳ not compacted: rejected_empty (" in result.output
    assert result.stderr == ""


def test_a_summary_that_is_prepared_is_a_line_of_its_own() -> None:
    """The chat says when a summary is prepared, and when it is used; each once."""

    def answer(request: dict[str, Any]) -> str:
        script.counted = len(json.dumps(request["messages"])) // 4
        return "Yes." if request.get("stream") else "<summary>The person told of ships and ports.</summary>"

    with provider(answer=answer) as script:
        env = {**script.env, "LANGGRAPH_COMPACTION_CONTEXT_WINDOW": "4000"}
        said = heard(*[f"{n}. {STORY}" for n in range(8)], env=env)
    told = [each["state"] for each in of_kind(said, "event") if each["event"] == "PreparationEvent"]
    assert told[0] == "preparing"
    shown = [describe(each) for each in of_kind(said, "event")]
    assert shown.count("summary prepared in the background: preparing") == told.count("preparing")


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"verdict": "committed"}, "compacted: 1,200 → 1,000 tokens"),
        ({"verdict": "degraded_deterministic"}, "compacted: 1,200 → 1,000 tokens by the fallback, without a model"),
        ({"verdict": "refused"}, "your message was not sent: it needs 1,200 tokens, and the limit is 1,000"),
        (
            {"verdict": "rejected_empty", "reason": "empty_summary"},
            "not compacted: rejected_empty (empty_summary); the messages are as they were",
        ),
        (
            {"verdict": "rolled_back", "reason": "selection_raised"},
            "not compacted: rolled_back (selection_raised); the messages are as they were",
        ),
        ({"verdict": "declined", "reason": ""}, "not compacted: declined; the messages are as they were"),
        ({"event": "PreparationEvent", "state": "swapped"}, "summary prepared in the background: swapped"),
        ({"event": "ContextWarningEvent", "message": "The window is nearly full."}, "The window is nearly full."),
    ],
)
def test_the_outcome_of_an_attempt_is_a_sentence(event: dict[str, Any], line: str) -> None:
    """The sentence tells the sizes, or why nothing was compacted."""
    assert describe({"event": "CompactionEvent", "tokens_before": 1_200, "tokens_after": 1_000, **event}) == line


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


def test_a_provider_that_cannot_be_reached_is_one_line() -> None:
    """Without a server the address is named as what to check."""
    with provider() as script:
        gone = script.env
    said = heard("Hello.", env={**gone, "OPENAI_MAX_RETRIES": "0"})
    (error,) = of_kind(said, "error")
    assert "cannot be reached, or its rate limit is: check OPENAI_BASE_URL" in error["text"]


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


def test_what_follows_a_piece_of_an_answer_begins_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """An error, a note and the gauge begin on a new line if they interrupt a streamed answer."""
    screen = Terminal()
    usage = WindowUsage(tokens=1, trigger=2, limit=3, window=4)
    for show in (screen.error, screen.note, lambda _: screen.gauge(usage)):
        screen.token("The first half")
        show("It broke off.")
        assert capsys.readouterr().out.splitlines()[0] == "The first half"
        show("It broke off.")
        assert capsys.readouterr().out.splitlines()[0] != ""


@pytest.mark.parametrize(("width", "cells"), [(50, 10), (71, 11), (99, 39), (101, 40)])
def test_a_chat_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, cells: int
) -> None:
    """The length of the gauge's bar depends on the width of the terminal.

    The chat inserts no line breaks into an answer.
    """
    monkeypatch.setenv("COLUMNS", str(width))
    screen = Terminal()
    screen.token("word " * 40)
    screen.token("end")
    screen.gauge(WindowUsage(tokens=100, trigger=90, limit=100, window=120))
    answer, *gauge = capsys.readouterr().out.splitlines()
    assert answer == "word " * 40 + "end"
    assert " ".join(map(str.strip, gauge)) == f"{'█' * cells} 100 of 100 tokens (trigger 90), 0 left"


def test_a_machine_hears_a_piece_of_an_answer_before_what_follows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--json`, the chat prints the collected pieces of an answer once, before any output that follows."""
    screen = JsonLines()
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes \n"))
    gauge = {"tokens": 1, "trigger": 2, "limit": 3, "window": 4}
    follows: dict[str, tuple[Callable[[], object], dict[str, Any]]] = {
        "error": (lambda: screen.error("It broke off."), {"text": "It broke off."}),
        "note": (lambda: screen.note("It broke off."), {"text": "It broke off."}),
        "event": (lambda: screen.event({"event": "PreCompactEvent"}), {"event": "PreCompactEvent"}),
        "question": (lambda: screen.ask({"question": "Compact?"}), {"question": "Compact?"}),
        "gauge": (lambda: screen.gauge(WindowUsage(**gauge)), gauge),
    }
    for kind, (show, content) in follows.items():
        screen.token("The first ")
        screen.token("half")
        assert show() == ("yes " if kind == "question" else None)
        screen.end_answer()
        written = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert written == [{"type": "answer", "text": "The first half"}, {"type": kind, **content}]
    with pytest.raises(EOFError):
        screen.read("you> ")


class ReadlineFinder:
    """An import hook with an empty module `readline`: the real one must not be loaded twice in a process."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> ModuleSpec | None:
        """Return the specification of the empty module."""
        return ModuleSpec(name, None, is_package=True) if name == "readline" else None


def test_a_terminal_loads_what_lets_lines_be_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's `input` supports line editing only after the module `readline` has been imported."""
    monkeypatch.setitem(sys.modules, "readline", sys)  # so that what was loaded before comes back in the end
    monkeypatch.delitem(sys.modules, "readline")
    monkeypatch.setattr(sys, "meta_path", [ReadlineFinder, *sys.meta_path])
    Terminal()
    assert "readline" in sys.modules


def test_our_own_errors_are_shown_as_they_are() -> None:
    """They say what to do already; long ones are cut."""
    assert explain(SettingsError("set a larger\nwindow")) == "set a larger window"
    assert explain(ValueError("x" * 200)).endswith(f" (ValueError: {'x' * 200})")
    assert explain(ValueError("x" * 201)).endswith(f" (ValueError: {'x' * 200} …)")


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
    child.expect(r"a scripted echo; it sees 1 of your messages\) Ahoy\.")
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
