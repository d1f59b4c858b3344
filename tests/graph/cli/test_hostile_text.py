"""Text of others that would command a terminal: whatever it stands in, it is printed with its escapes visible."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from typer.testing import CliRunner, Result

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import CompactionSettings, CompactionThread, create_compacting_agent
from langgraph_compaction.graph.cli.main import COMMANDS, app, run
from langgraph_compaction.graph.cli.output import Output
from langgraph_compaction.graph.control_characters import in_line, json_line, visible
from langgraph_compaction.nodes.testing import ScriptedModel
from tests.graph.cli.replaying import READ, rounds, written

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
EVIL = "MSKU1 \x1b]0;own\x07\x1b]52;c;ZXZpbA==\x07\x1b[2J\r\x7f\x9b31m\u202e\u2066\u2028 [bold red]markup[/] :smile:"
THREAD = f"t\x1b[31m{EVIL}\n"
NO_MODEL = {"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None, "OPENAI_MODEL": None}


class Hostile:
    """A database with one thread in which every text is hostile, and files whose names and texts are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'hostile.db'}"
        with SQLAlchemySaver.from_url(self.url) as saver:
            saver.setup()
            settings = CompactionSettings(context_window=3_000)
            agent = create_compacting_agent(
                ScriptedModel(replies=[f"Noted {EVIL}"]),
                [],
                settings=settings,
                summarizer="digest",
                checkpointer=saver,
            )
            config: Any = {"configurable": {"thread_id": THREAD}}
            for number in range(30):
                said = HumanMessage(f"{number} {EVIL} {'words ' * 30}", name=EVIL, id=f"{number}{EVIL}")
                agent.invoke({"messages": [said]}, config)
            self.compaction = CompactionThread(agent, config).history()[0].compaction_id
        messages = rounds(6)
        for message in messages:
            message["content"] = f"{EVIL} {message['content'] or ''}"
            for call in message.get("tool_calls", []):
                call["function"] |= {"name": f"read{EVIL}", "arguments": json.dumps({EVIL: EVIL})}
        self.recording = written(folder / "evil\x1b[31m\u202e.json", {"messages": messages, "tools": [READ]})

    def calls(self) -> dict[str, list[list[str]]]:
        """Return the arguments of each command: those that succeed, and those that fail on a hostile name."""
        db = ["--db", self.url]
        named = [THREAD, self.compaction]
        away = ["--db", f"sqlite:///{self.folder}/no{EVIL.replace('/', '')}.db"]
        return {
            "threads": [db, [THREAD, *db], ["--sizes", *db], away],
            "inspect": [[THREAD, *db, "--out", str(self.folder / "page\x1b[31m.html")], [f"no {EVIL}", *db]],
            "history": [[THREAD, *db], [f"no {EVIL}", *db]],
            "show": [
                *([*named, *more, *db] for more in ([], ["--whole"], ["--diff"])),
                [THREAD, "--preview", "--window", "2000", *db],
                *([THREAD, EVIL, *more, *db] for more in ([], ["--diff"], ["--preview", "--window", EVIL])),
            ],
            "transcript": [[THREAD, *db]],
            "recall": [[THREAD, "MSKU1", *db], [THREAD, "--handle", EVIL, *db]],
            "undo": [[*named, "--branch", f"{THREAD}2", *db], [THREAD, "--force", *db], [THREAD, "--release", *db]],
            "prune": [
                [THREAD, "--keep-last", "1", *db],
                ["--all", "--older-than", EVIL, *db],
                ["--idle", "0d", "--dry-run", *db],
            ],
            "export-checkpoints": [
                [*db, "--to", f"sqlite:///{self.folder / 'out.db'}", *more] for more in ([], ["--thread", EVIL])
            ],
            "import-checkpoints": [[self.url, "--to", f"sqlite:///{self.folder / 'to.db'}", "--allow", f"{EVIL}:X"]],
            "replay": [
                [str(self.recording), "--db", f"sqlite:///{self.folder / 'replayed.db'}"],
                [str(self.recording), "--preset", "selective,faithful"],
                [str(self.folder / f"no{EVIL.replace('/', '')}.json")],
                [str(self.recording), "--preset", EVIL],
            ],
            "evaluate": [
                [*db, "--preset", "selective,faithful", "--budget", "0.5"],
                [str(self.recording), "--preset", EVIL],
            ],
            "presets": [["selective"], [], [EVIL]],
            "chat": [["--thread", f"{THREAD}3", *db], [EVIL]],
            "demo": [[EVIL], [f"--{EVIL}"]],
            "forget": [["--prefix", THREAD, *db], ["--metadata", EVIL, *db], [THREAD, *db], [THREAD, "--yes", *db]],
        }


def command(*words: str, typed: str = "") -> Result:
    """Run a command as on a terminal that keeps what it is told to type."""
    return CliRunner().invoke(app, words, input=typed, env={**NO_MODEL, "COLUMNS": "120", "TERMINAL_WIDTH": "120"})


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    """Return the thread, which the last test that uses it forgets: its commands run in the order of `calls`."""
    return Hostile(tmp_path_factory.mktemp("hostile"))


def test_json_output_means_the_text_as_it_is(hostile: Hostile) -> None:
    """The escapes are JSON's own: a program reads the very characters."""
    (row,) = map(json.loads, command("threads", "--db", hostile.url, "--json").stdout.splitlines())
    assert row["thread_id"] == THREAD


def test_no_command_prints_what_commands_a_terminal(hostile: Hostile) -> None:
    """Each command of the application, with and without `--json`: its output, its errors and its prompts."""
    calls = hostile.calls()
    assert set(COMMANDS) == set(calls)
    escaped = False
    for name, many in calls.items():
        for arguments in many:
            for more in ([], ["--json"]):
                # the runner repeats what is typed at a question of typer's own
                typed = "n\n" if name == "forget" else f"{EVIL}\n/compact {EVIL}\n/status\n/{EVIL}\n/quit\n"
                result = command(name, *arguments, *more, typed=typed)
                printed = result.stdout + result.stderr
                assert FORBIDDEN.findall(printed) == [], (name, arguments, more)
                assert result.exception is None or isinstance(result.exception, SystemExit), (name, arguments)
                escaped |= "\\x1b]52;c;" in printed and "[bold red]markup[/] :smile:" in printed
    assert escaped


def test_an_unexpected_error_is_printed_with_its_escapes_visible(capsys: pytest.CaptureFixture[str]) -> None:
    """A traceback repeats the error's text."""

    def broken() -> None:
        raise ValueError(EVIL)

    application: Any = broken
    with pytest.raises(SystemExit):
        run(application)
    said = capsys.readouterr().err
    assert "ValueError" in said
    assert FORBIDDEN.findall(said) == []


def test_a_console_prints_no_markup_and_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is printed on it, as text or as a part of something else."""
    from rich.table import Table  # noqa: PLC0415 - of this test alone
    from rich.text import Text  # noqa: PLC0415 - the same

    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    for one in (EVIL, Text(EVIL), table):
        Output().print(one, width=200)
    said = capsys.readouterr().out
    assert FORBIDDEN.findall(said) == []
    assert said.count("[bold red]markup[/]") >= 3


@pytest.mark.parametrize(
    ("escape", "text", "expected"),
    [
        (visible, "a\r\nb\tc", "a\nb\tc"),
        (visible, "\x1b[31m\x9b\u202e\ud800", "\\x1b[31m\\x9b\\u202e\\ud800"),
        (visible, "注意 العربية 👩‍👩‍👧", "注意 العربية 👩‍👩‍👧"),
        (in_line, "a\n\tb", "a\\n\\tb"),
        (json_line, "a\x1b\x9b\u202e注", '"a\\u001b\\u009b\\u202e注"'),
    ],
)
def test_what_is_escaped(escape: Callable[[str], str], text: str, expected: str) -> None:
    """Control characters, overrides of direction and lone surrogates; no letter of any script."""
    assert escape(text) == expected
