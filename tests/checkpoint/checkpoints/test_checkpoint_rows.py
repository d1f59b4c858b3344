"""Rows of checkpoints whose body is intact, but holds something else than a checkpoint."""

from typing import Any

import ormsgpack
import pytest

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.checkpoint.checkpoints.checkpoint_rows import CheckpointRow, bound_columns, row_name
from langgraph_compaction.checkpoint.errors import RowError

WHOLE: dict[str, Any] = {
    "v": 4,
    "ts": "2026-01-01T00:00:00+00:00",
    "versions": {"messages": 1},
    "seen": {"model": {"messages": 1}},
    "updated": None,
    "values": {},
    "metadata": ["msgpack", ormsgpack.packb({})],
    "rest": None,
}


def decoded(**changes: Any) -> CheckpointRow:
    """Decode a row whose body has these values in place of the usual ones."""
    records = CompactionRecords(Database.open("memory"))
    records.database.setup()
    with records.database.write() as conn:
        thread = records.store.thread(conn, "t")
    columns = {"namespace": "", "id": "1", "number": 1, "parent": None, "run": None, "metadata_hashes": None}
    content = ormsgpack.packb(list({**WHOLE, **changes}.values()))
    body = thread.codec.encode(row_name("", "1"), content, bound=bound_columns(1, None, None, None))
    return CheckpointRow.decode(thread, {**columns, "body": body})


@pytest.mark.parametrize(
    "changes",
    [
        {"v": "4"},
        {"ts": 4},
        {"versions": []},
        {"seen": []},
        {"seen": {"model": 1}},
        {"values": None},
        {"metadata": [1, b"{}"]},
        {"metadata": ["json", "{}"]},
        {"rest": ["json", "{}"]},
    ],
    ids=str,
)
def test_a_value_of_another_type_is_named_as_damage(changes: dict[str, Any]) -> None:
    """Before LangGraph works with it; a row of the usual types is read."""
    assert decoded().versions == {"messages": 1}
    with pytest.raises(RowError, match="checkpoint"):
        decoded(**changes)
