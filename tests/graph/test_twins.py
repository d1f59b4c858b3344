"""Each method of `CompactionThread` has an asynchronous twin, which does the same without blocking the event loop."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, Database, SQLAlchemySaver
from langgraph_compaction.graph import CompactionError, CompactionThread
from langgraph_compaction.graph.thread_state import AS_NODE
from tests.graph.harness import agent, full

DOCS = "\n".join(
    path.read_text(encoding="utf-8") for path in (Path(__file__).parent.parent.parent / "docs").glob("*.md")
)
HANDED = {"messages": [], "memory": {"goal": "eggs"}}


def ids(messages: list[Any]) -> list[str]:
    """The ids of messages; those that are made at random are left out."""
    return [message.id for message in messages if message.id.startswith(("r-", "question"))]


async def _state(graph: Any, config: Any) -> Any:
    return (await graph.aget_state(config)).values


async def _kept(graph: Any, config: Any, _result: Any) -> Any:
    state = await _state(graph, config)
    return ids(state["messages"]), state["compaction"].get("held"), state["memory"].get("pins")


async def _branched(graph: Any, _config: Any, new: Any) -> Any:
    return ids((await _state(graph, new))["messages"])


async def _nothing(graph: Any, config: Any, _result: Any) -> Any:
    return await _state(graph, config), await CompactionThread(graph, config).ahistory()


async def _told(_graph: Any, _config: Any, result: Any) -> Any:
    return [(row.verdict, row.tokens_before) for row in result]


async def _shown(_graph: Any, _config: Any, result: Any) -> Any:
    return ids(result.began_with), ids(result.dropped), result.on_this_branch


async def _previewed(_graph: Any, _config: Any, result: Any) -> Any:
    return result.tokens_before, ids(result.dropped), result.reason


async def _compared(_graph: Any, _config: Any, result: Any) -> Any:
    return ids(result.dropped), ids(result.added), len(result.summaries), result.kept


async def _same(_graph: Any, _config: Any, result: Any) -> Any:
    return result


async def _listed(_graph: Any, _config: Any, result: Any) -> Any:
    return ids(result)


async def _pinned(_graph: Any, _config: Any, result: Any) -> Any:
    return [pin.message_id for pin in result]


Said = Callable[[Any, Any, Any], Any]
CALLS: dict[str, tuple[Callable[[str], tuple[tuple[Any, ...], dict[str, Any]]], Said]] = {
    "branch_from": (lambda name: ((name,), {}), _branched),
    "compact": (lambda _: ((), {"focus": "eggs"}), _kept),
    "diff": (lambda name: ((name,), {}), _compared),
    "forget": (lambda _: ((), {}), _nothing),
    "handoff": (lambda _: ((), {}), _same),
    "history": (lambda _: ((), {}), _told),
    "pin": (lambda _: ((), {"message_id": "question"}), _kept),
    "pins": (lambda _: ((), {}), _pinned),
    "preview": (lambda _: ((), {}), _previewed),
    "recall": (lambda _: (("ru0-1",), {"max_tokens": 500}), _same),
    "render": (lambda _: (({"messages": [HumanMessage("hello", id="question")]},), {}), _listed),
    "release": (lambda _: ((), {}), _kept),
    "show": (lambda name: ((name,), {}), _shown),
    "transcript": (lambda _: ((), {}), _listed),
    "undo": (lambda _: ((), {"force": True}), _kept),
    "unpin": (lambda _: (("r-user-7",), {}), _kept),
}
"""By method: its arguments on a thread with this compaction, and what of its result and the thread is compared."""
OF_RECORDS_ALONE = {"history", "recall", "render"}
CHANGING = {"branch_from", "compact", "forget", "pin", "release", "undo", "unpin"}


def synchronous() -> dict[str, Any]:
    """The public methods, but for the twins."""
    found = inspect.getmembers(CompactionThread, inspect.isfunction)
    return {name: one for name, one in found if not (name.startswith("_") or inspect.iscoroutinefunction(one))}


def test_the_table_is_complete() -> None:
    """No public method is left out of this test."""
    assert sorted(CALLS) == sorted(synchronous())


@pytest.mark.parametrize("name", sorted(synchronous()))
def test_each_method_has_a_twin(name: str) -> None:
    """A coroutine function of the same signature, and named in a guide."""
    twin = getattr(CompactionThread, f"a{name}", None)
    assert inspect.iscoroutinefunction(twin), f"{name} has no twin a{name}"
    assert inspect.signature(twin) == inspect.signature(getattr(CompactionThread, name))
    assert f"`a{name}`" in DOCS, f"a{name} stands in no guide"


@asynccontextmanager
async def opened(kind: Any, folder: Path) -> AsyncIterator[dict[str, Any]]:
    """The builder's arguments for a checkpointer of this kind, open on this event loop."""
    url = f"sqlite:///{folder}/threads.db"
    if kind is InMemorySaver:
        yield {"checkpointer": InMemorySaver()}
    elif kind is AsyncSqliteSaver:
        async with AsyncSqliteSaver.from_conn_string(f"{folder}/theirs.db") as saver:
            yield {"checkpointer": saver, "database": url}
    elif kind is AsyncSQLAlchemySaver:
        async with AsyncSQLAlchemySaver.from_url(url) as ours:
            yield {"checkpointer": ours}
    else:
        with SQLAlchemySaver.from_url(url) as ours:
            yield {"checkpointer": ours}


async def compacted(graph: Any, thread: str) -> tuple[Any, str]:
    """A thread with a compaction, a pin and something to hand over; its config and the compaction's id."""
    config = {"configurable": {"thread_id": thread}}
    await graph.ainvoke(full(), config)
    update = {"compaction": {"handoff": HANDED}, "memory": {"pins": ["r-user-7"]}}
    await graph.aupdate_state(config, update, as_node=AS_NODE)
    return config, (await CompactionThread(graph, config).ahistory())[-1].compaction_id


@pytest.mark.parametrize("kind", [InMemorySaver, SQLAlchemySaver, AsyncSQLAlchemySaver, AsyncSqliteSaver])
async def test_a_twin_does_the_same_and_leaves_the_loop_alone(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a running loop, with every kind of checkpointer; no transaction runs in the loop's thread."""
    async with opened(kind, tmp_path) as options:
        graph = agent(**options)
        read = await compacted(graph, "read")
        for name, (arguments, said_of) in CALLS.items():
            one = await compacted(graph, f"{name} 1") if name in CHANGING else read
            two = await compacted(graph, f"{name} 2") if name in CHANGING else read
            places: list[int] = []
            monkeypatch.setattr(Database, "retry", _noting(places))
            args, named = arguments(one[1])
            by_twin = await getattr(CompactionThread(graph, one[0]), f"a{name}")(*args, **named)
            monkeypatch.undo()
            assert threading.get_ident() not in places, f"a{name} called the database on the event loop"
            args, named = arguments(two[1])
            method = getattr(CompactionThread(graph, two[0]), name)
            by_method = await asyncio.to_thread(partial(method, *args, **named))
            assert await said_of(graph, one[0], by_twin) == await said_of(graph, two[0], by_method), name


def _noting(places: list[int]) -> Any:
    retry = Database.retry

    def noted(self: Database, transaction: Any) -> Any:
        places.append(threading.get_ident())
        return retry(self, transaction)

    return noted


@pytest.mark.parametrize("kind", [AsyncSQLAlchemySaver, AsyncSqliteSaver])
async def test_on_a_loop_with_an_asynchronous_saver_the_error_names_the_twin(kind: Any, tmp_path: Path) -> None:
    """The synchronous method changes nothing and says what to await."""
    async with opened(kind, tmp_path) as options:
        graph = agent(**options)
        config, compaction = await compacted(graph, "one")
        before = await _state(graph, config)
        for name, (arguments, _) in CALLS.items():
            if kind is AsyncSqliteSaver and name in OF_RECORDS_ALONE:  # it needs no checkpointer
                continue
            args, named = arguments(compaction)
            with pytest.raises(CompactionError, match=rf"{kind.__name__} .*`await thread\.a{name}\("):
                getattr(CompactionThread(graph, config), name)(*args, **named)
        assert await _state(graph, config) == before


async def test_a_synchronous_saver_may_be_called_on_a_loop(tmp_path: Path) -> None:
    """As in a notebook, whose cells run on an event loop."""
    async with opened(SQLAlchemySaver, tmp_path) as options:
        graph = agent(**options)
        config, compaction = await compacted(graph, "one")
        thread = CompactionThread(graph, config)
        assert thread.show(compaction).on_this_branch
        thread.forget()
        assert thread.history() == []
