from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, StrEnum

import pytest
import sqlalchemy as sa
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.db.row_codec import RowCodec
from langgraph_compaction.checkpoint.db.statements import insert_if_absent
from langgraph_compaction.checkpoint.db.thread_row import Thread
from langgraph_compaction.checkpoint.errors import MessageError, RowError
from langgraph_compaction.checkpoint.messages.message_codec import (
    dumps,
    fingerprint,
)
from langgraph_compaction.checkpoint.messages.message_store import (
    MessageStore,
    prepare,
)
from langgraph_compaction.checkpoint.messages.sequence_runs import (
    Runs,
)
from tests.checkpoint.listening import listening
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

    with listening(database.engine, "before_cursor_execute", collect):
        yield sent


def test_messages_of_every_kind_come_back(database: Database, thread_id: str) -> None:
    """What is put is got, byte for byte and in order, whatever its class and content."""
    batch = list(EVERY_KIND.values())
    found = get(database, thread_id, put(database, thread_id, batch))
    assert found == batch
    assert [fingerprint(message) for message in found] == [fingerprint(message) for message in batch]


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
        assert thread is not None
        rows = sa.select(sa.func.count()).select_from(tables.message).where(messages.thread == thread.id)
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
    """A thousand messages, half of them new, are two look-ups, an insert of many rows, and one packing."""
    put(database, thread_id, talk(500))
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        with statements(database) as sent:
            STORE.put(conn, thread, talk(1000))
    insert = [("INSERT", True)]
    packing = [("SELECT", False), *insert, ("INSERT", False), ("DELETE", False)]
    assert sent == [("SELECT", False)] * 2 + insert + packing + [("UPDATE", False)]


@pytest.mark.parametrize("there", [1, 300], ids=["loose", "packed"])
def test_a_new_message_is_one_statement(database: Database, thread_id: str, there: int) -> None:
    """While no message lacks an id, inserting one tells whether it is there, in a row of its own or in a pack."""
    put(database, thread_id, talk(there))
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        with statements(database) as sent:
            assert STORE.put(conn, thread, talk(1, start=there)) == ((there, 1),)
        assert sent == [("INSERT", False), ("UPDATE", False)]
        for known in (0, there - 1, there):
            thread.added.clear()
            with statements(database) as sent:
                assert STORE.put(conn, thread, talk(1, start=known)) == ((known, 1),)
            assert sent == [("INSERT", False), ("SELECT", False)]


def test_a_message_that_gains_an_id_keeps_its_row(database: Database, thread_id: str) -> None:
    """Who was stored without an id is looked for as long as there may be one, and has one row with its id."""
    named = talk(1)[0]
    nameless = named.model_copy(update={"id": None})
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        assert STORE.add(conn, thread, [prepare(nameless), prepare(talk(2)[1])]) == [0, 1]
        assert thread.nameless == 1
        STORE.threads.save(conn, thread)
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        assert thread.nameless == 1
        with statements(database) as sent:
            assert STORE.put(conn, thread, [named]) == ((0, 1),)
        assert sent == [("SELECT", False)] * 2 + [("UPDATE", False)] * 2
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        assert thread.nameless == 0
        assert STORE.put(conn, thread, [named]) == ((0, 1),)
    assert get(database, thread_id, ((0, 2),)) == talk(2)


def test_what_cannot_be_read_again_is_refused_also_beside_nameless_messages(
    database: Database, thread_id: str
) -> None:
    """The error is about the message, whatever else the thread holds."""

    class Shade(StrEnum):
        RED = "red"

    odd = HumanMessage("x", id="b", additional_kwargs={"shade": Shade.RED})
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        STORE.add(conn, thread, [prepare(HumanMessage("without an id"))])
        with pytest.raises(MessageError, match=r"could be written but not read again"):
            STORE.put(conn, thread, [odd])


def test_a_counter_that_is_behind_is_an_error(database: Database, thread_id: str) -> None:
    """A new message never has the number of another one."""
    put(database, thread_id, talk(3))
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        thread.next_seq = 1
        with pytest.raises(RowError, match=r"message 1 of thread .* exists, but the thread's row counts"):
            STORE.put(conn, thread, [talk(9)[8]])


def test_a_put_of_what_is_there_writes_nothing(database: Database, thread_id: str) -> None:
    """Messages that are stored already are looked up and not written."""
    put(database, thread_id, talk(50))
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        with statements(database) as sent:
            STORE.put(conn, thread, talk(50))
    assert sent == [("SELECT", False)]


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
        key = STORE.thread(conn, thread_id).id
        found = STORE.find(conn, thread_id)
        assert found is not None
        assert STORE.thread(conn, thread_id).id == found.id == key


def test_making_a_thread_that_another_made_meanwhile_resets_nothing(database: Database, thread_id: str) -> None:
    """Whoever loses the race to create a thread leaves the winner's row, and the numbers it gave out, alone."""
    put(database, thread_id, talk(3))
    with database.write() as conn:
        counters = dict.fromkeys(("next_seq", "next_blob", "next_checkpoint", "packed", "nameless", "updated_at"), 0)
        late = {"thread_id": thread_id, "generation": 9, **counters}
        insert_if_absent(conn, tables.thread, late)
        columns = tables.thread.c
        row = sa.select(columns.next_seq, columns.generation).where(columns.thread_id == thread_id)
        assert conn.execute(row).one() == (3, 0)


def test_a_put_into_no_thread_is_an_error(database: Database, thread_id: str) -> None:
    """Messages are only put into a thread that is there, and nothing is left of what was not."""
    gone = Thread(999_999_999, thread_id, 0, 0, 0, 0, 0, 0, None, None, 0.0, RowCodec(999_999_999))
    with pytest.raises(RowError, match=f"thread '{thread_id}' is missing"), database.write() as conn:
        STORE.put(conn, gone, talk(1))
    with database.read() as conn:
        assert conn.execute(sa.select(messages.seq).where(messages.thread == gone.id)).first() is None


BODY = dumps(HumanMessage("swapped", id="m1"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda _seal: {"body": BODY}, "damaged"),
        (lambda codec: {"body": codec.encode("message 1", BODY)[:-1]}, "damaged"),
        (lambda _seal: {"body": b""}, "damaged"),
        (lambda codec: {"body": codec.encode("message 2", BODY)}, "damaged"),
        (lambda codec: {"body": RowCodec(codec.thread + 1).encode("message 1", BODY)}, "damaged"),
        (lambda codec: {"body": codec.encode("message 1", b"\x93\1\2\3")}, "holds no message"),
        (lambda _seal: {"seq": 77}, "missing"),
    ],
    ids=["another body", "cut", "empty", "another row's", "another thread's", "no message", "gone"],
)
def test_a_row_that_was_changed_is_named(
    database: Database, thread_id: str, change: Callable[[RowCodec], dict[str, object]], text: str
) -> None:
    """A row whose bytes are not those that were stored, or that is gone, is an error naming thread and number."""
    runs = put(database, thread_id, talk(3))
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        ours = sa.and_(messages.thread == thread.id, messages.seq == 1)
        conn.execute(sa.update(tables.message).where(ours).values(change(thread.codec)))
    with pytest.raises(RowError, match=rf"message 1 of thread {thread.id} .*{text}"):
        get(database, thread_id, runs)


def test_a_hash_that_was_changed_harms_no_message(database: Database, thread_id: str) -> None:
    """Messages are read by their numbers; one that is no longer found by its hash is stored once more."""
    runs = put(database, thread_id, talk(3))
    with database.write() as conn:
        ours = sa.and_(messages.thread == STORE.thread(conn, thread_id).id, messages.seq == 1)
        conn.execute(sa.update(tables.message).where(ours).values(hash=b"\0" * 16))
    assert get(database, thread_id, runs) == talk(3)
    again = put(database, thread_id, talk(3))
    assert again == ((0, 1), (3, 1), (2, 1))
    assert get(database, thread_id, again) == talk(3)


def test_runs_that_claim_too_much_are_an_error_and_no_burden(database: Database, thread_id: str) -> None:
    """Runs over more rows than there are name the first missing one, however many they claim."""
    put(database, thread_id, talk(3))
    with pytest.raises(RowError, match="message 3 of thread"):
        get(database, thread_id, ((0, 2**62),))
