"""A graph with this package's saver keeps everything in the saver's database."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from langgraph_compaction.checkpoint import (
    AsyncSQLAlchemySaver,
    CompactionRecords,
    Database,
    Keyring,
    KeyringError,
    SQLAlchemySaver,
)
from langgraph_compaction.graph import CompactionSettings, CompactionThread, SettingsError
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.graph.thread_state import records_of
from tests.graph.harness import CONFIG, SMALL, THREAD, WORDS, Drive, agent, calm, frozen, full, said, values, verdicts

SAVERS = (SQLAlchemySaver, AsyncSQLAlchemySaver)


@contextmanager
def opened(kind: Any, url: str, **options: Any) -> Iterator[Any]:
    """Open a saver of either kind without a loop."""
    saver = kind(url, **options)
    try:
        saver.database.setup()
        yield saver
    finally:
        saver.close()


def config(thread_id: str) -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread_id}}


@pytest.mark.parametrize("kind", SAVERS)
async def test_without_a_database_the_savers_own_is_used(
    kind: Any, go: Drive, database_url: str, thread_id: str
) -> None:
    """One engine, one pool, one writer: a compaction stands beside the checkpoints, on every database."""
    with opened(kind, database_url) as saver:
        graph = agent(checkpointer=saver)
        assert records_of(graph).database is saver.database
        await go.invoke(graph, full(), config(thread_id))
        assert verdicts(graph, thread_id) == ["committed"]
        assert len(values(graph, config(thread_id))["messages"]) < len(full()["messages"])
        whole = await CompactionThread(graph, config(thread_id)).atranscript()
        assert frozen(whole[:-1]) == frozen(full()["messages"])
        [stats] = saver.stats(thread_id)
        assert (stats.compactions, stats.snapshots) == (1, 1)
        assert stats.checkpoints > 3
        saver.delete_thread(thread_id)
        assert verdicts(graph, thread_id) == []
        assert await CompactionThread(graph, config(thread_id)).atranscript() == []


def test_the_savers_keys_are_the_records_keys(tmp_path: Path) -> None:
    """Given a saver with a keyring, nobody reads a thread's snapshots, archive or ledger without it."""
    url = f"sqlite:///{tmp_path / 'sealed.db'}"
    with opened(SQLAlchemySaver, url, keys=Keyring({"k": b"k" * 32}, current="k")) as saver:
        graph = agent(checkpointer=saver)
        graph.invoke(full(), config("t"))
        assert frozen(CompactionThread(graph, config("t")).transcript()[:-1]) == frozen(full()["messages"])
    with Database.open(url) as database:
        for read in (
            lambda records: records.history("t"),
            lambda records: records.transcript("t", "", [], head=None),
        ):
            with pytest.raises(KeyringError, match="keys"):
                read(CompactionRecords(database))


def test_a_durable_saver_of_others_needs_a_database(tmp_path: Path) -> None:
    """Threads would outlive their snapshots: the error names both ways out, and both work."""
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        with pytest.raises(SettingsError, match=r'SqliteSaver .*database="sqlite:.*database="memory"'):
            agent(checkpointer=saver)
        for database in ("memory", f"sqlite:///{tmp_path / 'ours.db'}"):
            agent(checkpointer=saver, database=database).invoke(said("hello"), config("t"))


@pytest.mark.parametrize(
    "checkpointer", [None, True, False, InMemorySaver()], ids=["none", "inherited", "off", "memory"]
)
def test_a_thread_that_ends_with_the_process_needs_no_database(checkpointer: Any) -> None:
    """Neither given: all is kept in memory."""
    assert records_of(agent(checkpointer=checkpointer)).database.durable is False


async def test_agents_that_share_a_middleware_each_have_their_own_records(go: Drive, tmp_path: Path) -> None:
    """Each in the database of its checkpointer, whichever agent was used first, and in memory likewise."""
    middleware = CompactionMiddleware(settings=CompactionSettings(**SMALL), summarizer="digest", token_counter=WORDS)

    def assistant(saver: Any) -> Any:
        return create_agent(calm(), [], middleware=[middleware], checkpointer=saver)

    first, second = (SQLAlchemySaver(f"sqlite:///{tmp_path / name}") for name in ("first.db", "second.db"))
    with closing(first), closing(second):
        agents = [assistant(saver) for saver in (first, second, InMemorySaver(), InMemorySaver())]
        assert [CompactionThread(one, CONFIG).history() for one in agents] == [[]] * 4
        for number in (1, 3):
            await go.invoke(agents[number], full())
        found = [[row.verdict for row in CompactionThread(one, CONFIG).history()] for one in agents]
        assert found == [[], ["committed"], [], ["committed"]]
        assert [CompactionRecords(saver.database).history(THREAD) != [] for saver in (first, second)] == [False, True]
        for number in (1, 3):
            given = {"messages": [], "compaction_request": {"undo": "last", "force": True}}
            await go.invoke(agents[number], given)  # the answers of both agents have the same id
            assert frozen(values(agents[number])["messages"][:-1]) == frozen(full()["messages"])
            assert [row.verdict for row in CompactionThread(agents[number], CONFIG).history()] == [
                "committed",
                "undone",
            ]
