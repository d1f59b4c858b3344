"""A thread that is erased while a run writes to it stays erased; a new run may begin it anew."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import RunControl, Runtime

from langgraph_compaction.checkpoint import (
    AsyncSQLAlchemySaver,
    CompactionRecords,
    Database,
    ErasedThreadError,
    SQLAlchemySaver,
)
from langgraph_compaction.checkpoint.checkpoints.write_guards import ERASURE_KNOWN_S, acting_for
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.maintenance.import_checkpoints import import_checkpoints
from langgraph_compaction.checkpoint.maintenance.import_sources import open_source
from tests.checkpoint.samples import begin
from tests.fakes import ScriptedModel
from tests.graph.cli.foreign import sqlite_saver
from tests.graph.harness import SUMMARY, agent, full, said

INPUT: Any = {"source": "input", "step": -1}
LOOP: Any = {"source": "loop", "step": 0}


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, session_url: Callable[[str], str]) -> str:
    """Return the URL of each kind of database that several processes can open."""
    return session_url(request.param)


@pytest.fixture
def saver(url: str) -> Iterator[SQLAlchemySaver]:
    """Open the saver through which a run writes."""
    with SQLAlchemySaver.from_url(url) as opened:
        yield opened


@pytest.fixture
def other(url: str) -> Iterator[SQLAlchemySaver]:
    """Open the saver by which the thread is erased, as another process would."""
    with SQLAlchemySaver.from_url(url) as opened:
        yield opened


def at(thread_id: str) -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


def standing(saver: SQLAlchemySaver, thread_id: str) -> bool:
    """Whether there is a row of the thread."""
    return thread_id in saver.threads()


def test_late_calls_of_the_interface_are_refused(
    saver: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str
) -> None:
    """What names a checkpoint that went with its thread; before and after the thread has begun anew."""
    first = saver.put(at(thread_id), empty_checkpoint(), INPUT, {})
    other.delete_thread(thread_id)

    def late() -> None:
        for one in (saver, other):
            with pytest.raises(ErasedThreadError, match=f"thread '{thread_id}' was erased"):
                one.put_writes(first, [("x", HumanMessage("secret", id="1"))], "task")
            with pytest.raises(ErasedThreadError, match="names no checkpoint_id"):
                one.put(first, empty_checkpoint(), LOOP, {})

    late()
    assert not standing(saver, thread_id)
    anew = saver.put(at(thread_id), empty_checkpoint(), INPUT, {})
    saver.put_writes(anew, [("x", 1)], "task")
    late()
    again = other.put(anew, empty_checkpoint(), LOOP, {})
    assert [found.config for found in saver.list(at(thread_id))] == [again, anew]


def test_it_is_forgotten_after_a_day_and_tells_no_name(thread_id: str) -> None:
    """What is noted of an erased thread is a hash, and goes when a later one is erased."""
    now = [1_000_000.0]
    with SQLAlchemySaver.from_url("memory", now=lambda: now[0]) as saver:
        saver.setup()
        for name in (thread_id, "second", "third"):
            saver.put(at(name), empty_checkpoint(), INPUT, {})
            saver.delete_thread(name)
            with saver.database.read() as conn:
                noted = [tuple(row) for row in conn.execute(sa.select(tables.erased))]
            assert thread_id not in str(noted)
            # several versions of the package may use one database: each must find the erasures of the others
            assert (name == "second") <= ("1b12f70d815aaa77e84cb540ce4f9233" in str(noted))
            assert len(noted) == {thread_id: 1, "second": 2, "third": 1}[name]
            now[0] += ERASURE_KNOWN_S * 0.6 if name == thread_id else ERASURE_KNOWN_S * 1.1
        stale: Any = {"configurable": {**at("second")["configurable"], "checkpoint_id": "before"}}
        saver.put(stale, empty_checkpoint(), LOOP, {})


def graph(saver: Any, during: Callable[[], None]) -> Any:
    """Two nodes side by side, of which one calls `during`, a subgraph that keeps its state, and a last node."""

    def erasing(_state: MessagesState) -> dict[str, Any]:
        during()
        return {"messages": [("ai", "secret of the one that erases")]}

    def answering(_state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", "secret answer")]}

    inner = StateGraph(MessagesState).add_node("answer", answering).add_edge(START, "answer")
    outer = StateGraph(MessagesState).add_node("erase", erasing).add_node("beside", answering)
    outer.add_node("inner", inner.compile(checkpointer=True)).add_node("last", answering)
    outer.add_edge(START, "erase").add_edge(START, "beside").add_edge(["erase", "beside"], "inner")
    return outer.add_edge("inner", "last").compile(checkpointer=saver)


def driven(built: Any, text: str, thread_id: str, asynchronous: bool, durability: str) -> None:
    """Run a turn."""
    config, given = {"configurable": {"thread_id": thread_id}}, {"messages": text}
    if asynchronous:
        asyncio.run(built.ainvoke(given, config, durability=durability))
    else:
        built.invoke(given, config, durability=durability)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("durability", "begun_anew"), [("sync", True), ("async", True), ("async", False), ("exit", True)]
)
def test_a_run_ends_with_an_error_where_its_thread_was_erased(  # noqa: PLR0917 - a table of all of them
    saver: SQLAlchemySaver,
    other: SQLAlchemySaver,
    thread_id: str,
    asynchronous: bool,
    durability: Any,
    begun_anew: bool,
) -> None:
    """Whatever its durability, nothing of it is stored, also not beside a run that begins the thread anew."""

    def during() -> None:
        other.delete_thread(thread_id)
        if begun_anew:
            driven(graph(other, lambda: None), "hello again", thread_id, asynchronous=False, durability="sync")

    driven(graph(saver, lambda: None), "before", thread_id, asynchronous, durability)
    with pytest.raises(ErasedThreadError):
        driven(graph(saver, during), "in flight", thread_id, asynchronous, durability)
    assert standing(saver, thread_id) is begun_anew
    for _ in range(2):
        driven(graph(saver, lambda: None), "afterwards", thread_id, asynchronous, durability)
    inputs = [
        message.text
        for message in graph(saver, lambda: None).get_state(at(thread_id)).values["messages"]
        if message.type == "human"
    ]
    assert inputs == [*(["hello again"] if begun_anew else []), "afterwards", "afterwards"]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_so_does_the_first_run_of_a_thread(
    saver: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str, asynchronous: bool, durability: str
) -> None:
    """Once its first checkpoint or write is stored."""
    config = {"configurable": {"thread_id": thread_id}}

    def during() -> None:
        while saver.get_tuple(config) is None:  # it is stored in the background
            pass
        other.delete_thread(thread_id)

    with pytest.raises(ErasedThreadError):
        driven(graph(saver, during), "in flight", thread_id, asynchronous, durability)
    assert not standing(saver, thread_id)


def test_a_run_may_begin_at_once_where_a_thread_was_erased(saver: SQLAlchemySaver, thread_id: str) -> None:
    """Its tasks may store what they wrote before their checkpoint is stored."""
    built = graph(saver, lambda: None)
    for _ in range(10):
        driven(built, "hello", thread_id, asynchronous=False, durability="async")
        saver.delete_thread(thread_id)
    assert not standing(saver, thread_id)


def test_a_task_of_a_new_run_may_write_before_its_checkpoint_is_stored(
    saver: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str
) -> None:
    """LangGraph stores checkpoints in the background; from its first write on the run is held to that thread."""
    saver.put(at(thread_id), empty_checkpoint(), INPUT, {})
    saver.delete_thread(thread_id)
    checkpoint = empty_checkpoint()
    run = {"__pregel_runtime": Runtime(control=RunControl())}
    start: Any = {"configurable": {**at(thread_id)["configurable"], **run}}
    config: Any = {"configurable": {**start["configurable"], "checkpoint_id": checkpoint["id"]}}
    assert saver.get_tuple(start) is None
    saver.put_writes(config, [("x", 1)], "task")
    other.delete_thread(thread_id)
    for call in (
        lambda: saver.put_writes(config, [("x", 1)], "task"),
        lambda: saver.put(start, checkpoint, INPUT, {}),
        lambda: saver.put(config, empty_checkpoint(), LOOP, {}),
    ):
        with pytest.raises(ErasedThreadError):
            call()
    assert not standing(saver, thread_id)


@pytest.mark.parametrize("kind", [SQLAlchemySaver, AsyncSQLAlchemySaver])
async def test_a_compaction_in_flight_leaves_no_records(kind: Any, tmp_path: Path) -> None:
    """Snapshot, summary, ledger and archive are those of a thread that is gone: none comes back."""
    url = f"sqlite:///{tmp_path / 'records.db'}"
    with Database.open(url) as database:
        database.setup()
    mine, other = kind(url), SQLAlchemySaver(url)
    try:

        def summarized(_messages: Any) -> str:
            other.delete_thread("1")
            return SUMMARY

        built = agent(summarizer=ScriptedModel(replies=[summarized]), checkpointer=mine)
        config: Any = {"configurable": {"thread_id": "1"}}
        await built.ainvoke(said("hello"), config)
        with pytest.raises(ErasedThreadError):
            await built.ainvoke(full(), config)
        assert other.threads() == []
        await built.ainvoke(said("hello again"), config)
        assert CompactionRecords(other.database).history("1") == []
    finally:
        mine.close()
        other.close()


def test_only_what_is_written_for_a_run_is_held_to_its_thread(thread_id: str) -> None:
    """Inside `acting_for(run)`, a write after the erasure is refused; who writes by hand begins the thread anew."""
    with Database.open("memory") as database:
        database.setup()
        records, run = CompactionRecords(database), RunControl()
        begin(records, thread_id)
        with acting_for(run):
            begin(records, thread_id)
            records.forget(thread_id)
            with pytest.raises(ErasedThreadError):
                begin(records, thread_id)
        for _ in range(2):
            assert records.threads() == []
            begin(records, thread_id)
            assert records.threads() == [thread_id]
            records.forget(thread_id)


def test_an_erased_thread_can_be_imported_again(tmp_path: Path) -> None:
    """As the import itself advises; also where older checkpoints are gone from the source."""
    source = f"sqlite:///{tmp_path / 'theirs.db'}"
    with sqlite_saver(source) as theirs:
        driven(graph(theirs, lambda: None), "hello", "1", asynchronous=False, durability="sync")
        oldest = list(theirs.list(at("1")))[-1].checkpoint["id"]
        theirs.conn.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (oldest,))
        theirs.conn.commit()
    with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'ours.db'}") as saver:
        saver.setup()
        for _ in range(2):
            with open_source(source) as opened:
                assert not [event for event in import_checkpoints(opened, saver) if event.problem]
            saver.delete_thread("1")
