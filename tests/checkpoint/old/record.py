"""Writes `version_N.json`, a database as the code of schema version N leaves it, and what it answers.

    python -m tests.checkpoint.old.record

To be run once for each version, with the code of that version, before the tables change: the same work is done
on SQLite, PostgreSQL and MariaDB (TEST_POSTGRES_URL, TEST_MARIADB_URL), which must come to the same rows.
"""

import json
import tempfile
from base64 import b64encode
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint import (
    AttemptKey,
    CompactionRecords,
    Database,
    Outcome,
    SQLAlchemySaver,
    SummaryRecord,
    digest,
    dumps,
    handle,
    schema,
    tables,
)
from langgraph_compaction.checkpoint.columns import Ident, ident
from tests.checkpoint.old.loading import told
from tests.checkpoint.samples import COMMITTED, EVERY_KIND, SUMMARY, key_of, opening, talk
from tests.conftest import SERVERS, server_database

FOLDER = Path(__file__).parent
COUNT = 150
"""Checkpoints: some of them are bundled, and of their messages some are packed."""
ODD = "Gespräch 'é' \\ % \U0001f600"


class Work:
    """Does the work and remembers what to ask for afterwards."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.records = CompactionRecords(database)
        self.records.store.threads.now = lambda: 60.0
        self.saver = SQLAlchemySaver(database, now=lambda: 60.0)
        self.keys: list[AttemptKey] = []
        self.views: list[tuple[str, str, list[BaseMessage], str | None]] = []

    def begin(self, thread: str, batch: list[BaseMessage], **changes: Any) -> AttemptKey:
        """Begin an attempt."""
        rung, namespace = changes.pop("rung", 0), changes.pop("namespace", "")
        key = key_of(thread, batch, rung=rung, namespace=namespace)
        self.records.begin(key, batch, now=10.0 + len(self.keys), **opening(**changes))
        self.keys.append(key)
        return key

    def do(self) -> None:
        """Leave every kind of row, in threads that are shorter and longer than what is packed."""
        self.long()
        self.records.note(key_of("only noted", []), Outcome(verdict="declined", now=5.0), **opening())
        self.exact()
        self.odd()
        self.checkpoints()
        self.records.archive("forgotten", "", "refused", talk(3), now=1.0)
        self.records.forget("forgotten")

    def long(self) -> None:
        """Compact twice, summaries on the way, and leave a third attempt open."""
        first = [*EVERY_KIND.values(), *talk(150)]
        key = self.begin("long", first)
        self.records.record_summary(key, SUMMARY)
        self.records.record_summary(key, SummaryRecord("cd" * 16, "Teil \U0001f600", None, 1, 2, 3))
        self.records.commit(key, COMMITTED, archived=first[3:140])
        view = [first[0], HumanMessage("summary", id="sum"), *first[140:]]
        self.views.append(("long", "", view, key.compaction_id))
        second = self.begin("long", [*view, *talk(3, start=200)], parent_id=key.compaction_id, rung=1)
        self.records.record_summary(second, SummaryRecord("ef" * 16, "rejected", "m", 1, 2, 3))
        self.records.close(second, Outcome(verdict="rejected_facts_lost", now=30.0, detail="世界 \0 \ud800 '"))
        third = self.begin("long", [*first[::7], *talk(9, start=200)], parent_id=key.compaction_id)
        self.records.abandon_open("long", "", keep=None, now=31.0)
        self.begin("long", [*first[::-5]], parent_id=key.compaction_id, namespace="sub")
        self.keys.append(AttemptKey("long", "", third.base_digest, 3, 0))  # never begun

    def exact(self) -> None:
        """Leave 128 messages, which is when the first pack is made."""
        self.begin("exactly 128", talk(128))
        self.records.archive("exactly 128", "", "refused", talk(2, start=126), now=40.0)

    def odd(self) -> None:
        """Leave an odd id, and texts that are hard to keep."""
        batch: list[BaseMessage] = [
            HumanMessage("\0 and \U0001f600 and e\u0301", id=" blank "),
            ToolMessage("界" * 400, id="Ä", tool_call_id="1", artifact=b"\xff\x00"),
        ]
        key = self.begin(ODD, batch, trigger="手动")
        self.records.commit(key, Outcome(verdict="committed", now=50.0, summary="'\\"), archived=batch[:1])
        self.views.append((ODD, "", batch[1:], key.compaction_id))

    def checkpoints(self) -> None:
        """Leave checkpoints with their writes, of a state that grows until it is packed, and of a compacted one."""
        before: str | None = None
        for number in range(COUNT):
            messages = talk(2 * number + 1)
            state = messages if number < COUNT - 1 else [messages[0], *messages[-4:]]
            name = f"1f000000-0000-6000-8000-{number:012x}"
            place = {"configurable": {"thread_id": "saved", "checkpoint_ns": "", "checkpoint_id": before}}
            self.saver.put(
                place,
                {
                    "v": 4,
                    "id": name,
                    "ts": "2026-01-01T00:00:00+00:00",
                    "channel_values": {"messages": state, "note": "x" * (400 if number == 1 else 4)},
                    "channel_versions": {"messages": number + 1, "note": 1},
                    "versions_seen": {},
                    "updated_channels": ["messages"],
                },
                {"source": "loop", "step": number, "parents": {}},
                {},
            )
            nameless = HumanMessage(f"{number} without an id")
            writes = [("messages", talk(1, start=2 * number + 1)), ("messages", nameless)]
            place["configurable"]["checkpoint_id"] = before = name
            self.saver.put_writes(place, writes, "task", "~path")

    def rows(self) -> dict[str, list[list[Any]]]:
        """Return of every table the names of its columns, and its rows in the order of their keys."""
        found: dict[str, list[list[Any]]] = {}
        with self.database.read() as conn:
            for name, table in tables.METADATA.tables.items():
                rows = conn.execute(sa.select(table).order_by(*table.primary_key.columns))
                found[name] = [list(table.c.keys()), *(list(map(_held, table.c, row)) for row in rows)]
        return found

    def answers(self) -> dict[str, Any]:
        """Return what the records say, with handles for messages."""
        ask = self.records
        names = ask.threads()
        said = {m.id: m for key in self.keys for m in ask.snapshot(key) or []}
        snapshots = [ask.snapshot(key) for key in self.keys]
        return {
            "checkpoints": list(map(told, self.saver.list({"configurable": {"thread_id": "saved"}}))),
            "messages": {handle(message): _plain(dumps(message)) for message in said.values()},
            "threads": names,
            "history": {name: [asdict(row) for row in ask.history(name)] for name in names},
            "snapshot": [
                [asdict(key), None if found is None else _handles(found)]
                for key, found in zip(self.keys, snapshots, strict=True)
            ],
            "summary": [
                [asdict(key), wanted, None if found is None else asdict(found)]
                for key in self.keys
                for wanted in (SUMMARY.input_digest, "cd" * 16, "ef" * 16)
                for found in [ask.find_summary(key, input_digest=wanted)]
            ],
            "recall": [
                [name, digest(message), None if found is None else handle(found)]
                for name in names
                for message in said.values()
                for found in [ask.recall(name, handle(message))]
                if found is not None or message.id in {"m0", "m149"}
            ],
            "transcript": [
                [name, space, _handles(view), head, _handles(ask.transcript(name, space, view, head=head))]
                for name, space, view, head in self.views
            ],
        }


def _handles(messages: list[BaseMessage]) -> str:
    return " ".join(map(handle, messages))


def _held(column: sa.Column[Any], value: Any) -> Any:
    """Return a value as it stands in its column, whatever the database."""
    return _plain(ident(value) if isinstance(column.type, Ident) and value is not None else value)


def _plain(value: Any) -> Any:
    return {"base64": b64encode(value).decode()} if isinstance(value, bytes) else value


def main() -> None:
    """Do the work on each database and write the file."""
    made: dict[str, list[str]] = {}
    kept: list[tuple[dict[str, list[list[Any]]], dict[str, Any]]] = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        urls = {"sqlite": f"sqlite:///{folder}/old.db"}
        urls |= {kind: stack.enter_context(server_database(kind)) for kind in SERVERS}
        for kind, url in urls.items():
            database = stack.enter_context(Database.open(url))
            said = made.setdefault(kind, [])

            def note(_conn: Any, _cursor: Any, text: str, *_: Any, said: list[str] = said) -> None:
                if text.lstrip().startswith("CREATE"):
                    said.append(" ".join(text.split()))

            sa.event.listen(database.engine, "before_cursor_execute", note)
            database.setup()
            work = Work(database)
            work.do()
            kept.append((work.rows(), work.answers()))
    if kept.count(kept[0]) != len(kept):
        raise SystemExit("the databases disagree")
    rows, answers = kept[0]
    parts = [f'"{kind}": {_lines(statements)}' for kind, statements in made.items()]
    parts += [f'"rows": {{{",".join(f"{chr(10)}{json.dumps(n)}: {_lines(found)}" for n, found in rows.items())}}}']
    parts += [f'"answers": {json.dumps(answers)}']
    (FOLDER / f"version_{schema.VERSION}.json").write_text("{" + ",\n".join(parts) + "}\n")


def _lines(items: list[Any]) -> str:
    return "[" + ",\n".join(map(json.dumps, items)) + "]"


if __name__ == "__main__":
    main()
