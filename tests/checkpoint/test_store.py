from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

import pytest
import sqlalchemy as sa
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint import (
    Database,
    MessageError,
    MessageStore,
    RowError,
    Runs,
    digest,
    dumps,
    tables,
)
from langgraph_compaction.checkpoint.codec import content_hash
from langgraph_compaction.checkpoint.statements import insert_if_absent
from tests.checkpoint.samples import EVERY_KIND, talk

STORE = MessageStore()
messages = tables.message.c


def put(database: Database, thread_id: str, batch: list[BaseMessage]) -> Runs:
    """Store messages in a transaction of their own."""
    with database.write() as conn:
        return STORE.put(conn, STORE.thread(conn, thread_id), batch)


def get(database: Database, thread_id: str, runs: Runs) -> list[BaseMessage]:
    """Read messages in a transaction of their own."""
    with database.read() as conn:
        thread = STORE.find(conn, thread_id, lock=False)
        assert thread is not None
        return STORE.get(conn, thread, runs)


@contextmanager
def statements(database: Database) -> Iterator[list[tuple[str, bool]]]:
    """Collect (first word, executemany) of what is sent to the database."""
    sent: list[tuple[str, bool]] = []

    def collect(_conn: object, _cursor: object, text: str, _values: object, _context: object, many: bool) -> None:
        sent.append((text.split(maxsplit=1)[0], many))

    sa.event.listen(database.engine, "before_cursor_execute", collect)
    try:
        yield sent
    finally:
        sa.event.remove(database.engine, "before_cursor_execute", collect)


@pytest.mark.requirement("S0.20")
def test_messages_of_every_kind_come_back(database: Database, thread_id: str) -> None:
    """What is put is got, byte for byte and in order, whatever its class and content."""
    batch = list(EVERY_KIND.values())
    found = get(database, thread_id, put(database, thread_id, batch))
    assert found == batch
    assert [digest(message) for message in found] == [digest(message) for message in batch]


def test_order_and_repetitions_are_kept(database: Database, thread_id: str) -> None:
    """A list is got as it was put, its repetitions too, though each message is stored once."""
    one, two, three = talk(3)
    batch = [three, one, one, two, three]
    assert get(database, thread_id, put(database, thread_id, batch)) == batch
    assert put(database, thread_id, [one, two, three]) == ((1, 2), (0, 1))


def test_a_message_is_stored_once_per_thread(database: Database, thread_id: str) -> None:
    """A longer list adds what is new; the same list adds nothing; another thread has its own rows."""
    assert put(database, thread_id, talk(10)) == ((0, 10),)
    assert put(database, thread_id, talk(12)) == ((0, 12),)
    assert put(database, thread_id, talk(12)) == ((0, 12),)
    assert put(database, f"{thread_id}-other", talk(2)) == ((0, 2),)
    with database.read() as conn:
        thread = STORE.find(conn, thread_id, lock=False)
        rows = sa.select(sa.func.count()).select_from(tables.message).where(messages.thread == thread)
        assert conn.execute(rows).scalar() == 12


def test_the_same_id_with_other_content_is_another_message(database: Database, thread_id: str) -> None:
    """An edited message gets a number of its own, and the old form stays readable."""
    before, after = HumanMessage("before", id="1"), HumanMessage("after", id="1")
    runs = [put(database, thread_id, [message]) for message in (before, after)]
    assert [get(database, thread_id, run) for run in runs] == [[before], [after]]


def test_nothing_is_a_list_too(database: Database, thread_id: str) -> None:
    """An empty list takes no run and reads as an empty list."""
    assert put(database, thread_id, []) == ()
    assert get(database, thread_id, ()) == []


def test_long_and_broken_lists_come_back(database: Database, thread_id: str) -> None:
    """More messages than one look-up takes, in more runs than one query takes, keep their order."""
    batch = talk(1100)
    put(database, thread_id, batch)
    shuffled = batch[::-2] + batch[::2]
    runs = put(database, thread_id, shuffled)
    assert len(runs) > 1000
    assert get(database, thread_id, runs) == shuffled


def test_a_large_message_comes_back(database: Database, thread_id: str) -> None:
    """A message of 300,000 characters, larger than a plain MariaDB blob, is kept whole."""
    large: list[BaseMessage] = [HumanMessage("ü" * 300_000, id="1")]
    assert get(database, thread_id, put(database, thread_id, large)) == large


def test_a_put_costs_few_statements(database: Database, thread_id: str) -> None:
    """A thousand messages, half of them new, are two look-ups and one insert of many rows."""
    put(database, thread_id, talk(500))
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        with statements(database) as sent:
            STORE.put(conn, thread, talk(1000))
    assert sent == [("SELECT", False)] * 3 + [("INSERT", True), ("UPDATE", False)]


def test_a_put_of_what_is_there_writes_nothing(database: Database, thread_id: str) -> None:
    """Messages that are stored already are looked up and not written."""
    put(database, thread_id, talk(50))
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        with statements(database) as sent:
            STORE.put(conn, thread, talk(50))
    assert sent == [("SELECT", False)] * 2


@pytest.mark.parametrize("name", [None, ""])
def test_a_message_without_an_id_is_refused_before_anything_is_written(
    database: Database, thread_id: str, name: str | None
) -> None:
    """A missing id is an error that says which kind of message has none, and nothing of the list is stored."""
    with pytest.raises(MessageError, match="human message has no id"):
        put(database, thread_id, [*talk(3), HumanMessage("x", id=name)])
    assert put(database, thread_id, talk(1)) == ((0, 1),)


def test_a_message_that_could_not_be_read_is_refused_before_anything_is_written(
    database: Database, thread_id: str
) -> None:
    """A value that strict reading refuses is found when the message is stored, and nothing of the list is stored."""
    with pytest.raises(MessageError, match=r"'odd' holds .*E, which"):
        put(database, thread_id, [*talk(3), ToolMessage("x", id="odd", tool_call_id="1", artifact=Enum("E", "A").A)])
    assert put(database, thread_id, talk(1)) == ((0, 1),)


def test_a_thread_that_is_unknown_is_not_made_by_looking(database: Database, thread_id: str) -> None:
    """`find` returns None for a thread that nobody wrote to; `thread` makes it and returns the same key again."""
    with database.write() as conn:
        assert STORE.find(conn, thread_id) is None
        key = STORE.thread(conn, thread_id)
        assert STORE.thread(conn, thread_id) == STORE.find(conn, thread_id) == key


def test_making_a_thread_that_another_made_meanwhile_resets_nothing(database: Database, thread_id: str) -> None:
    """Whoever loses the race to create a thread leaves the winner's row, and the numbers it gave out, alone."""
    put(database, thread_id, talk(3))
    with database.write() as conn:
        late = {"thread_id": thread_id, "next_seq": 0, "generation": 9}
        insert_if_absent(conn, tables.thread, late)
        columns = tables.thread.c
        row = sa.select(columns.next_seq, columns.generation).where(columns.thread_id == thread_id)
        assert conn.execute(row).one() == (3, 0)


def test_a_put_into_no_thread_is_an_error(database: Database) -> None:
    """Numbers are only given out under the lock of a thread's row."""
    with database.write() as conn, pytest.raises(RowError, match="thread 999999999 is missing"):
        STORE.put(conn, 999_999_999, talk(1))


BAD_BODY = dumps(HumanMessage("swapped", id="m1"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"body": BAD_BODY}, "damaged"),
        ({"body": BAD_BODY[:-1]}, "damaged"),
        ({"body": b""}, "damaged"),
        ({"hash": b"\0" * 16}, "damaged"),
        ({"body": b"\x93\1\2\3", "hash": content_hash(b"\x93\1\2\3")}, "holds no message"),
        ({"seq": 77}, "missing"),
    ],
    ids=["another body", "cut", "empty", "another hash", "no message", "gone"],
)
def test_a_row_that_was_changed_is_named(
    database: Database, thread_id: str, change: dict[str, object], text: str
) -> None:
    """A row whose bytes are not those that were stored, or that is gone, is an error naming thread and number."""
    runs = put(database, thread_id, talk(3))
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        conn.execute(sa.update(tables.message).where(messages.thread == thread, messages.seq == 1).values(change))
    with pytest.raises(RowError, match=rf"message 1 of thread {thread} .*{text}"):
        get(database, thread_id, runs)


def test_runs_that_claim_too_much_are_an_error_and_no_burden(database: Database, thread_id: str) -> None:
    """Runs over more rows than there are name the first missing one, however many they claim."""
    put(database, thread_id, talk(3))
    with pytest.raises(RowError, match="message 3 of thread"):
        get(database, thread_id, ((0, 2**62),))
