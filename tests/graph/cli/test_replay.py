"""The command `replay`: what it prints and writes, and what it refuses."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.lab.replay import recorded_run
from tests.graph.cli.provider import provider
from tests.graph.cli.replaying import FIGURES, READ, SYSTEM, one_line, replayed, rounds, run, written
from tests.recount import request_tokens, second_opinion, unpaired

CONVERSATION = [
    "file",
    "preset",
    "turns",
    "requests",
    "limit",
    "max_request_tokens",
    "invalid_requests",
    "over_window_requests",
    "refused_turns",
    "lost_messages",
    "trigger",
    "tokens_sent",
    "messages",
    "rounds",
    "compactions",
]
COMPACTION = ["trigger", "strategy", "verdict", "reason", "tokens_before", "tokens_after", "blocks_dropped"]


def test_json_has_the_keys_that_are_promised(recorded: Path) -> None:
    """One line a conversation, with these keys in this order; the page tells the same."""
    (line,) = replayed(recorded)
    assert list(line) == CONVERSATION
    assert line | FIGURES == line
    assert (line["file"], line["turns"], line["requests"]) == ("talk.json", 10, 20)
    assert 0 < line["max_request_tokens"] <= line["limit"]
    assert all(list(row) == COMPACTION for row in line["compactions"])
    committed = [row for row in line["compactions"] if row["verdict"] == "committed"]
    assert committed
    assert all(row["tokens_after"] < row["tokens_before"] for row in committed)
    text = " ".join(run(recorded).stdout.split())
    assert text.startswith("talk.json: 41 messages in 10 turns; 20 requests, the largest")
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


def test_several_conversations_are_replayed_one_after_the_other(tmp_path: Path) -> None:
    """Each has a name, a limit of its own and a line; one that does not fit does not stop the others."""
    path = written(tmp_path / "two.json", [{"messages": rounds(6)}, {"messages": rounds(8)}])
    lines = replayed(path)
    assert [(line["file"], line["turns"]) for line in lines] == [("two.json#1", 6), ("two.json#2", 8)]
    assert lines[0]["limit"] < lines[1]["limit"]
    long_prompt = {"role": "system", "content": "be brief " * 500}
    path = written(tmp_path / "two.json", [{"messages": [long_prompt, *rounds(2)[1:]]}, {"messages": rounds(8)}])
    result = run(path, "--window", "500", "--json")
    assert result.exit_code == 1
    assert one_line(result).startswith("two.json#1 (selective): no room for a conversation: window 500")
    assert [json.loads(line)["file"] for line in result.stdout.splitlines()] == ["two.json#2"]


def test_a_model_writes_the_summaries_if_it_is_chosen(recorded: Path) -> None:
    """With `--summarizer model`, the command calls the model of the environment, and only to write summaries."""
    with provider("<summary>The user asks what stands in files.</summary>") as script:
        (line,) = [json.loads(run(recorded, "--summarizer", "model", "--json", env=script.env).stdout)]
        asked = len(script.requests)
        (without,) = [json.loads(run(recorded, "--json", env=script.env).stdout)]
    assert line | FIGURES == line
    assert {row["strategy"] for row in line["compactions"]} == {"selective+model"}
    assert {row["strategy"] for row in without["compactions"]} == {"selective+digest"}
    assert asked == len(script.requests) == len(line["compactions"])


@pytest.mark.parametrize("args", [["--json"], []])
def test_a_defect_ends_the_command_with_1(recorded: Path, monkeypatch: pytest.MonkeyPatch, args: list[str]) -> None:
    """Where a request was not valid the figures say so, and so does the exit code."""

    def never(_messages: Any) -> bool:
        return False

    monkeypatch.setattr(recorded_run, "is_paired", never)
    result = run(recorded, *args)
    assert result.exit_code == 1
    assert ('"invalid_requests": 20' if args else "20 requests invalid") in result.stdout


def test_a_window_is_tokens_or_a_share_of_what_is_not_fixed(recorded: Path) -> None:
    """System prompt and tool schemas, and that share of the tokens of the rest, rounded up."""
    fixed, rest = request_tokens([SYSTEM], [[READ]]), request_tokens(rounds(10)[1:])
    for window, limit in (
        ("25%", fixed + math.ceil(rest * 0.25)),
        ("0.5", fixed + math.ceil(rest / 2)),
        ("600", 600),
    ):
        assert replayed(recorded, "--window", window)[0]["limit"] == limit
    assert replayed(recorded, "--window", "90000")[0]["compactions"] == []


def told(command: str, url: str, *args: str) -> list[dict[str, Any]]:
    """Return the objects that a command prints of a database."""
    result = CliRunner().invoke(app, [command, *args, "--db", url, "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


UNANSWERED = [{"role": "user", "content": "And what stands in none of them?"}]


@pytest.mark.parametrize("end", [[], UNANSWERED], ids=["answered", "unanswered"])
def test_the_database_tells_what_the_replay_reported(end: list[dict[str, Any]], tmp_path: Path) -> None:
    """`inspect`, `history` and `threads` count the same; a second replay gets a thread of its own."""
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    said = [*rounds(10), *end]
    path = written(tmp_path / "talk.json", {"messages": said, "tools": [READ]})
    (figures,) = replayed(path, "--db", url)
    assert figures["requests"] == 20 + len(end)
    assert len(figures["compactions"]) > 1
    (thread,) = told("threads", url)
    (report,) = told("inspect", url, thread["thread_id"])
    assert len(report["requests"]) == figures["requests"]
    assert max(one["tokens"] for one in report["requests"]) == figures["max_request_tokens"]
    assert [one["answered"] for one in report["requests"]].count(False) == len(end)
    history = told("history", url, thread["thread_id"])
    assert [row["verdict"] for row in history] == [row["verdict"] for row in figures["compactions"]]
    checkpoints = told("threads", url, thread["thread_id"], "--limit", "1000")
    assert thread["checkpoints"] == len(checkpoints)
    assert sum(one["source"] == "input" for one in checkpoints) == figures["turns"]
    assert checkpoints[0]["messages"] == len(said) > figures["messages"] == len(report["in_view"])
    assert replayed(path, "--db", url) == [figures]
    assert len(told("threads", url)) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        (b"PK\x03\x04\x00\x00", "a binary file"),
        (b'[{"role": "user", "content": "hi"}, {"role": "oracle"}]', "entry 2: role 'oracle'"),
    ],
)
def test_a_file_that_is_no_recording_is_told_in_one_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    """The command ends with 2, as the file was named by the user, and names the place in it and what is wrong."""
    path = tmp_path / "[red]file.json"
    if content is not None:
        path.write_bytes(content)
    result = run(path, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert one_line(result).startswith(str(path))
    assert said in one_line(result)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--preset", "nonsense"], 2, "there is no preset 'nonsense'; known are selective"),
        (["--summarizer", "nonsense"], 2, "'nonsense' is not one of 'digest', 'model'"),
        (["--window", "ten"], 2, "'ten' is neither a number of tokens nor a share: write 32000, 25% or 0.25"),
        (["--window", "70"], 1, "no room for a conversation: window 70"),
        (["--db", "nonsense://here"], 2, "there is no support for 'nonsense' databases"),
        (["--db", "sqlite:////no/such/folder/kept.db"], 2, "cannot connect to"),
        (["--summarizer", "model"], 2, "OPENAI_API_KEY"),
        (["--requests", "RECORDING"], 2, "is the recording itself"),
        (["--requests", "/no/such/folder/out.jsonl"], 2, "cannot be written (No such file or directory)"),
    ],
)
def test_what_cannot_be_replayed_is_told(recorded: Path, args: list[str], code: int, said: str) -> None:
    """Nothing is printed or overwritten, and the error says what to change."""
    before = recorded.read_bytes()
    given = [str(recorded) if arg == "RECORDING" else arg for arg in args]
    result = run(recorded, *given, width=300, env={"OPENAI_API_KEY": None})
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
    assert recorded.read_bytes() == before
