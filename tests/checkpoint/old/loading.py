"""Databases of earlier versions, as `record.py` wrote them down, and what they answered."""

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from langchain_core.messages import BaseMessage

from langgraph_compaction.checkpoint import AttemptKey, CompactionRecords, LedgerRow, SummaryRecord, loads
from langgraph_compaction.checkpoint.urls import sync_url


class Old:
    """The database of one version."""

    def __init__(self, version: int) -> None:
        self._held: dict[str, Any] = json.loads((Path(__file__).parent / f"version_{version}.json").read_text())
        self.rows = {name: [list(map(_value, row)) for row in rows] for name, rows in self._held["rows"].items()}
        self.answers: dict[str, Any] = self._held["answers"]
        names = {row[0]: row[1] for row in self.rows["compaction_thread"][1:]}
        self._messages = {
            (names[thread], name.hex()[:12]): loads(body)
            for thread, _, name, body in self.rows["compaction_message"][1:]
        }

    def load(self, url: str) -> None:
        """Write the database to an empty one."""
        engine = sa.create_engine(sync_url(url), poolclass=sa.NullPool)
        with engine.begin() as conn:
            for statement in self._held[engine.dialect.name]:
                conn.exec_driver_sql(statement)
            for name, (columns, *rows) in self.rows.items():
                table = sa.table(name, *map(sa.column, columns))
                conn.execute(sa.insert(table), [dict(zip(columns, row, strict=True)) for row in rows])
                if engine.dialect.name == "postgresql" and columns[0] == "id" and name != "compaction_schema":
                    sequence = sa.func.pg_get_serial_sequence(name, "id")
                    conn.execute(sa.select(sa.func.setval(sequence, rows[-1][0])))
        engine.dispose()

    def messages(self, thread_id: str, handles: str) -> list[BaseMessage]:
        """Return the messages behind handles, in their order."""
        return [self._messages[thread_id, one] for one in handles.split()]

    def differences(self, records: CompactionRecords) -> list[str]:
        """Return what the records answer otherwise than the old code did."""
        asked = (*self._rows(records), *self._texts(records), *self._lists(records))
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
                expected = handle and self.messages(name, handle)[0]
                yield f"what {asked} of {name} recalls", records.recall(name, asked), expected

    def _lists(self, records: CompactionRecords) -> Iterator[tuple[str, object, object]]:
        for held, handles in self.answers["snapshot"]:
            key = AttemptKey(**held)
            expected = None if handles is None else self.messages(key.thread_id, handles)
            yield f"the snapshot of {key}", records.snapshot(key), expected
        for name, space, view, head, whole in self.answers["transcript"]:
            found = records.transcript(name, space, self.messages(name, view), head=head)
            yield f"the transcript of {name}", found, self.messages(name, whole)


def _value(held: Any) -> Any:
    return b64decode(held["base64"]) if isinstance(held, dict) else held
