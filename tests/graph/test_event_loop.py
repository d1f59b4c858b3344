"""Under blockbuster, as in LangGraph's server, nothing of ours blocks the event loop."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from blockbuster import BlockBuster
from langchain.agents import create_agent
from langchain_core.messages import convert_to_messages
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, DatabaseError
from langgraph_compaction.graph import (
    CompactionSettings,
    CompactionState,
    SettingsError,
    acompact_messages,
    create_compacting_agent,
    create_compaction_graph,
)
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.conversation.tokens import offline_encoding
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, filler, said, verdicts

SETTINGS = CompactionSettings(context_window=4_000)
RUN = uuid4()
LARGE = {"messages": [("user", f"part {n} {filler(320)}") for n in range(12)]}


@pytest.fixture(autouse=True)
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Raise for every call that blocks the loop."""
    monkeypatch.chdir(tmp_path)
    guard = BlockBuster()
    guard.activate()
    try:
        yield
    finally:
        guard.deactivate()


def agent(**options: Any) -> Any:
    """An agent of ours."""
    return create_compacting_agent(
        ScriptedModel(replies=["ok"]), settings=SETTINGS, system_prompt="You help.", summarizer="digest", **options
    )


def embedded(checkpointer: Any = None, **options: Any) -> Any:
    """A graph of the application's own with the compaction as a node."""
    builder = StateGraph(CompactionState)
    inner = create_compaction_graph(settings=SETTINGS, system_prompt="You help.", **options)
    builder.add_node("compact", inner)
    builder.add_edge(START, "compact")
    return builder.compile(checkpointer=checkpointer)


def with_middleware(checkpointer: Any = None, **options: Any) -> Any:
    """LangChain's agent."""
    middleware = CompactionMiddleware(settings=SETTINGS, **options)
    return create_agent(ScriptedModel(replies=["ok"]), middleware=[middleware], checkpointer=checkpointer)


BUILDS = {"agent": agent, "embedded": embedded, "middleware": with_middleware}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
@pytest.mark.parametrize("database", [None, "sqlite:///a.db"])
async def test_a_graph_built_and_run_on_the_loop(build: Callable[..., Any], database: str | None) -> None:
    """Tables, driver and vocabulary are seen to by the first turn, on a worker thread; then a turn compacts."""
    if database is None:
        offline_encoding.cache_clear()
    graph = build(database=database, checkpointer=InMemorySaver() if database else None)
    await graph.ainvoke(said("hello"), CONFIG)
    await graph.ainvoke(LARGE, CONFIG)
    assert "committed" in await asyncio.to_thread(verdicts, graph)


async def test_what_a_saver_is_asked() -> None:
    """Every asynchronous method of the checkpointer."""
    async with AsyncSQLAlchemySaver.from_url("sqlite:///threads.db") as saver:
        await saver.setup()
        graph = agent(checkpointer=saver)
        await graph.ainvoke(said("hello"), {**CONFIG, "run_id": RUN})
        await graph.aupdate_state(CONFIG, {"messages": []})
        history = [each async for each in saver.alist(CONFIG)]
        assert (await graph.aget_state(history[-1].config)).config == history[-1].config
        channels = await saver.aget_delta_channel_history(config=history[0].config, channels=["messages"])
        assert set(channels) == {"messages"}
        await saver.acopy_thread("thread", "copy")
        await saver.aprune(["copy"], strategy="keep_latest")
        assert len(await saver.astats("thread")) == 1
        async with saver.alease("thread"):
            await saver.asweep(older_than=10**9)
        await saver.areclaim()
        await saver.adelete_for_runs([str(RUN)])
        await saver.adelete_thread("copy")
        assert len(await asyncio.to_thread(saver.threads)) == 1


async def test_a_list_by_itself() -> None:
    """`acompact_messages` reads the vocabulary on a worker thread, too."""
    offline_encoding.cache_clear()
    messages = convert_to_messages(LARGE["messages"])
    assert len(await acompact_messages(messages, max_tokens=2_000)) < len(messages)


async def test_what_needs_no_tokenizer_is_an_error_at_build_time() -> None:
    """An unknown window and a URL that is none; the rest is an error of the first turn, and of each one after it."""
    with pytest.raises(SettingsError, match="context_window"):
        create_compacting_agent(ScriptedModel())
    with pytest.raises(DatabaseError, match="no database URL"):
        agent(database="nowhere")
    crowded = create_compacting_agent(ScriptedModel(), settings=SETTINGS, system_prompt=filler(3_000))
    missing = agent(database="sqlite:////no/such/folder/x.db")
    for graph, error, words in ((crowded, SettingsError, "shorten the prompt"), (missing, DatabaseError, "folder")):
        for _ in range(2):
            with pytest.raises(error, match=words):
                await graph.ainvoke(said("hello"), CONFIG)


FRESH = """
import asyncio
from blockbuster import BlockBuster
from tests.graph.test_event_loop import BUILDS, CONFIG, LARGE

async def main():
    for build in BUILDS.values():
        await build(database="sqlite:///fresh.db").ainvoke(LARGE, CONFIG)

guard = BlockBuster()
guard.activate()
asyncio.run(main())
"""


def test_in_a_process_that_has_used_nothing_yet(tmp_path: Path) -> None:
    """Drivers and vocabularies that no earlier test has loaded."""
    root = Path(__file__).parents[2]
    code = f"import sys; sys.path.insert(0, {str(root)!r})\n{FRESH}"
    # -u: where output is buffered, what BlockBuster has patched crashes the interpreter at its end
    done = subprocess.run(
        [sys.executable, "-u", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]


async def test_a_forgotten_database_is_closed_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    """A factory makes a graph for each request: the connections of the last one are closed off the loop."""
    graph = agent(database="sqlite:///a.db", checkpointer=InMemorySaver())
    await graph.ainvoke(LARGE, CONFIG)
    del graph
    gc.collect()
    await asyncio.sleep(0.05)
    assert "Exception during reset" not in caplog.text
