"""The command `replay`: what it prints and writes."""

import json
from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.graph.lab.replay import recorded_run
from tests.graph.cli.provider import provider
from tests.graph.cli.replaying import FIGURES, READ, replayed, rounds, run, written
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
    assert {row["blocks_dropped"] for row in committed} == {1}


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_table_is_readable(recorded: Path, width: int) -> None:
    """A row for each compaction; nothing is cut or wider than the terminal."""
    (line,) = replayed(recorded)
    result = run(recorded, width=width)
    assert result.exit_code == 0
    shown = result.stdout.splitlines()
    assert max(map(len, shown)) <= width
    assert "…" not in result.stdout
    heading = next(row for row in shown if "outcome" in row)
    assert heading.split() == ["#", "trigger", "strategy", "outcome", "before", "after", "blocks", "floor"]
    rows = [row.split() for row in shown if row[:1].isdigit() and "+" in row]
    expected = [(c["trigger"], c["strategy"], c["verdict"], f"{c['tokens_before']:,}") for c in line["compactions"]]
    assert [tuple(row[1:5]) for row in rows] == expected


def test_the_end_state_is_told(recorded: Path) -> None:
    """The page begins with the size of the conversation and ends with what became of it."""
    text = " ".join(run(recorded).stdout.split())
    (line,) = replayed(recorded)
    assert text.startswith("talk.json: 41 messages in 10 turns; 20 requests, the largest")
    assert f"of {line['limit']:,} tokens" in text
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


def test_a_model_writes_the_summaries_if_it_is_chosen(recorded: Path) -> None:
    """With `--summarizer model`, the command calls the model of the environment, and only to write summaries.

    Without this option, the command calls no model.
    """
    with provider("<summary>The user asks what stands in files.</summary>") as script:
        (line,) = [json.loads(run(recorded, "--summarizer", "model", "--json", env=script.env).stdout)]
        asked = len(script.requests)
        (without,) = [json.loads(run(recorded, "--json", env=script.env).stdout)]
    assert line | FIGURES == line
    assert {row["strategy"] for row in line["compactions"]} == {"selective+model"}
    assert {row["strategy"] for row in without["compactions"]} == {"selective+digest"}
    assert asked == len(script.requests) == len(line["compactions"])
    assert {request["model"] for request in script.requests} == {"gpt-4o-mini"}


@pytest.mark.parametrize("args", [["--json"], []])
def test_a_defect_ends_the_command_with_1(recorded: Path, monkeypatch: pytest.MonkeyPatch, args: list[str]) -> None:
    """Where a request was not valid the figures say so, and so does the exit code."""

    def never(_messages: Any) -> bool:
        return False

    monkeypatch.setattr(recorded_run, "is_paired", never)
    result = run(recorded, *args)
    assert result.exit_code == 1
    assert ('"invalid_requests": 20' if args else "20 requests invalid") in result.stdout


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_tells_every_option(flag: str) -> None:
    """It names the options, the formats, and what an exit with 1 means."""
    result = run(flag, width=160)
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for word in ("--window", "--preset", "--db", "--summarizer", "--requests", "--json"):
        assert word in text
    for word in ("--config", "--use", "several separated by commas", "STRATEGIES", "KEY_INFORMATION"):
        assert word in text
    for word in ("tau-bench", "SWE-agent", "OpenHands", "sessions of pi", "exit code is 1", "OPENAI_API_KEY"):
        assert word in text
