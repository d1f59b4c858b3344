"""The command `replay`: what it prints, writes and keeps, and what it says of bad input."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.graph.cli import playing
from langgraph_compaction.graph.cli.main import app
from tests.recount import request_tokens, second_opinion, unpaired

CONVERSATION = [
    "file",
    "turns",
    "requests",
    "limit",
    "max_request_tokens",
    "invalid_requests",
    "over_window_requests",
    "refused_turns",
    "lost_messages",
    "compactions",
]
COMPACTION = ["trigger", "strategy", "verdict", "reason", "tokens_before", "tokens_after", "blocks_dropped"]
FIGURES = {"invalid_requests": 0, "over_window_requests": 0, "refused_turns": 0, "lost_messages": 0}
READ = {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}}
SYSTEM = {"role": "system", "content": "You read files and tell what stands there."}


def run(*args: object, width: int = 100, env: dict[str, str | None] | None = None) -> Result:
    """Run the command; stdout and stderr apart."""
    screen = {"COLUMNS": str(width), "TERMINAL_WIDTH": str(width)}
    return CliRunner().invoke(app, ["replay", *map(str, args)], env={**screen, **(env or {})})


def one_line(result: Result) -> str:
    """What was said on stderr, which must be one line and no traceback."""
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    return line


def rounds(count: int, words: int = 60) -> list[dict[str, Any]]:
    """A system message, and rounds in which a person asks, a tool is called and an answer given."""
    return [SYSTEM, *(message for number in range(count) for message in _round(number, words))]


def _round(number: int, words: int) -> list[dict[str, Any]]:
    function = {"name": "read", "arguments": f'{{"path": "file-{number}.txt"}}'}
    found = " ".join(f"word-{number}-{word}" for word in range(words))
    return [
        {"role": "user", "content": f"What stands in file-{number}.txt?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": found},
        {"role": "assistant", "content": f"It holds {words} words, the first is word-{number}-0."},
    ]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Write a recorded conversation with a tool schema, and return its path."""
    return written(tmp_path / "talk.json", {"messages": rounds(10), "tools": [READ]})


def written(path: Path, value: Any) -> Path:
    """Write a value as JSON."""
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def replayed(*args: object) -> list[dict[str, Any]]:
    """The lines that `--json` prints, and nothing else; the command succeeds in silence."""
    result = run(*args, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_json_has_the_keys_that_are_promised(recorded: Path) -> None:
    """One line a conversation, with these keys in this order."""
    (line,) = replayed(recorded)
    assert list(line) == CONVERSATION
    assert line | FIGURES == line
    assert (line["file"], line["turns"], line["requests"]) == ("talk.json", 10, 20)
    assert 0 < line["max_request_tokens"] <= line["limit"]
    assert len(line["compactions"]) > 1
    assert all(list(row) == COMPACTION for row in line["compactions"])
    committed = [row for row in line["compactions"] if row["verdict"] == "committed"]
    assert committed
    assert all(row["tokens_after"] < row["tokens_before"] for row in committed)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_table_is_readable(recorded: Path, width: int) -> None:
    """A row for each compaction; nothing is cut or wider than the terminal."""
    (line,) = replayed(recorded)
    result = run(recorded, width=width)
    assert result.exit_code == 0
    shown = result.stdout.splitlines()
    assert max(map(len, shown)) <= width
    assert "…" not in result.stdout
    heading = next(row for row in shown if "verdict" in row)
    assert heading.split() == ["#", "trigger", "strategy", "verdict", "before", "after", "blocks", "floor"]
    rows = [row.split() for row in shown if row[:1].isdigit() and "+" in row]
    expected = [(c["trigger"], c["strategy"], c["verdict"], f"{c['tokens_before']:,}") for c in line["compactions"]]
    assert [tuple(row[1:5]) for row in rows] == expected


def test_the_end_state_is_told(recorded: Path) -> None:
    """The page begins with the size of the conversation and ends with what became of it."""
    text = " ".join(run(recorded).stdout.split())
    (line,) = replayed(recorded)
    assert text.startswith("talk.json: 41 messages in 10 turns; 20 requests, the largest")
    assert f"of {line['limit']} tokens" in text
    assert text.endswith("0 lost, 0 requests invalid, 0 over the limit, 0 inputs refused")


def test_the_requests_are_written_as_sent(recorded: Path, tmp_path: Path) -> None:
    """Each line is a request in OpenAI JSON with its limit and its tools; a recount finds what the report tells."""
    out = tmp_path / "requests.jsonl"
    (line,) = replayed(recorded, "--requests", out)
    sent = [json.loads(text) for text in out.read_text(encoding="utf-8").splitlines()]
    assert [(one["file"], one["request"]) for one in sent] == [("talk.json", number) for number in range(1, 21)]
    assert {one["limit"] for one in sent} == {line["limit"]}
    assert all(one["tools"] == [READ] for one in sent)
    assert max(request_tokens(one["messages"], [one["tools"]]) for one in sent) == line["max_request_tokens"]
    assert [unpaired(one["messages"]) + second_opinion(one["messages"]) for one in sent] == [[]] * 20


@pytest.mark.parametrize(
    ("window", "share"), [("25%", 0.25), ("33.3%", 0.333), ("50%", 0.5), ("100%", 1), ("1e2%", 1)]
)
def test_a_share_is_of_what_is_not_fixed_rounded_up(recorded: Path, window: str, share: float) -> None:
    """System prompt and tool schemas, and that share of the tokens of the rest."""
    (line,) = replayed(recorded, "--window", window)
    fixed, rest = request_tokens([SYSTEM], [[READ]]), request_tokens(rounds(10)[1:])
    assert line["limit"] == fixed + math.ceil(rest * share)


def test_a_share_that_is_a_whole_number_stays_one() -> None:
    """55 % of 100 tokens are 55, though the computer's 100 x 55 / 100 may be a little more."""
    shares = [playing.limit_of(f"{share}%", fixed=7, rest=100) for share in range(1, 101)]
    assert shares == [7 + share for share in range(1, 101)]
    assert playing.limit_of("0.7%", fixed=0, rest=1_000) == 7
    assert playing.limit_of("0.71%", fixed=0, rest=1_000) == 8


def test_tokens_are_taken_as_they_are(recorded: Path) -> None:
    """A number without a percent sign is the limit itself; what is not over it is not compacted."""
    lines = replayed(recorded, "--window", "600") + replayed(recorded, "--window", "90000")
    assert [line["limit"] for line in lines] == [600, 90_000]
    assert [bool(line["compactions"]) for line in lines] == [True, False]


@pytest.mark.parametrize("window", ["0", "-5", "0%", "-5%", "ten", "", "%", "nan%", "inf%", "1.5", "25 percent"])
def test_what_is_no_window_is_a_usage_error(recorded: Path, window: str) -> None:
    """The command ends with 2 and says what a window is."""
    result = run(recorded, f"--window={window}", width=200)
    assert result.exit_code == 2
    assert f"{window!r} is neither a number of tokens nor a share: 32000 or 25%" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--preset", "there is no preset 'nonsense'; there are: selective"),
        ("--summarizer", "'nonsense' is not one of 'digest', 'model'"),
    ],
)
def test_an_unknown_choice_is_a_usage_error(recorded: Path, option: str, said: str) -> None:
    """The command ends with 2 and names what there is."""
    result = run(recorded, option, "nonsense", width=200)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        (b"", "is empty"),
        (b"PK\x03\x04\x00\x00", "a binary file"),
        (b"{", "not JSON"),
        (b'{"weather": "fine"}', "is no message"),
        (b'[{"role": "user", "content": "hi"}, {"role": "oracle"}]', "message 2: role 'oracle'"),
    ],
)
def test_a_file_that_is_no_recording_is_told_in_one_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    """The command ends with 1 and names the file, the place in it and what is wrong."""
    path = tmp_path / "[red]file.json"
    if content is not None:
        path.write_bytes(content)
    result = run(path, "--json")
    line = one_line(result)
    assert result.exit_code == 1
    assert line.startswith(str(path))
    assert said.replace("message 2", "entry 2") in line
    assert result.stdout == ""


def test_several_conversations_are_replayed_one_after_the_other(tmp_path: Path) -> None:
    """Each has a name, a limit of its own and a line; `--requests` keeps them apart by name."""
    path = written(tmp_path / "two.json", [{"messages": rounds(6)}, {"messages": rounds(8)}])
    out = tmp_path / "requests.jsonl"
    lines = replayed(path, "--requests", out)
    assert [(line["file"], line["turns"]) for line in lines] == [("two.json#1", 6), ("two.json#2", 8)]
    assert lines[0]["limit"] < lines[1]["limit"]
    sent = [json.loads(text) for text in out.read_text(encoding="utf-8").splitlines()]
    assert {(one["file"], one["limit"]) for one in sent} == {(line["file"], line["limit"]) for line in lines}
    assert len(sent) == sum(line["requests"] for line in lines)
    page = run(path).stdout
    assert page.index("two.json#1: 25 messages") < page.index("two.json#2: 33 messages")


def test_a_conversation_that_does_not_fit_does_not_stop_the_others(tmp_path: Path) -> None:
    """It is named in one line with the sizes, and the command ends with 1."""
    long_prompt = {"role": "system", "content": "be brief " * 500}
    path = written(tmp_path / "two.json", [{"messages": [long_prompt, *rounds(2)[1:]]}, {"messages": rounds(8)}])
    result = run(path, "--window", "500", "--json")
    assert result.exit_code == 1
    assert one_line(result).startswith("two.json#1: no room for a conversation: window 500")
    assert [json.loads(line)["file"] for line in result.stdout.splitlines()] == ["two.json#2"]


def test_a_window_in_which_nothing_can_be_said_ends(tmp_path: Path) -> None:
    """Every input is refused, and its stand-in too; nothing is lost, and no request is sent."""
    path = written(tmp_path / "talk.json", rounds(3))
    (line,) = replayed(path, "--window", request_tokens([SYSTEM]) + 5)
    assert (line["turns"], line["refused_turns"], line["requests"], line["lost_messages"]) == (3, 3, 0, 0)
    assert {(row["verdict"], row["reason"]) for row in line["compactions"]} == {("refused", "message_over_limit")}


def test_a_database_keeps_what_was_compacted(recorded: Path, tmp_path: Path) -> None:
    """Ledger and archive can be read afterwards, under a thread that the page names."""
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    result = run(recorded, "--db", url)
    assert result.exit_code == 0
    with Database.open(url) as database:
        records = CompactionRecords(database)
        (thread,) = records.threads()
        assert f"It is thread {thread} in sqlite:///" in " ".join(result.stdout.split())
        assert thread.startswith("talk.json-")
        rows = records.history(thread)
        last = [row.compaction_id for row in rows if row.verdict == "committed"][-1]
        archived = records.transcript(thread, "", [], head=last)
    assert all(row.verdict for row in rows)
    assert any(message.text.startswith("word-0-0 word-0-1") for message in archived)


def test_a_second_replay_gets_a_thread_of_its_own(tmp_path: Path) -> None:
    """The same file in the same database: the figures are the same, and the first thread stays as it was."""
    messages = [{**message, "id": f"m{number}"} for number, message in enumerate(_as_langchain(rounds(8)))]
    path = written(tmp_path / "ids.json", messages)
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    first = replayed(path, "--db", url)
    with Database.open(url) as database:
        before = CompactionRecords(database).history(CompactionRecords(database).threads()[0])
    assert replayed(path, "--db", url) == first
    with Database.open(url) as database:
        records = CompactionRecords(database)
        threads = records.threads()
        assert len(threads) == len(set(threads)) == 2
        assert records.history(threads[0]) == before
        assert [row.verdict for row in records.history(threads[1])] == [row.verdict for row in before]


def _as_langchain(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kinds = {"system": "system", "user": "human", "assistant": "ai", "tool": "tool"}
    return [
        {
            "type": kinds[message["role"]],
            "content": message["content"] or "",
            "tool_call_id": message.get("tool_call_id"),
            "tool_calls": [
                {"id": call["id"], "name": "read", "args": json.loads(call["function"]["arguments"])}
                for call in message.get("tool_calls", [])
            ],
        }
        for message in messages
    ]


def test_a_database_that_cannot_be_opened_is_told_in_one_line(recorded: Path, tmp_path: Path) -> None:
    """The command ends with 1 and says what to check."""
    result = run(recorded, "--db", f"sqlite:///{tmp_path / 'missing' / 'kept.db'}")
    assert result.exit_code == 1
    assert "cannot connect to" in one_line(result)
    assert "nonsense" in one_line(run(recorded, "--db", "nonsense://here"))


def test_a_model_needs_a_key(recorded: Path) -> None:
    """Without one the command ends with 1 and names the variable and the way out."""
    result = run(recorded, "--summarizer", "model", env={"OPENAI_API_KEY": None})
    assert result.exit_code == 1
    assert "OPENAI_API_KEY" in one_line(result)
    assert "--summarizer digest" in one_line(result)


def test_requests_never_overwrite_the_recording(recorded: Path, tmp_path: Path) -> None:
    """The file itself, and one in no folder, are usage errors, and the recording stays as it was."""
    before = recorded.read_bytes()
    result = run(recorded, "--requests", recorded, width=300)
    assert result.exit_code == 2
    assert "is the recording itself" in result.stderr
    assert recorded.read_bytes() == before
    missing = run(recorded, "--requests", tmp_path / "missing" / "out.jsonl", width=300)
    assert missing.exit_code == 2
    assert "cannot be written (No such file or directory)" in missing.stderr


def test_a_model_may_count_otherwise(recorded: Path) -> None:
    """With `--usage-bias` the requests still fit the limit in our tokens, and as much is compacted."""
    (line,) = replayed(recorded, "--usage-bias")
    assert line | FIGURES == line
    assert line["max_request_tokens"] <= line["limit"]
    assert max(row["tokens_before"] for row in line["compactions"]) > 1.22 * 0.8 * line["limit"]


@pytest.mark.parametrize("args", [["--json"], []])
def test_a_defect_ends_the_command_with_1(recorded: Path, monkeypatch: pytest.MonkeyPatch, args: list[str]) -> None:
    """Where a request was not valid the figures say so, and so does the exit code."""

    def never(_messages: Any) -> bool:
        return False

    monkeypatch.setattr(playing, "is_paired", never)
    result = run(recorded, *args)
    assert result.exit_code == 1
    assert ('"invalid_requests": 20' if args else "20 requests invalid") in result.stdout


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_tells_every_option(flag: str) -> None:
    """It names the options, the formats, and what an exit with 1 means."""
    result = run(flag, width=160)
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for word in ("--window", "--preset", "--db", "--summarizer", "--usage-bias", "--requests", "--json"):
        assert word in text
    for word in ("tau-bench", "SWE-agent", "OpenHands", "pi sessions", "Exits with 1", "OPENAI_API_KEY"):
        assert word in text


def test_help_of_all_commands_names_this_one() -> None:
    """The short flag works there too."""
    result = CliRunner().invoke(app, ["-h"])
    assert result.exit_code == 0
    assert "replay" in result.stdout
