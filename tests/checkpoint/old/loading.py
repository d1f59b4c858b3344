"""Databases of earlier versions, as `record.py` wrote them down, and what they answered."""

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import CheckpointTuple

from langgraph_compaction.checkpoint import (
    AttemptKey,
    CompactionRecords,
    LedgerRow,
    SQLAlchemySaver,
    SummaryRecord,
    loads,
)
from langgraph_compaction.checkpoint.codec import digest_all
from langgraph_compaction.checkpoint.urls import sync_url


class Old:
    """The database of one version."""

    def __init__(self, version: int) -> None:
        self.version = version
        self._held: dict[str, Any] = json.loads((Path(__file__).parent / f"version_{version}.json").read_text())
        self.rows = {name: [list(map(_value, row)) for row in rows] for name, rows in self._held["rows"].items()}
        self.answers: dict[str, Any] = self._held["answers"]
        # of version 1 the bodies stand in their rows as they are
        self._messages = (
            {name: loads(_value(body)) for name, body in self.answers["messages"].items()}
            if "messages" in self.answers
            else {name.hex()[:12]: loads(body) for _, _, name, body in self.rows["compaction_message"][1:]}
        )

    def load(self, url: str) -> None:
        """Write the database to an empty one."""
        engine = sa.create_engine(sync_url(url), poolclass=sa.NullPool)
        with engine.begin() as conn:
            for statement in self._held[engine.dialect.name]:
                conn.exec_driver_sql(statement)
            for name, (columns, *rows) in self.rows.items():
                table = sa.table(name, *map(sa.column, columns))
                if not rows:
                    continue
                conn.execute(sa.insert(table), [dict(zip(columns, row, strict=True)) for row in rows])
                if engine.dialect.name == "postgresql" and columns[0] == "id" and name != "compaction_schema":
                    sequence = sa.func.pg_get_serial_sequence(name, "id")
                    conn.execute(sa.select(sa.func.setval(sequence, rows[-1][0])))
        engine.dispose()

    def messages(self, handles: str) -> list[BaseMessage]:
        """Return the messages behind handles, in their order."""
        return [self._messages[one] for one in handles.split()]

    def differences(self, records: CompactionRecords) -> list[str]:
        """Return what the records answer otherwise than the old code did."""
        asked = (
            *self._rows(records),
            *self._texts(records),
            *self._lists(records),
            *self._checkpoints(SQLAlchemySaver(records.database)),
        )
        return [question for question, found, expected in asked if found != expected]

    def _rows(self, records: CompactionRecords) -> Iterator[tuple[str, object, object]]:
        yield "threads", records.threads(), self.answers["threads"]
        for name, rows in self.answers["history"].items():
            yield f"the history of {name}", records.history(name), [LedgerRow(**row) for row in rows]

    def _texts(self, records: CompactionRecords) -> Iterator[tuple[str, object, object]]:
        for held, wanted, record in self.answers["summary"]:
            found = records.find_summary(AttemptKey(**held), input_digest=wanted)
            yield f"the summary {wanted} of {held}", found, record and SummaryRecord(**record)
        for name, digest, handle in self.answers["recall"]:
            for asked in (digest[:12], digest):
                expected = handle and self.messages(handle)[0]
                yield f"what {asked} of {name} recalls", records.recall(name, asked), expected

    def _lists(self, records: CompactionRecords) -> Iterator[tuple[str, object, object]]:
        for held, handles in self.answers["snapshot"]:
            key = AttemptKey(**held)
            expected = None if handles is None else self.messages(handles)
            yield f"the snapshot of {key}", records.snapshot(key), expected
        for name, space, view, head, whole in self.answers["transcript"]:
            found = records.transcript(name, space, self.messages(view), head=head)
            yield f"the transcript of {name}", found, self.messages(whole)

    def _checkpoints(self, saver: SQLAlchemySaver) -> Iterator[tuple[str, object, object]]:
        held = self.answers.get("checkpoints", [])
        there = list(saver.list({"configurable": {"thread_id": "saved"}}))
        yield "how many checkpoints there are", len(there), len(held)
        for one, expected in zip(there, held, strict=False):
            yield f"checkpoint {expected[0]}", told(one), expected


def told(one: CheckpointTuple) -> list[Any]:
    """Return what is told of a checkpoint in the answers: digests stand for messages."""
    values = one.checkpoint["channel_values"]
    writes = [
        [task, channel, digest_all(value if isinstance(value, list) else [value])]
        for task, channel, value in one.pending_writes or ()
    ]
    return [one.checkpoint["id"], one.metadata, values["note"], digest_all(values["messages"]), writes]


def _value(held: Any) -> Any:
    return b64decode(held["base64"]) if isinstance(held, dict) else held
