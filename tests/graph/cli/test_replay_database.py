"""What `replay --db` leaves behind."""

import json
from pathlib import Path
from typing import Any

from langgraph_compaction.checkpoint import CompactionRecords, Database, SQLAlchemySaver
from tests.graph.cli.replaying import replayed, rounds, run, written


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
    """The state at the end of each turn can be read afterwards, and with the archive it is the whole conversation."""
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    (figures,) = replayed(recorded, "--db", url)
    with SQLAlchemySaver.from_url(url) as saver:
        (thread,) = saver.threads()
        kept = list(saver.list({"configurable": {"thread_id": thread}}))
        assert len(kept) == figures["turns"]
        values = kept[0].checkpoint["channel_values"]
        records = CompactionRecords(saver.database)
        whole = records.transcript(thread, "", values["messages"], head=values["compaction"]["head"])
    assert len(values["messages"]) < len(whole) == len(rounds(10))


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
