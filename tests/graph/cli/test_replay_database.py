"""What `replay --db` leaves behind."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langgraph_compaction.checkpoint import CompactionRecords, Database, SQLAlchemySaver
from langgraph_compaction.graph.cli.main import app
from tests.graph.cli.replaying import READ, replayed, rounds, run, written


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


def test_a_database_keeps_the_checkpoints(recorded: Path, tmp_path: Path) -> None:
    """Every step of each turn can be read afterwards, and the last one with the archive is the whole conversation."""
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    (figures,) = replayed(recorded, "--db", url)
    with SQLAlchemySaver.from_url(url) as saver:
        (thread,) = saver.threads()
        kept = list(saver.list({"configurable": {"thread_id": thread}}))
        assert sum(one.metadata.get("source") == "input" for one in kept) == figures["turns"]
        values = kept[0].checkpoint["channel_values"]
        records = CompactionRecords(saver.database)
        whole = records.transcript(thread, "", values["messages"], head=values["compaction"]["head"])
    assert len(values["messages"]) < len(whole) == len(rounds(10))


UNANSWERED = [{"role": "user", "content": "And what stands in none of them?"}]


@pytest.mark.parametrize("end", [[], UNANSWERED], ids=["answered", "unanswered"])
def test_the_database_tells_what_the_replay_reported(end: list[dict[str, Any]], tmp_path: Path) -> None:
    """`inspect`, `history` and `threads` count the same requests, turns and compactions."""
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    path = written(tmp_path / "talk.json", {"messages": [*rounds(10), *end], "tools": [READ]})
    (figures,) = replayed(path, "--db", url)
    assert figures["requests"] == 20 + len(end)
    assert len(figures["compactions"]) > 1
    (thread,) = told("threads", url)
    (report,) = told("inspect", url, thread["thread_id"])
    assert len(report["requests"]) == figures["requests"]
    assert max(one["tokens"] for one in report["requests"]) == figures["max_request_tokens"]
    assert [one["answered"] for one in report["requests"]].count(False) == len(end)
    assert report["requests"][-1]["turn"] == figures["turns"]
    history = told("history", url, thread["thread_id"])
    assert [row["verdict"] for row in history] == [row["verdict"] for row in figures["compactions"]]
    assert thread["compactions"] == len(history)
    checkpoints = told("threads", url, thread["thread_id"], "--limit", "1000")
    assert thread["checkpoints"] == len(checkpoints)
    assert sum(one["source"] == "input" for one in checkpoints) == figures["turns"]
    assert checkpoints[0]["messages"] == figures["messages"]


def told(command: str, url: str, *args: str) -> list[dict[str, Any]]:
    """Return the objects that a command prints of a database."""
    result = CliRunner().invoke(app, [command, *args, "--db", url, "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


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
