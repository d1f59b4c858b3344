"""Each method of `CompactionThread` has an asynchronous twin, which does the same without blocking the event loop."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, SQLAlchemySaver
from langgraph_compaction.graph import CompactionError, CompactionThread
from langgraph_compaction.graph.thread_state import AS_NODE
from langgraph_compaction.nodes.conversation.tokens import offline_encoding
from tests.graph.harness import agent, full

HANDED = {"messages": [], "compaction_request": {"memory": {"goal": "eggs"}}}
NAMED = "the compaction's id"
CALLS: dict[str, dict[str, Any]] = {
    "archive": {},
    "bill": {},
    "branch_from": {"compaction_id": NAMED},
    "compact": {"focus": "eggs"},
    "diff": {"compaction_id": NAMED},
    "erase": {"message_id": "r-user-7"},
    "forget": {},
    "handoff": {},
    "history": {},
    "pin": {"message_id": "question"},
    "pins": {},
    "plot": {},
    "preview": {},
    "recall": {"query": "ru0-1", "max_tokens": 500},
    "redo": {},
    "release": {},
    "report": {},
    "search": {"query": "ru0-1"},
    "show": {"compaction_id": NAMED},
    "transcript": {},
    "undo": {"force": True},
    "unpin": {"message_id": "r-user-7"},
}
"""By method: its arguments on a thread with a compaction."""
OF_RECORDS_ALONE = {"history", "recall", "report", "search"}
OF_OUR_SAVERS = {"erase", "plot"}
"""Methods that need the checkpoints of our own savers."""
CHANGING = {"archive", "branch_from", "compact", "erase", "forget", "pin", "redo", "release", "undo", "unpin"}


def given(name: str, compaction: str) -> dict[str, Any]:
    """The arguments of a method on a thread with this compaction."""
    return {key: compaction if value == NAMED else value for key, value in CALLS[name].items()}


async def left(graph: Any, config: Any) -> Any:
    """What a change leaves; ids that are made at random are left out."""
    state = (await graph.aget_state(config)).values
    held = [m.id for m in state.get("messages", ()) if m.id.startswith(("r-", "question"))]
    return held, state.get("compaction", {}).get("held"), state.get("compaction", {}).get("pins")


def test_each_method_has_a_twin() -> None:
    """A coroutine function of the same signature; and the table above has all of them."""
    found = dict(inspect.getmembers(CompactionThread, inspect.isfunction))
    methods = {name for name, one in found.items() if not (name.startswith("_") or inspect.iscoroutinefunction(one))}
    assert methods == CALLS.keys()
    for name in methods:
        assert inspect.iscoroutinefunction(found[f"a{name}"])
        assert inspect.signature(found[f"a{name}"]) == inspect.signature(found[name])


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Raise for every call that blocks the event loop."""
    monkeypatch.chdir(tmp_path)
    guard = BlockBuster()
    guard.activate()
    yield
    guard.deactivate()


@asynccontextmanager
async def opened(kind: Any) -> AsyncIterator[dict[str, Any]]:
    """The builder's arguments for a checkpointer of this kind, open on this event loop."""
    url = "sqlite:///threads.db"
    if kind is InMemorySaver:
        yield {"checkpointer": InMemorySaver()}
    elif kind is AsyncSqliteSaver:
        async with AsyncSqliteSaver.from_conn_string("theirs.db") as saver:
            yield {"checkpointer": saver, "database": url}
    elif kind is AsyncSQLAlchemySaver:
        async with AsyncSQLAlchemySaver.from_url(url) as ours:
            await ours.setup()
            yield {"checkpointer": ours}
    else:
        ours = await asyncio.to_thread(SQLAlchemySaver, url)
        await asyncio.to_thread(ours.setup)
        yield {"checkpointer": ours}
        await asyncio.to_thread(ours.close)


async def compacted(graph: Any, thread: str) -> tuple[Any, str]:
    """A thread with a compaction, a pin and something to hand over; its config and the compaction's id."""
    config = {"configurable": {"thread_id": thread}}
    await graph.ainvoke(full(), config)
    update = {"compaction": {"handoff": HANDED, "pins": ["r-user-7"]}}
    await graph.aupdate_state(config, update, as_node=AS_NODE)
    return config, (await CompactionThread(graph, config).ahistory())[-1].compaction_id


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("kind", [InMemorySaver, SQLAlchemySaver, AsyncSQLAlchemySaver, AsyncSqliteSaver])
async def test_a_twin_does_the_same_and_leaves_the_loop_alone(kind: Any) -> None:
    """On a running loop, with every kind of checkpointer, also where no vocabulary is read yet."""
    async with opened(kind) as options:
        graph = agent(**options)
        read = await compacted(graph, "read")
        for name in CALLS.keys() - (OF_OUR_SAVERS if kind in (InMemorySaver, AsyncSqliteSaver) else set()):
            one = await compacted(graph, f"{name} 1") if name in CHANGING else read
            two = await compacted(graph, f"{name} 2") if name in CHANGING else read
            for config in (one[0], two[0]) if name == "redo" else ():
                await CompactionThread(graph, config).aundo(force=True)
            offline_encoding.cache_clear()
            by_twin = await getattr(CompactionThread(graph, one[0]), f"a{name}")(**given(name, one[1]))
            method = getattr(CompactionThread(graph, two[0]), name)
            by_method = await asyncio.to_thread(partial(method, **given(name, two[1])))
            if name == "branch_from":
                assert await left(graph, by_twin) == await left(graph, by_method)
            elif name in CHANGING:
                assert await left(graph, one[0]) == await left(graph, two[0]), name
            elif name == "plot":
                assert by_twin.figure.get_axes()[0].title.get_text() == "Tokens of each request"
            else:
                assert by_twin == by_method, name


@pytest.mark.parametrize("kind", [AsyncSQLAlchemySaver, AsyncSqliteSaver])
async def test_on_a_loop_with_an_asynchronous_saver_the_error_names_the_twin(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The synchronous method changes nothing and says what to await."""
    monkeypatch.chdir(tmp_path)
    async with opened(kind) as options:
        graph = agent(**options)
        config, compaction = await compacted(graph, "one")
        before = await left(graph, config)
        for name in CALLS.keys() - (OF_OUR_SAVERS if kind in (InMemorySaver, AsyncSqliteSaver) else set()):
            if kind is AsyncSqliteSaver and name in OF_RECORDS_ALONE:  # it needs no checkpointer
                continue
            with pytest.raises(CompactionError, match=rf"{kind.__name__} .*`await thread\.a{name}\("):
                getattr(CompactionThread(graph, config), name)(**given(name, compaction))
        assert await left(graph, config) == before
