from collections.abc import Callable, Generator
from contextvars import Context
from copy import deepcopy
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import ConflictError, Database, Keyring, SQLAlchemySaver
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.db.guarded_write import ReservedKeys
from langgraph_compaction.checkpoint.db.write_recorder import MAX_CHANGES, NotRecordableError, WriteRecorder
from langgraph_compaction.checkpoint.errors import ErasedThreadError, LeaseError
from tests.checkpoint.contract.steps import Steps, ids, read, values_of, where, writes_of
from tests.checkpoint.listening import statements
from tests.checkpoint.samples import Clock, talk

Change = Callable[[SQLAlchemySaver, str], Any]

CHANGES: dict[str, Change] = {
    "a put": lambda saver, thread_id: Steps(saver, thread_id).put({"messages": talk(2, start=9)}),
    "a message": lambda saver, thread_id: saver.put_writes(
        where(thread_id, "later"), [("messages", talk(1, start=20))], "task"
    ),
    "a large value": lambda saver, thread_id: Steps(saver, thread_id).put({"text": "x" * 999}),
    "the thread deleted": lambda saver, thread_id: saver.delete_thread(thread_id),
    "all pruned": lambda saver, thread_id: saver.prune([thread_id], strategy="delete"),
}
KEYS = {"plain": None, "encrypted": Keyring({"a": bytes(32)}, current="a")}


@pytest.fixture
def url(cleared_url: Callable[[str], str]) -> str:
    """Return the URL of a PostgreSQL database with tables."""
    return cleared_url("postgresql")


@pytest.fixture
def saver(url: str) -> Generator[SQLAlchemySaver]:
    """Return a saver that refuses forks."""
    with SQLAlchemySaver.from_url(url, on_conflict="raise") as opened:
        yield opened


@pytest.fixture
def other(url: str) -> Generator[SQLAlchemySaver]:
    """Return another process's saver."""
    with SQLAlchemySaver.from_url(url) as opened:
        yield opened


def counted(saver: SQLAlchemySaver, work: Callable[[], Any]) -> list[str]:
    """Return the first word of each statement that some work sends."""
    with statements(saver.database) as texts:
        work()
    return [text.split()[0] for text in texts]


def history(thread_id: str) -> tuple[RunnableConfig, Callable[[SQLAlchemySaver], list[str]]]:
    """Return a thread's config, and what a graph says in a turn of this thread."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    builder = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": AIMessage("fine")})
    builder.add_edge(START, "answer")

    def turn(saver: SQLAlchemySaver) -> list[str]:
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": HumanMessage("how?")}, config, durability="sync")
        return [message.text for message in graph.get_state(config).values["messages"]]

    return config, turn


def test_a_turn_of_a_graph_writes_by_single_statements(
    saver: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str
) -> None:
    """Messages that get their ids later, pending writes and checkpoints: at most five writes, and none is locked.

    Another process reads the same messages with the same ids, in this thread and in the one before.
    """
    config, turn = history(thread_id)
    earlier, turn_earlier = history(f"{thread_id}-earlier")
    turn_earlier(saver)
    turn(saver)
    words = counted(saver, lambda: turn(saver))
    assert 3 <= words.count("WITH") <= 5
    assert set(words) <= {"WITH", "SELECT"}
    assert turn(saver) == ["how?", "fine"] * 3
    for one in (earlier, config):
        assert (stored := values_of(other, one)["messages"]) == values_of(saver, one)["messages"]
        assert all(message.id for message in stored)


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_the_first_turn_of_a_thread_writes_by_single_statements(
    url: str, thread_id: str, keys: Keyring | None
) -> None:
    """The statement that inserts the row of the thread writes the first checkpoint, too."""
    config, turn = history(thread_id)
    with SQLAlchemySaver.from_url(url, keys=keys, on_conflict="raise") as saver:
        for other in ("first", "second"):  # checks the version of the tables, and reserves keys
            history(f"{other} {thread_id}")[1](saver)
        words = counted(saver, lambda: turn(saver))
        assert 3 <= words.count("WITH") <= 5
        assert set(words) <= {"WITH", "SELECT"}
        assert words.count("SELECT") == 2  # the state before the turn, and after it
    with SQLAlchemySaver.from_url(url, keys=keys) as other:
        assert turn(other) == ["how?", "fine"] * 2
        assert len(list(other.list(config))) == 6


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("name", ["a put", "a lease"])
def test_a_thread_that_another_process_has_created_is_not_created_again(
    url: str, thread_id: str, name: str, keys: Keyring | None
) -> None:
    """Although it was absent when this process read it; what the other process has stored stays."""
    with SQLAlchemySaver.from_url(url, keys=keys) as saver, SQLAlchemySaver.from_url(url, keys=keys) as other:
        assert saver.get_tuple(where(thread_id)) is None
        if name == "a put":
            Steps(other, thread_id).put({"messages": talk(2)})
            Steps(saver, thread_id).put({"messages": talk(3)})
        else:
            with Context().run(other.lease, thread_id), pytest.raises(LeaseError):
                Context().run(Steps(saver, thread_id).put, {"messages": talk(3)})
            Steps(saver, thread_id).put({"messages": talk(3)})
        found = [one.checkpoint["channel_values"]["messages"] for one in other.list(where(thread_id))]
        assert found == ([talk(3), talk(2)] if name == "a put" else [talk(3)])


def test_an_error_in_the_first_write_creates_no_thread(saver: SQLAlchemySaver, thread_id: str) -> None:
    """A put that names a checkpoint which does not exist is refused, and no row is left."""
    saver.put(where(thread_id), empty_checkpoint(), {"source": "input", "step": -1}, {})
    named = read(saver, where(thread_id)).config
    saver.delete_thread(thread_id)
    assert saver.get_tuple(where(thread_id)) is None
    with pytest.raises(ErasedThreadError):
        saver.put(named, empty_checkpoint(), {"source": "loop", "step": 1}, {})
    assert thread_id not in saver.threads()


def test_a_reserved_key_is_given_out_once(saver: SQLAlchemySaver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a process has forked since it reserved keys."""

    def taken(reserved: ReservedKeys) -> list[int]:
        return [reserved.take(saver.database.single_statements) for _ in range(40)]

    parent = ReservedKeys()
    found = taken(parent)
    child = deepcopy(parent)
    found += taken(parent)
    monkeypatch.setattr("os.getpid", lambda: 1)
    found += taken(child)
    assert len({*found}) == 120


def test_a_value_that_stays_is_not_stored_again(saver: SQLAlchemySaver, thread_id: str) -> None:
    """A large value is written with the put in which it is new, also by single statements."""
    steps = Steps(saver, thread_id)
    steps.put({"text": "a" * 999, "count": 1})
    assert counted(saver, lambda: steps.put({"count": 2})) == ["WITH"]
    assert counted(saver, lambda: steps.put({"text": "b" * 999})) == ["WITH"]
    assert [one.checkpoint["channel_values"]["text"][0] for one in saver.list(steps.start)] == ["b", "a", "a"]
    assert saver.stats(thread_id)[0].blob_bytes < 200


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("own", [True, False], ids=["by this saver", "by another"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_row_that_changed_is_read_again(
    url: str, thread_id: str, name: str, own: bool, keys: Keyring | None
) -> None:
    """Whoever changed it: numbers that were given out are not given again."""
    with SQLAlchemySaver.from_url(url, keys=keys) as saver, SQLAlchemySaver.from_url(url, keys=keys) as other:
        before = Steps(saver, thread_id)
        before.put({"messages": talk(1), "text": "y" * 999})
        before.put({"messages": talk(2)})
        by = saver if own else other
        CHANGES[name](by, thread_id)
        then = ids(by.list(where(thread_id)))
        after = Steps(saver, thread_id)
        after.put({"messages": talk(5), "text": "x" * 999})
        after.put({"messages": talk(6)})
        found = list(other.list(where(thread_id)))
        assert ids(found)[2:] == then
        assert [one.checkpoint["channel_values"]["messages"] for one in found[:2]] == [talk(6), talk(5)]
        assert found[0].checkpoint["channel_values"]["text"] == "x" * 999


def test_messages_that_are_stored_already_are_found(
    saver: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str
) -> None:
    """In rows of their own and in blocks, by a saver that has not seen them."""
    steps = Steps(other, thread_id)
    steps.put({"messages": talk(400)})
    assert saver.get_tuple(where(thread_id)) is not None
    mine = Steps(saver, thread_id)
    mine.put({"count": 1}, on=where(thread_id, read(other, where(thread_id)).config["configurable"]["checkpoint_id"]))
    for start in (0, 399, 3):
        mine.put({"messages": talk(1, start=start)})
    assert saver.stats(thread_id)[0].messages == 400
    assert values_of(other, where(thread_id))["messages"] == talk(1, start=3)


def test_a_checkpoint_that_exists_is_replaced(saver: SQLAlchemySaver, thread_id: str) -> None:
    """A put of the same id writes nothing new, whoever repeats it; nor do pending writes."""
    steps = Steps(saver, thread_id)
    steps.put({"count": 1})
    last = steps.put({"count": 2}, name="1f000001-0000-6000-8000-000000000000")
    steps.put({"count": 3}, on=list(saver.list(steps.start))[1].config, name="1f000001-0000-6000-8000-000000000000")
    for value in ("first", "second"):
        saver.put_writes(last, [("c", value)], "task")
    assert [one.checkpoint["channel_values"]["count"] for one in saver.list(steps.start)] == [3, 1]
    assert writes_of(saver, last) == [("task", "c", "first")]


def test_a_fork_is_refused(saver: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str) -> None:
    """By what is remembered, and by what another process has written since."""
    steps = Steps(saver, thread_id)
    first = steps.put({"count": 1})
    second = steps.put({"count": 2})
    assert counted(saver, lambda: steps.put({"count": 3})) == ["WITH"]
    with pytest.raises(ConflictError):
        steps.put({"count": 4}, on=first)
    theirs = Steps(other, thread_id).put({"count": 5})
    with pytest.raises(ConflictError):
        steps.put({"count": 6}, on=second)
    steps.put({"count": 7}, on=theirs)
    assert [one.checkpoint["channel_values"]["count"] for one in saver.list(steps.start)] == [7, 5, 3, 2, 1]


def test_a_lease_is_kept_by_all(url: str, thread_id: str) -> None:
    """Taken, prolonged, or given back since the row was remembered."""
    clock = Clock()
    with SQLAlchemySaver.from_url(url, now=clock) as saver, SQLAlchemySaver.from_url(url, now=clock) as other:
        steps = Steps(saver, thread_id)

        def put(count: int) -> None:
            # who holds a lease is known by the context; a put upon no checkpoint need not look for one
            Context().run(Steps(saver, thread_id).put, {"count": count})

        put(1)
        with other.lease(thread_id, ttl=10):
            with pytest.raises(LeaseError):
                put(2)
            with saver.database.read() as conn:
                thread = saver.store.find(conn, thread_id, lock=False)
            assert thread is not None
            saver.checkpoints.group_commit.remembered.keep(thread)  # the lease is in the remembered row
            clock.time += 9
            newest = read(other, where(thread_id)).config
            other.put_writes(newest, [("count", 3)], "task")
            clock.time += 9  # prolonged by this write, which changes no counter of the row
            with pytest.raises(LeaseError):
                put(4)
        put(5)
        with saver.lease(thread_id, ttl=10):
            steps.put({"count": 6})
            assert counted(saver, lambda: steps.put({"count": 7})) == ["WITH"]
        assert [one.checkpoint["channel_values"]["count"] for one in other.list(steps.start)] == [7, 6, 5, 1]


def test_a_run_does_not_bring_an_erased_thread_back(
    saver: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str
) -> None:
    """Whose row is remembered as it was before."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    builder = StateGraph(MessagesState)
    builder.add_node("erase", lambda _: other.delete_thread(thread_id)).add_edge(START, "erase")
    graph = builder.compile(checkpointer=saver)
    saver.put(where(thread_id), empty_checkpoint(), {"source": "input", "step": -1}, {})
    with pytest.raises(ErasedThreadError):
        graph.invoke({"messages": HumanMessage("hm")}, config, durability="sync")
    assert thread_id not in other.threads()


def test_an_error_leaves_nothing(saver: SQLAlchemySaver, thread_id: str) -> None:
    """All rows are written, or none: here the row of a checkpoint that somebody wrote behind our back exists."""
    steps = Steps(saver, thread_id)
    steps.put({"count": 1})
    before = rows(saver.database, thread_id)
    thread = saver.checkpoints.group_commit.remembered.take(thread_id)
    assert thread is not None
    thread.next_checkpoint = 0  # a wrong number, with which the row of the thread differs
    saver.checkpoints.group_commit.remembered.keep(thread)
    assert counted(saver, lambda: steps.put({"count": 2}))[:2] == ["WITH", "SELECT"]
    assert [row[2] for row in rows(saver.database, thread_id)] == [before[0][2], 1]


def rows(database: Database, thread_id: str) -> list[tuple[Any, ...]]:
    """Return the checkpoints of a thread as they are stored."""
    own = tables.checkpoint.join(tables.thread, tables.thread.c.id == tables.checkpoint.c.thread)
    query = sa.select(tables.checkpoint).select_from(own).where(tables.thread.c.thread_id == thread_id)
    with database.read() as conn:
        return [tuple(row) for row in conn.execute(query.order_by(tables.checkpoint.c.number))]


def test_a_recorder_takes_rows_and_nothing_else() -> None:
    """A query cannot be recorded, nor can very many rows."""
    recorder = WriteRecorder()
    with pytest.raises(NotRecordableError):
        recorder.execute(sa.select(1))
    for number in range(MAX_CHANGES):
        recorder.insert(tables.message, {"thread": 1, "seq": number, "hash": b"h", "body": b"b"})
    recorder.update(tables.message, {"thread": 1, "seq": 3, "hash": b"new"})
    assert (recorder.changes[3].values["hash"], len(recorder.changes)) == (b"new", MAX_CHANGES)
    with pytest.raises(NotRecordableError):
        recorder.update(tables.message, {"thread": 1, "seq": MAX_CHANGES, "hash": b"h"})
