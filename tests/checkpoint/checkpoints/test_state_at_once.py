from collections.abc import Callable, Generator
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import Database, Keyring, SQLAlchemySaver
from langgraph_compaction.checkpoint.checkpoints import state_at_once
from langgraph_compaction.checkpoint.checkpoints.listing import Listing
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.errors import RowError
from tests.checkpoint.contract.steps import Steps, read, where
from tests.checkpoint.listening import statements
from tests.checkpoint.samples import talk
from tests.checkpoint.wire import wire_to

KEYS = {"plain": None, "encrypted": Keyring({"a": bytes(32)}, current="a")}
LARGE = HumanMessage("x" * 200_000, id="large", additional_kwargs={"noise": [hash(str(n)) for n in range(20_000)]})

STATES: dict[str, dict[str, Any]] = {
    "no values": {},
    "a few messages": {"messages": talk(5), "count": 1},
    "messages in blocks": {"messages": [*talk(150), *talk(300, start=151)]},
    "a large message": {"messages": [*talk(3), LARGE, *talk(3, start=4)]},
    "large values": {"messages": talk(3), "text": "y" * 999, "other": ["z" * 999]},
    "more large values": {"messages": talk(3), **{name: name * 999 for name in "abc"}},
}
EXPECTED = {
    "no values": 1,
    "a few messages": 1,
    "messages in blocks": 2,
    "a large message": 2,
    "large values": 1,
    "more large values": 2,
}
"""Number of statements that read a state."""


@pytest.fixture
def url(cleared_url: Callable[[str], str]) -> str:
    """Return the URL of a PostgreSQL database with tables."""
    return cleared_url("postgresql")


@pytest.fixture
def saver(url: str) -> Generator[SQLAlchemySaver]:
    """Return a saver."""
    with SQLAlchemySaver.from_url(url) as opened:
        yield opened


def at_length(saver: SQLAlchemySaver, config: RunnableConfig, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a state as it is read within a transaction."""
    with monkeypatch.context() as patch:
        patch.setattr(Database, "can_read_at_once", property(lambda _: False))
        return saver.get_tuple(config)


def sent(saver: SQLAlchemySaver, config: RunnableConfig) -> tuple[CheckpointTuple, int]:
    """Return a state, and the number of statements that read it."""
    with statements(saver.database) as texts:
        found = read(saver, config)
    return found, len(texts)


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("name", STATES)
def test_one_statement_or_two_read_what_a_transaction_reads(
    url: str, thread_id: str, name: str, keys: Keyring | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The saver returns the newest checkpoint, or one by its id, with the pending writes in their order.

    If there is no such checkpoint, the saver sends a single statement to find this out.
    """
    with SQLAlchemySaver.from_url(url, keys=keys) as saver:
        steps = Steps(saver, thread_id)
        first = steps.put(STATES[name])
        saver.put_writes(first, [("b", 1), ("a", talk(1, start=9)[0])], "task 2", "path 1")
        saver.put_writes(first, [("c", "value")], "task 1", "path 2")
        newest, count = sent(saver, where(thread_id))
        assert newest == at_length(saver, where(thread_id), monkeypatch)
        assert count == EXPECTED[name]
        steps.put({"count": 2})
        assert sent(saver, first)[0] == newest == at_length(saver, first, monkeypatch)
        for nothing in (where(thread_id, "missing"), where(thread_id, namespace="other")):
            with statements(saver.database) as texts:
                assert saver.get_tuple(nothing) is None
            assert len(texts) == 1


def test_a_thread_that_does_not_exist_is_not_found_at_once(saver: SQLAlchemySaver, thread_id: str) -> None:
    """One statement tells that there is nothing."""
    assert saver.get_tuple(where(thread_id)) is None  # the first transaction checks the version of the tables
    with statements(saver.database) as texts:
        assert saver.get_tuple(where(thread_id)) is None
    assert len(texts) == 1


def test_rows_that_are_deleted_meanwhile_make_the_read_begin_again(
    saver: SQLAlchemySaver, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that were deleted after the first statement are not reported as missing."""
    Steps(saver, thread_id).put(STATES["messages in blocks"])
    found = state_at_once.read

    def late(*args: Any) -> Any:
        rows = found(*args)
        saver.delete_thread(thread_id)
        return rows

    monkeypatch.setattr(state_at_once, "read", late)
    assert saver.get_tuple(where(thread_id)) is None


def test_a_damaged_row_is_named(saver: SQLAlchemySaver, thread_id: str) -> None:
    """As by any other read."""
    config = Steps(saver, thread_id).put(STATES["messages in blocks"])
    with saver.database.write() as conn:
        thread = saver.store.find(conn, thread_id)
        assert thread is not None
        conn.execute(sa.delete(tables.block).where(tables.block.c.thread == thread.id))
    with pytest.raises(RowError, match=r"message 0 of thread .* is missing"):
        saver.get_tuple(config)


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_one_statement_lists_what_a_transaction_lists(
    url: str, thread_id: str, keys: Keyring | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one thread and of all, page by page, with old messages, pending writes, filters, and `before`."""
    with SQLAlchemySaver.from_url(url, keys=keys) as saver:
        for name in (thread_id, f"other {thread_id}"):
            steps = Steps(saver, name)
            made = [steps.put(state) for state in (*STATES.values(), *({"count": n} for n in range(20)))]
            for task in ("task 2", "task 1"):
                saver.put_writes(made[2], [("b", 1), ("a", talk(1, start=9)[0])], task)
        one = where(thread_id)
        calls: list[tuple[RunnableConfig | None, dict[str, Any], int]] = [
            (one, {}, 26),
            (None, {}, 52),
            (one, {"limit": 3}, 3),
            (one, {"before": made[3]}, 26),
            (where(f"other {thread_id}"), {"before": made[3]}, 3),
            (None, {"before": made[3]}, 29),
            (made[2], {}, 1),
            (one, {"filter": {"source": "loop"}, "limit": 2}, 2),
            (None, {"filter": {"source": "nowhere"}}, 0),
        ]
        for config, options, count in calls:
            at_once = list(saver.list(config, **options))
            with monkeypatch.context() as patch:
                patch.setattr(Database, "can_read_at_once", property(lambda _: False))
                assert at_once == list(saver.list(config, **options))
            assert len(at_once) == count
        with statements(saver.database) as texts:
            assert len(list(saver.list(one, limit=10))) == 10
        assert [text.split(".")[0] for text in texts[:1]] == ["SELECT chosen"]
        assert len(texts) <= 3  # the others read old messages and large values


def test_a_page_whose_rows_are_deleted_meanwhile_is_read_again(
    saver: SQLAlchemySaver, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that were deleted after the first statement of a page are not reported as missing."""
    Steps(saver, thread_id).put(STATES["messages in blocks"])
    page = Listing.page

    def late(*args: Any) -> Any:
        found = page(*args)
        saver.delete_thread(thread_id)
        return found

    monkeypatch.setattr(Listing, "page", late)
    assert list(saver.list(where(thread_id))) == []


def test_a_turn_of_a_graph_takes_few_round_trips(url: str, thread_id: str) -> None:
    """One read and at most five writes, each one round trip; the state is read in one, with old messages in two."""
    builder = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": AIMessage("fine")})
    builder.add_edge(START, "answer")
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    with wire_to(url) as (through, wire), SQLAlchemySaver.from_url(through) as saver:
        graph = builder.compile(checkpointer=saver)

        def sends(work: Callable[[], object]) -> int:
            before = wire.sends
            work()
            return wire.sends - before

        def turn() -> object:
            return graph.invoke({"messages": HumanMessage("how?")}, config, durability="sync")

        # the first turn opens connections; the driver prepares a statement when it runs for the sixth time
        least = min(sends(turn) for _ in range(6))
        assert 4 <= least <= 6
        assert min(sends(lambda: graph.get_state(config)) for _ in range(2)) == 1
        graph.update_state(config, {"messages": talk(300)})
        assert min(sends(lambda: graph.get_state(config)) for _ in range(2)) == 2
        assert len(graph.get_state(config).values["messages"]) == 312
