import json
from pathlib import Path

from langchain_core.messages import HumanMessage
from langgraph.types import Send

from langgraph_compaction.checkpoint import SQLAlchemySaver
from tests.graph.cli import foreign
from tests.graph.cli.foreign import OFFICIAL, changed, config
from tests.graph.cli.importing import imported


def test_checkpoints_of_2024_come_with_their_pending_sends(tmp_path: Path, target: str) -> None:
    """Format 1 in SQLite, with sends in the checkpoint, values as JSON and copies of writes in the metadata."""
    source = f"sqlite:///{tmp_path / 'old.db'}"
    old = {
        "v": 1,
        "id": "1ef4f797-8335-6428-8001-8a1503f9b875",
        "ts": "2024-07-31T20:14:19+00:00",
        "channel_values": {"messages": [HumanMessage("hi", id="m1")], "start": "__start__"},
        "channel_versions": {"messages": 2, "start": "00000000000000000000000000000002.0.4"},
        "versions_seen": {"node": {"start": "00000000000000000000000000000001.0.7"}},
        "pending_sends": [Send("node", {"n": 1})],
        "current_tasks": {},
    }
    with OFFICIAL["sqlite"](source) as saver:
        saver.put({"configurable": {"thread_id": "old", "checkpoint_ns": ""}}, old, {"source": "loop", "step": 1}, {})
    constructor = {"lc": 2, "type": "constructor", "id": ["langchain_core", "messages", "human", "HumanMessage"]}
    as_json = {**old, "id": "1ef4f797-9335-6428-8002-8a1503f9b875", "pending_sends": []}
    as_json["channel_values"] = {"messages": [{**constructor, "kwargs": {"content": "hi", "id": "m1"}}]}
    about = {"source": "loop", "step": 2, "writes": {"node": {"messages": ["hi"]}}}
    changed(
        source,
        "INSERT INTO checkpoints VALUES ('old', '', ?, ?, 'json', ?, ?)",
        as_json["id"],
        old["id"],
        json.dumps(as_json).encode(),
        json.dumps(about).encode(),
    )
    assert imported(source, target)["verified"] == 2
    with SQLAlchemySaver.from_url(target) as saver:
        newest, first = saver.list(config("old"))
        assert first.checkpoint["pending_sends"] == [Send("node", {"n": 1})]
        assert first.checkpoint["channel_versions"] == {"messages": 2, "start": 2}
        assert first.checkpoint["versions_seen"] == {"node": {"start": 1}}
        assert newest.checkpoint["channel_values"]["messages"] == [HumanMessage("hi", id="m1")]
        assert newest.metadata == {"source": "loop", "step": 2}


def test_pending_sends_of_an_old_postgres_database_become_a_channel(tmp_path: Path, target: str) -> None:
    """Format 3 kept them among the parent's writes; they arrive where LangGraph looks for them today."""
    place = {"thread_id": "old", "checkpoint_ns": ""}
    version = "00000000000000000000000000000002.0.4"
    old = {
        "v": 3,
        "id": "1ef4f797-8335-6428-8001-8a1503f9b875",
        "ts": "2025-01-31T20:14:19+00:00",
        "channel_values": {"note": "x"},
        "channel_versions": {"note": version},
        "versions_seen": {},
    }
    with foreign.foreign_database("postgresql", tmp_path) as source:
        with OFFICIAL["postgresql"](source) as saver:
            parent = saver.put({"configurable": place}, old, {"source": "loop", "step": 1}, {})
            saver.put_writes(parent, [("__pregel_tasks", Send("node", {"n": 1}))], "task", "~path")
            saver.put(
                parent, {**old, "id": "1ef4f797-9335-6428-8002-8a1503f9b875"}, {"source": "loop", "step": 2}, {}
            )
        assert imported(source, target)["verified"] == 2
    with SQLAlchemySaver.from_url(target) as saver:
        newest = saver.get_tuple(config("old"))
        assert newest.checkpoint["channel_values"]["__pregel_tasks"] == [Send("node", {"n": 1})]
        assert newest.checkpoint["channel_versions"] == {"note": 2, "__pregel_tasks": 2}


def test_a_source_without_task_paths_is_read(source: str, target: str) -> None:
    """A file made before 2025 lacks that column, and is not given it."""
    changed(source, "ALTER TABLE writes DROP COLUMN task_path")
    changed(source, "PRAGMA journal_mode = DELETE")
    figures = imported(source, target)
    assert figures["verified"] == figures["checkpoints"]
    with SQLAlchemySaver.from_url(target) as saver:
        assert saver.get_tuple(config("asked")).pending_writes
