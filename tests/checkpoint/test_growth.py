import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import shake_256
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import Outcome
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.messages.sequence_runs import (
    runs_of,
)
from tests.checkpoint.contract.steps import Steps
from tests.checkpoint.listening import listening, statements
from tests.checkpoint.samples import key_of, opening, talk


def long_talk(count: int) -> list[BaseMessage]:
    """Return messages of about a thousand characters that no compression makes smaller than half of that."""
    noise = (shake_256(f"{number}".encode()).hexdigest(500) for number in range(count))
    return [message.model_copy(update={"content": said}) for message, said in zip(talk(count), noise, strict=True)]


def row_bytes(database: Database, table: sa.Table, compaction_id: str) -> int:
    """Return the bytes of the values in one row: of texts and runs their length, of numbers eight."""
    with database.read() as conn:
        row = conn.execute(sa.select(table).where(table.c.compaction_id == compaction_id)).one()
    return sum(len(value) if isinstance(value, bytes | str) else 8 for value in row)


def body_bytes(database: Database, thread_id: str) -> int:
    """Return the bytes of all messages of a thread as they are stored, one to a row and many to a row."""
    size = 0
    for table in (tables.message, tables.block):
        query = sa.select(sa.func.coalesce(sa.func.sum(sa.func.length(table.c.body)), 0))
        query = query.join_from(table, tables.thread, tables.thread.c.id == table.c.thread)
        with database.read() as conn:
            size += int(conn.execute(query.where(tables.thread.c.thread_id == thread_id)).scalar_one())
    return size


@contextmanager
def bodies_written(database: Database) -> Iterator[list[tuple[str, int]]]:
    """Collect (statement and table, rows) of what changes rows with messages in them."""
    written: list[tuple[str, int]] = []

    def collect(
        _conn: object, _cursor: object, text: str, values: list[object], _context: object, many: bool
    ) -> None:
        text = text.replace("INSERT IGNORE", "INSERT")
        if found := re.match(r"(INSERT INTO|UPDATE|DELETE FROM) compaction_(message|block)\b", text):
            written.append((found[0], len(values) if many else 1))

    with listening(database.engine, "before_cursor_execute", collect):
        yield written


@pytest.mark.parametrize("count", [10, 4000])
def test_a_snapshot_costs_the_same_at_any_length(database: Database, thread_id: str, count: int) -> None:
    """The snapshot row of 10 messages and that of 4,000 are both under 50 bytes, the ledger row under 350."""
    records = CompactionRecords(database)
    key = key_of(thread_id, talk(count))
    records.begin(key, talk(count), now=1.0, **opening())
    assert row_bytes(database, tables.snapshot, key.compaction_id) <= 50
    assert row_bytes(database, tables.ledger, key.compaction_id) <= 350


def test_beginning_on_a_long_thread_rewrites_no_message(database: Database, thread_id: str) -> None:
    """With 4,000 messages stored, an attempt on them and one more writes that one and no other body."""
    records = CompactionRecords(database)
    batch = long_talk(4000)
    records.begin(key_of(thread_id, batch), batch, now=1.0, **opening())
    before = body_bytes(database, thread_id)
    assert before > 2_000_000
    batch.append(HumanMessage("one more", id="more"))
    with bodies_written(database) as written:
        records.begin(key_of(thread_id, batch), batch, now=1.0, **opening())
    assert written == [("INSERT INTO compaction_message", 1)]
    assert 0 < body_bytes(database, thread_id) - before < 400


def test_a_checkpoint_takes_few_bytes(database: Database, thread_id: str) -> None:
    """A checkpoint and a pending write of a long thread have bodies of fewer than 100 and 50 bytes on average."""
    saver, steps, count = SQLAlchemySaver(database), Steps(SQLAlchemySaver(database), thread_id), 100
    for number in range(count):
        head = steps.put({"messages": talk(number + 1)})
        saver.put_writes(head, [("messages", talk(1, start=number + 1))], f"task {number}")
    [found] = saver.stats(thread_id)
    assert (found.checkpoints, found.writes) == (count, count)
    assert found.checkpoint_bytes < 100 * count
    assert found.write_bytes < 50 * count


@pytest.mark.parametrize("length", [1, 200])
def test_what_a_task_wrote_is_not_looked_for_again(database: Database, thread_id: str, length: int) -> None:
    """The put after a task's write changes the thread's row and its checkpoints and asks for no message."""
    saver, said = SQLAlchemySaver(database), talk(length)
    head = Steps(saver, thread_id).put({"messages": said})
    saver.put_writes(head, [("messages", (more := talk(1, start=length)))], "task")
    with statements(database) as texts:
        Steps(saver, thread_id).put({"messages": [*said, *more]}, on=head)
    assert [text for text in texts if re.search(r"compaction_(hash|message|block|blob)\b", text)] == []
    assert any("compaction_checkpoint" in text for text in texts)


def test_a_message_is_packed_once(database: Database, thread_id: str) -> None:
    """Of a conversation that grows one by one every message is written once, and once more in a pack of 96."""
    store = CompactionRecords(database).store
    with bodies_written(database) as written, database.write() as conn:
        thread = store.thread(conn, thread_id)
        for count in range(1, 481):
            store.put(conn, thread, talk(1, start=count))
    counts = Counter(said for said, _ in written)
    packed = 480 // 96 - 1
    assert counts == {
        "INSERT INTO compaction_message": 480,
        "INSERT INTO compaction_block": packed,
        "DELETE FROM compaction_message": packed,
    }


def test_a_commit_and_a_rollback_cost_a_few_hundred_bytes(database: Database, thread_id: str) -> None:
    """Archiving 3,900 of 4,000 messages, and closing an attempt on them as failed, copy no message."""
    records = CompactionRecords(database)
    key = key_of(thread_id, talk(4000))
    records.begin(key, talk(4000), now=1.0, **opening())
    before = body_bytes(database, thread_id)
    records.close(key, Outcome(verdict="rejected_empty", now=2.0, reason="empty_summary"))
    assert records.snapshot(key) == talk(4000)
    records.commit(key, Outcome(verdict="committed", now=3.0), archived=talk(3900))
    assert body_bytes(database, thread_id) == before
    assert row_bytes(database, tables.archive, key.compaction_id) <= 50
    assert row_bytes(database, tables.ledger, key.compaction_id) <= 400


def test_runs_stay_few_over_a_life_of_compactions(database: Database, thread_id: str) -> None:
    """A view that grows, loses its old part to a summary and grows again is at most 4 runs at any time."""
    records = CompactionRecords(database)
    view: list[BaseMessage] = talk(1)
    sizes: list[int] = []
    for turn in range(100):
        view += talk(8, start=1 + 8 * turn)
        with database.write() as conn:
            sizes.append(len(records.store.put(conn, records.store.thread(conn, thread_id), view)))
        if turn % 5 == 4:
            view = [view[0], HumanMessage(f"summary {turn}", id=f"s{turn}"), *view[-6:]]
    assert max(sizes) <= 4
    assert len(runs_of(range(4000))) == 1


def test_the_newest_checkpoints_are_found_and_read_in_one_transaction(database: Database, thread_id: str) -> None:
    """Who shows the end of a history waits for the database once, and then once a page."""
    saver = SQLAlchemySaver(database)
    steps = Steps(saver, thread_id)
    for number in range(40):
        steps.put({"messages": talk(number)})
    begun: list[sa.Connection] = []
    with listening(database.engine, "begin", begun.append):
        assert len(list(saver.list(steps.start, limit=20))) == 20
        assert len(begun) == 1
        assert len(list(saver.list(steps.start))) == 40
    assert len(begun) == 3
    assert len(list(saver.list(steps.start, limit=2**40))) == 40


def test_many_bodies_are_read_as_the_bytes_they_are(database: Database, thread_id: str) -> None:
    """PostgreSQL sends two digits for each byte unless it is asked not to."""
    store = CompactionRecords(database).store
    with database.write() as conn:
        runs = store.put(conn, store.thread(conn, thread_id), talk(480))
    formats: Counter[Any] = Counter()

    def note(_conn: object, cursor: object, text: str, *_: object) -> None:
        if found := re.match(r"SELECT compaction_(block|message)\b", text):
            formats[found[1], getattr(cursor, "format", None)] += 1

    with listening(database.engine, "after_cursor_execute", note), database.read() as conn:
        thread = store.find(conn, thread_id, lock=False)
        assert thread is not None
        assert store.get(conn, thread, runs) == talk(480)
    expected = 1 if database.engine.dialect.driver == "psycopg" else None
    assert formats == {("block", expected): 1, ("message", expected): 1}
