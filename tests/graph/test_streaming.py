from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from tests.fakes import ScriptedModel, StreamingModel
from tests.graph.harness import CONFIG, WORDS, Drive, agent, full, standing, told, values, verdicts

GHOST = "<summary>a ghost walks here</summary>"
SEEN: list[dict[str, Any]] = []


def state_graph(model: Any) -> Any:
    """A small graph around a model, with a saver of its own, that notes its configuration."""

    def answer(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        SEEN.append(dict(config.get("configurable", {})))
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile()


def own_agent(model: Any) -> Any:
    """This package's own agent, as a summarizer."""
    settings = CompactionSettings(context_window=9_000)
    return create_compacting_agent(model, settings=settings, summarizer="digest", token_counter=WORDS)


def piped(model: Any) -> Runnable[Any, Any]:
    """A model inside a chain."""
    return model.with_retry()


SUMMARIZERS: dict[str, Callable[[Any], Any]] = {
    "model": lambda model: model,
    "chain": piped,
    "graph": state_graph,
    "agent": own_agent,
}


def streamed(chunks: list[Any]) -> str:
    """All text that a user interface would have shown."""
    return "".join(_message(chunk).text for chunk in chunks)


def _message(chunk: Any) -> Any:
    """The message of a chunk: `(message, metadata)`, `(namespace, (message, metadata))` or a v2 dictionary."""
    pair = chunk["data"] if isinstance(chunk, dict) else chunk
    return pair[1][0] if isinstance(pair[0], tuple) else pair[0]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("model", {}),
        ("chain", {}),
        ("graph", {}),
        ("graph", {"subgraphs": True}),
        ("agent", {"subgraphs": True, "version": "v2"}),
    ],
)
async def test_only_the_answer_streams(go: Drive, kind: str, options: dict[str, Any]) -> None:
    """No token of the summarizer, no summary and no old message appears among the messages."""
    summarizer = SUMMARIZERS[kind](StreamingModel(replies=[GHOST]))
    graph = agent(StreamingModel(replies=["here you are"]), summarizer)
    chunks = await go.stream(graph, full(), stream_mode="messages", **options)
    assert streamed(chunks) == "here you are"
    assert verdicts(graph) == ["committed"]


@pytest.mark.parametrize("kind", ["model", "graph"])
async def test_nothing_of_a_failed_summary_streams(go: Drive, kind: str) -> None:
    """A rejected reply is as silent as a good one."""
    summarizer = SUMMARIZERS[kind](StreamingModel(replies=["boo! no tags"]))
    graph = agent(StreamingModel(replies=["here you are"]), summarizer)
    assert streamed(await go.stream(graph, told(), stream_mode="messages")) == "here you are"
    assert verdicts(graph)[0] == "rejected_not_a_summary"


async def test_an_answer_that_streams_stands_whole_in_the_state(go: Drive) -> None:
    """Chunks are put together, under the id that the user interface was shown."""
    graph = agent(StreamingModel(replies=["here you are"]))
    chunks = await go.stream(graph, {"messages": [HumanMessage("hello")]}, stream_mode="messages")
    answer = values(graph)["messages"][-1]
    assert type(answer) is AIMessage
    assert answer.text == "here you are"
    assert {chunk[0].id for chunk in chunks} == {answer.id}


async def test_a_summarizer_graph_has_no_part_in_the_thread(go: Drive) -> None:
    """It inherits neither thread id nor saver, and its messages reach no checkpoint of ours."""
    SEEN.clear()
    saver = InMemorySaver()
    graph = agent(ScriptedModel(), state_graph(ScriptedModel(replies=[GHOST])), checkpointer=saver)
    await go.invoke(graph, full())
    assert SEEN
    assert not any("thread_id" in configurable for configurable in SEEN)
    assert {item.config.get("configurable", {})["checkpoint_ns"] for item in saver.list(CONFIG)} == {""}


async def test_an_agent_as_summarizer_keeps_its_own_compaction_apart(go: Drive) -> None:
    """Our own agent may serve: its state is not the thread's."""
    inner = own_agent(ScriptedModel(replies=[GHOST]))
    graph = agent(ScriptedModel(), inner)
    await go.invoke(graph, full())
    assert standing(graph)["epoch"] == 1
    assert standing(graph)["turns"] == 1
