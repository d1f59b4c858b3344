"""What is written and stored grows with what is new, not with the length of a conversation."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import shake_256

import pytest
import sqlalchemy as sa
from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import Outcome
from langgraph_compaction.checkpoint.db import tables
from tests.checkpoint.contract.steps import Steps, values_of, where
from tests.checkpoint.listening import listening
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


@contextmanager
def bodies_written(database: Database) -> Iterator[list[int]]:
    """Collect the numbers of rows with messages or values in them that are written."""
    written: list[int] = []

    def collect(
        _conn: object, _cursor: object, text: str, values: list[object], _context: object, many: bool
    ) -> None:
        if re.search(r"INSERT (IGNORE )?INTO compaction_item\b", text):
            written.append(len(values) if many else 1)

    with listening(database.engine, "before_cursor_execute", collect):
        yield written


@pytest.mark.parametrize("count", [10, 4000])
def test_a_compaction_costs_the_same_at_any_length(database: Database, thread_id: str, count: int) -> None:
    """Its rows have a few hundred bytes, and begin, rollback and commit write no message that is there."""
    records, batch = CompactionRecords(database), long_talk(count)
    steps = Steps(SQLAlchemySaver(database), thread_id)
    for _ in range(2):  # the second put packs old messages, if one statement has written the first
        steps.put({"messages": batch})
    key = key_of(thread_id, batch)
    with bodies_written(database) as written:
        records.begin(key, batch, now=1.0, **opening())
        records.close(key, Outcome(verdict="rejected_empty", now=2.0, reason="empty_summary"))
        records.commit(key, Outcome(verdict="committed", now=3.0), archived=batch[:-5])
        assert written == []
        more = [*batch, HumanMessage("one more", id="more")]
        records.begin(key_of(thread_id, more), more, now=1.0, **opening())
        assert written == [1]
    sizes = {table: row_bytes(database, table, key.compaction_id) for table in (tables.snapshot, tables.archive)}
    assert max(sizes.values()) <= 50
    assert row_bytes(database, tables.ledger, key.compaction_id) <= 400


def test_a_checkpoint_takes_few_bytes(database: Database, thread_id: str) -> None:
    """A checkpoint and a pending write of a long thread have bodies of fewer than 100 and 50 bytes on average."""
    saver, steps, count = SQLAlchemySaver(database), Steps(SQLAlchemySaver(database), thread_id), 100
    for number in range(count):
        head = steps.put({"messages": talk(number + 1), "text": "x" * 999})
        saver.put_writes(head, [("messages", talk(1, start=number + 1))], f"task {number}")
    [found] = saver.stats(thread_id)
    assert (found.checkpoints, found.writes, found.messages) == (count, count, count + 1)
    assert found.checkpoint_bytes < 100 * count
    assert found.write_bytes < 50 * count
    assert found.value_bytes < 100  # a value that stays is not stored again


def test_a_message_is_written_twice_at_most(database: Database, thread_id: str) -> None:
    """Of a conversation that grows one by one every message is written once, and once more in a pack of many."""
    steps = Steps(SQLAlchemySaver(database), thread_id)
    with bodies_written(database) as written:
        for count in range(1, 301):
            steps.put({"messages": talk(1, start=count)})
    assert 300 < sum(written) < 310


def test_messages_that_are_stored_already_are_found(shared_url: str, thread_id: str) -> None:
    """In rows of their own and in packs, by a saver that has not seen them."""
    with SQLAlchemySaver.from_url(shared_url) as saver, SQLAlchemySaver.from_url(shared_url) as other:
        head = Steps(other, thread_id).put({"messages": talk(400)})
        mine = Steps(saver, thread_id)
        for start in (0, 399, 3):
            head = mine.put({"messages": talk(1, start=start)}, on=head)
        assert saver.stats(thread_id)[0].messages == 400
        assert values_of(other, where(thread_id))["messages"] == talk(1, start=3)
