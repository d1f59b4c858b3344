from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot as DeltaSnapshot
from langgraph.types import Overwrite, Send

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.db.thread_row import Thread
from langgraph_compaction.checkpoint.errors import RowError
from langgraph_compaction.checkpoint.messages.decode import ValueDecoder, references, run_blob_numbers
from langgraph_compaction.checkpoint.messages.encode import ValueEncoder
from langgraph_compaction.checkpoint.messages.message_store import (
    MessageStore,
)
from langgraph_compaction.checkpoint.messages.strict_serde import StrictSerializer
from langgraph_compaction.checkpoint.messages.write_cache import WriteCache
from tests.checkpoint.samples import EVERY_KIND, talk

STORE, SERDE, MEMO = MessageStore(), StrictSerializer(), WriteCache(8)
BARE = HumanMessage("no id yet")
VALUES: dict[str, Any] = {
    "plain": {"a": [1, None, "x"], 3: b"\x00"},
    "large": "x" * 100_000,
    "nothing": [],
    "messages": list(EVERY_KIND.values()),
    "one message": talk(1)[0],
    "without an id": BARE,
    "some without an id": [*talk(2), BARE, *talk(2, start=2), BARE],
    "mixed": [1, *talk(2), "between", None, *talk(1), [1, 2], {"a": 1}],
    "nested": {"a": {"b": [talk(2), [talk(3)], []]}, "c": [[talk(2)[0]]]},
    "lists in a list": [talk(2), talk(1), [], talk(3)],
    "a list and its own messages": [*talk(2), talk(2)],
    "send": [Send("node", {"messages": talk(2), "n": 1}), Send("other", talk(1)[0])],
    "send with a timeout": [
        Send("node", talk(1)[0], timeout=2.5),
        Send("node", {"n": 1}, timeout=timedelta(minutes=1)),
    ],
    "overwrite": Overwrite(talk(3)),
    "delta": DeltaSnapshot(talk(3)),
    "keys that are no text": {1: talk(2)},
    "in a tuple": [talk(1), [talk(1)[0], 2]],
}


def stored(conn: sa.Connection, thread: Thread, value: Any) -> Any:
    """Store a value and return its node."""
    plan = ValueEncoder(SERDE, MEMO, thread.thread_id)
    planned = plan.plan(value)
    node = plan.write(conn, thread, STORE, planned)
    STORE.threads.save(conn, thread)
    plan.remember_committed(thread.generation_key)
    return node


def reading(conn: sa.Connection, thread: Thread, *nodes: Any) -> ValueDecoder:
    """Return what builds the values of nodes."""
    made = ValueDecoder(conn, thread, STORE, SERDE)
    made.expect("row", nodes)
    made.fetch()
    return made


@pytest.fixture
def there_and_back(thread_id: str) -> Any:
    """Return a function that stores a value in memory and reads it."""

    def go(value: Any) -> Any:
        with Database.open() as database:
            database.setup()
            with database.write() as conn:
                thread = STORE.thread(conn, thread_id)
                node = stored(conn, thread, value)
                return reading(conn, thread, node).build(node, "row")

    return go


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back(there_and_back: Callable[[Any], Any], name: str) -> None:
    """Whatever stands around messages, and wherever they stand, a value comes back equal."""
    found = there_and_back(VALUES[name])
    assert found == VALUES[name]
    assert repr(found) == repr(VALUES[name])


def test_a_tuple_comes_back_as_a_list(there_and_back: Callable[[Any], Any]) -> None:
    """As with every LangGraph checkpointer."""
    assert there_and_back((talk(2), (1, talk(1)[0]))) == [talk(2), [1, talk(1)[0]]]


def test_messages_are_stored_once_wherever_they_stand(database: Database, thread_id: str) -> None:
    """The same message in lists, in a Send, alone and with its id to come takes one row."""
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        messages: list[BaseMessage] = talk(3)
        for value in (messages, [*messages, "x"], {"a": messages[1]}, Send("n", {"m": messages}), messages[::-1]):
            stored(conn, thread, value)
        assert thread.next_seq == 3
        node = stored(conn, thread, [BARE])
        named = BARE.model_copy(update={"id": "given"})
        stored(conn, thread, [named])
        assert thread.next_seq == 4
        assert reading(conn, thread, node).build(node, "row") == [BARE]


@pytest.mark.parametrize(("length", "blobs"), [(256, 0), (257, 1)])
def test_a_value_of_up_to_256_bytes_stands_in_the_checkpoint(
    database: Database, thread_id: str, length: int, blobs: int
) -> None:
    """A longer one takes a row of its own, which checkpoints share."""
    value = "x" * (length - len(SERDE.dumps_typed("x" * 200)[1]) + 200)
    assert len(SERDE.dumps_typed(value)[1]) == length
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        node = stored(conn, thread, value)
        rows = sa.select(sa.func.count()).select_from(tables.blob).where(tables.blob.c.thread == thread.id)
        assert conn.execute(rows).scalar_one() == blobs
        assert reading(conn, thread, node).build(node, "row") == value


def test_a_list_in_very_many_runs_shares_all_but_its_end(database: Database, thread_id: str) -> None:
    """Each list of a growing one that is in 1,000 runs costs a few hundred bytes, and is what it was."""
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        messages = talk(2000)
        stored(conn, thread, messages)
        broken = messages[::2]
        nodes = [stored(conn, thread, broken[:length]) for length in range(900, 1000, 10)]
        blobs = sa.select(sa.func.count()).select_from(tables.blob).where(tables.blob.c.thread == thread.id)
        assert conn.execute(blobs).scalar_one() == len(run_blob_numbers(nodes)) == 999 // 64 - 1
        read = reading(conn, thread, *nodes)
        for length, node in zip(range(900, 1000, 10), nodes, strict=True):
            assert len(str(node)) < 1500
            assert read.build(node, "row") == broken[:length]
            assert read.runs(node, "row") == tuple((seq, 1) for seq in range(0, 2 * length, 2))


def test_what_a_value_holds_is_known_without_building_it(database: Database, thread_id: str) -> None:
    """Pruning sees every message and blob that a node stands for, in whatever it is nested."""
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        value = {
            "a": [talk(3), "x" * 1000],
            "b": Send("n", {"m": talk(2, start=5)}),
            "c": Overwrite([talk(1, start=9)]),
        }
        runs, numbers = references([stored(conn, thread, value)], {})
        assert sum(length for one in runs for _, length in one) == thread.next_seq == 6
        assert numbers == {0}


def test_what_was_committed_since_the_planning_is_not_looked_for(database: Database, thread_id: str) -> None:
    """A put that was planned before its task's write was committed takes over the numbers, of what is unchanged."""
    same, changed = talk(2)
    plan = ValueEncoder(SERDE, MEMO, thread_id)
    planned = plan.plan([same, changed])
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        stored(conn, thread, [same, changed])
        changed.content = "changed"
        for seq in range(2):  # a look-up finds nothing
            mine = sa.and_(tables.message.c.thread == thread.id, tables.message.c.seq == seq)
            conn.execute(sa.update(tables.message).where(mine).values(hash=bytes([seq]) * 16))
        thread.added.clear()
        node = plan.write(conn, thread, STORE, planned)
        assert thread.next_seq == 3
        assert reading(conn, thread, node).build(node, "row") == talk(2)


@pytest.mark.parametrize("length", [3, 40])
def test_after_a_pruning_nothing_is_taken_for_stored(database: Database, thread_id: str, length: int) -> None:
    """Messages that are known from before rows were removed are stored anew."""
    messages = talk(length)
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        stored(conn, thread, messages)
        for table in (tables.message, tables.hash_):
            conn.execute(sa.delete(table).where(table.c.thread == thread.id))
        thread.note_deleted_messages()
        node = stored(conn, thread, messages)
        assert reading(conn, thread, node).build(node, "row") == messages


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("grows", [False, True])
def test_a_list_that_changes_while_it_waits_to_be_written_misleads_nobody(
    database: Database, thread_id: str, pruned: bool, grows: bool
) -> None:
    """What was planned is written, or after a pruning what the list holds by then; the next list is whole."""
    messages = talk(45)
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        stored(conn, thread, messages[:40])
        if pruned:
            for table in (tables.message, tables.hash_):
                conn.execute(sa.delete(table).where(table.c.thread == thread.id))
            thread.note_deleted_messages()
        plan = ValueEncoder(SERDE, MEMO, thread_id)
        waiting = messages[:41]
        planned = plan.plan(waiting)
        waiting[20:] = messages[20:] if grows else []
        node = plan.write(conn, thread, STORE, planned)
        plan.remember_committed(thread.generation_key)
        written = [*messages[:20], messages[40]] if pruned and not grows else messages[:41]
        assert reading(conn, thread, node).build(node, "row") == written
        node = stored(conn, thread, messages)
        assert reading(conn, thread, node).build(node, "row") == messages


@pytest.mark.parametrize("node", [[], [99, 1], [0, "msgpack"], [7, 5, 5], ["x"], 5, None, {}], ids=str)
def test_a_node_of_no_known_form_names_the_row(database: Database, thread_id: str, node: Any) -> None:
    """Damage within a row is an error with the row's name, and no other one."""
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        with pytest.raises(RowError, match="row is damaged"):
            reading(conn, thread, node).build(node, "row")
