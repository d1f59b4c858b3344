"""Our agent and LangChain's with the middleware as Runnables and as sub-agents, in every way to stream."""

import warnings
from typing import Any

import pytest
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from langgraph_compaction.graph import CompactionSettings, CompactionState
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.testing import ScriptedModel, StreamingModel, calls, texts, usage
from tests.fakes import copying
from tests.graph import harness
from tests.graph.harness import (
    CONFIG,
    SUMMARY,
    WORDS,
    Asynchronous,
    Drive,
    events,
    filler,
    full,
    rounds,
    said,
    values,
    verdicts,
)
from tests.graph.middleware import agents
from tests.invariants import is_summary

BUILDS = {"ours": harness.agent, "langchain": agents.agent}
AS_NODE: dict[Any, dict[str, Any]] = {
    harness.agent: {"checkpointer": None},
    agents.agent: {"checkpointer": None, "channel": "compaction"},
}
"""How each builds an agent that is a node of a parent with the channels."""
MODES = ["values", "updates", "messages", "custom", "debug", "tasks", "checkpoints"]


@pytest.fixture(params=BUILDS)
def build(request: pytest.FixtureRequest) -> Any:
    """Build an agent, ours or LangChain's."""
    return BUILDS[request.param]


@tool
def ask() -> str:
    """Ask the user."""
    return f"they said {interrupt('which one?')}"


async def invoked(go: Drive, runnable: Runnable[Any, Any], given: Any, **options: Any) -> Any:
    """Run any runnable in this way."""
    return await (
        runnable.ainvoke(given, **options) if isinstance(go, Asynchronous) else _off(runnable, given, options)
    )


async def _off(runnable: Runnable[Any, Any], given: Any, options: dict[str, Any]) -> Any:
    return await harness.asyncio.to_thread(lambda: runnable.invoke(given, **options))


def text_of(state: dict[str, Any]) -> str:
    """The answer's text."""
    return str(state["messages"][-1].text)


async def test_a_part_of_a_chain(go: Drive, build: Any) -> None:
    """`|` before and behind it, under a configuration bound to it."""
    graph = build(ScriptedModel(replies=["done"]))
    chain = RunnableLambda(lambda given: given) | graph.with_config(CONFIG) | text_of
    assert await invoked(go, chain, full()) == "done"
    assert verdicts(graph) == ["committed"]


async def test_a_batch_keeps_threads_apart(go: Drive, build: Any) -> None:
    """Each input has its thread, its compaction and its summary."""
    graph = build(ScriptedModel(), ScriptedModel(replies=[copying(r"NEEDLE-\d+")]))
    inputs = [{"messages": [HumanMessage(f"NEEDLE-{n}"), *rounds(8), HumanMessage("now?")]} for n in range(4)]
    configs: list[Any] = [{"configurable": {"thread_id": str(n)}} for n in range(4)]
    if isinstance(go, Asynchronous):
        await graph.abatch(inputs, configs)
    else:
        await harness.asyncio.to_thread(lambda: graph.batch(inputs, configs))
    for number in range(4):
        assert verdicts(graph, str(number)) == ["committed"]
        held = texts(graph.get_state(configs[number]).values["messages"])
        assert [n for n in range(4) if f"NEEDLE-{n}" in held] == [number]


async def test_a_fallback_takes_over(go: Drive, build: Any) -> None:
    """Another agent answers the same input where the first one's model fails."""
    first, second = build(ScriptedModel(replies=[ValueError("down")])), build(ScriptedModel(replies=["done"]))
    assert text_of(await invoked(go, first.with_fallbacks([second]), full(), config=CONFIG)) == "done"
    assert verdicts(second) == ["committed"]
    assert text_of(values(second)) == "done"


async def test_a_tool_of_another_agent(go: Drive, build: Any) -> None:
    """`as_tool`: its answer comes back, behind the messages that it was given."""
    model = ScriptedModel(replies=["forty-two"])
    inner = build(model, checkpointer=None)
    with warnings.catch_warnings(action="ignore"):
        assert "messages" in inner.as_tool(name="expert", description="Asks the expert.").args
        as_tool = inner.as_tool(name="expert", description="Asks the expert.", arg_types={"messages": list})
    found = await invoked(go, as_tool, full())
    assert found["messages"][:-1] == full()["messages"]
    assert found["messages"][-1].text == "forty-two"
    assert is_summary(model.received[0][0])


async def test_a_tool_that_calls_the_agent(go: Drive, build: Any) -> None:
    """A supervisor whose tool runs the sub-agent with a conversation of its own: neither's rows touch the other's."""
    inner = build(ScriptedModel(replies=["forty-two"]), checkpointer=None)

    @tool
    async def aexpert(question: str) -> str:
        """Ask the expert."""
        return text_of(await inner.ainvoke({"messages": [*rounds(8), HumanMessage(question)]}))

    @tool
    def expert(question: str) -> str:
        """Ask the expert."""
        return text_of(inner.invoke({"messages": [*rounds(8), HumanMessage(question)]}))

    chosen = aexpert if isinstance(go, Asynchronous) else expert
    model = ScriptedModel(replies=[calls((chosen.name, {"question": "how much?"})), "it is 42"])
    outer = build(model, tools=[chosen])
    await go.invoke(outer, said("ask"))
    assert [m.text for m in values(outer)["messages"] if isinstance(m, ToolMessage)] == ["forty-two"]
    assert verdicts(outer) == []
    rows = records_of(inner).history("thread")
    assert {row.namespace for row in rows} <= {"tools"}


def parent_of(graph: Any, state: Any = CompactionState) -> Any:
    """A parent that shares `messages` with the agent, which is its node."""
    parent = StateGraph(state)
    parent.add_node("team", graph)
    parent.add_edge(START, "team")
    return parent.compile(checkpointer=InMemorySaver())


async def test_a_sub_agent_with_messages_of_its_own(go: Drive, build: Any) -> None:
    """Under a supervisor that hands it a task: its thread is kept in its namespace, turn after turn."""
    inner = build(ScriptedModel(replies=[usage(AIMessage("fine"), 100)]), checkpointer=True)

    def hand_over(state: MessagesState) -> dict[str, Any]:
        done = inner.invoke({"messages": [*rounds(8, tag="own"), HumanMessage(state["messages"][-1].text)]})
        return {"messages": [AIMessage(done["messages"][-1].text)]}

    async def ahand_over(state: MessagesState) -> dict[str, Any]:
        done = await inner.ainvoke({"messages": [*rounds(8, tag="own"), HumanMessage(state["messages"][-1].text)]})
        return {"messages": [AIMessage(done["messages"][-1].text)]}

    parent = parent_of(RunnableLambda(hand_over, afunc=ahand_over), MessagesState)
    await go.invoke(parent, said("do it"))
    await go.invoke(parent, said("and again"))
    told = parent.get_state(CONFIG).values["messages"]
    assert [message.text for message in told] == ["do it", "fine", "and again", "fine"]
    rows = records_of(inner).history("thread")
    assert {row.namespace for row in rows} == {"team"}
    assert "committed" in {row.verdict for row in rows}


async def test_a_sub_agent_that_shares_the_messages(go: Drive, build: Any) -> None:
    """The parent keeps all and the view of it, nothing is summarized twice, its rows stand under the node's name."""
    model = ScriptedModel(replies=[filler(60)])
    inner = build(model, ScriptedModel(replies=[copying(r"SENTINEL-\d+")]), **AS_NODE[build])
    parent = parent_of(inner)
    for turn in range(10):
        await go.invoke(parent, said(f"SENTINEL-{turn} {filler(100)}", f"user-{turn}"))
    whole, rows = parent.get_state(CONFIG).values["messages"], records_of(inner).history("thread")
    assert [message.id for message in whole[::2]] == [f"user-{turn}" for turn in range(10)]
    assert [message.text for message in whole[1::2]] == [filler(60)] * 10
    assert [is_summary(message) for message in values(parent)["messages"]].index(True) == 0
    assert sum(map(is_summary, values(parent)["messages"])) == 1
    assert [row.verdict for row in rows] == ["committed"] * 3
    assert {row.namespace for row in rows} == {"team"}
    assert all(f"SENTINEL-{turn}" in texts(model.received[-1]) for turn in range(10))


async def test_what_arrives_while_a_shared_sub_agent_waits_stays(go: Drive, build: Any) -> None:
    """A message that comes with the answer stands behind the question, and other channels get what is theirs."""
    model = ScriptedModel(replies=[usage(calls(("ask", {})), 900), usage(AIMessage("done"), 100)])
    parent = parent_of(build(model, tools=[ask], **AS_NODE[build]))
    await go.invoke(parent, {"messages": [*rounds(4), HumanMessage("go", id="q")]})
    late = HumanMessage("by the way", id="late")
    await go.invoke(parent, Command(resume="left", update={"messages": [late]}))
    names = [message.id for message in values(parent)["messages"]]
    assert names[names.index("q") + 1] == "late"
    assert [message.type for message in values(parent)["messages"][-3:]] == ["ai", "tool", "ai"]
    assert is_summary(values(parent)["messages"][0])


class Asked(CompactionState):
    """A parent that wants the sub-agent's structured output, too."""

    structured_response: Any


async def test_a_shared_sub_agents_other_results_reach_the_parent(go: Drive) -> None:
    """By the names of its channels."""
    schema = {"title": "Answer", "type": "object", "properties": {"n": {"type": "integer"}}, "description": "It."}
    inner = agents.agent(
        ScriptedModel(replies=[calls(("Answer", {"n": 3}))]), response_format=schema, **AS_NODE[agents.agent]
    )
    parent = parent_of(inner, Asked)
    await go.invoke(parent, full())
    assert values(parent)["structured_response"] == {"n": 3}


async def test_an_interrupt_inside_a_tool_of_a_sub_agent(go: Drive, build: Any) -> None:
    """The parent is resumed, the tool has its answer, and nothing is compacted while it waits."""
    model = ScriptedModel(replies=[usage(calls(("ask", {})), 900), usage(AIMessage("done"), 100)])
    inner = build(model, tools=[ask], checkpointer=None)
    parent = parent_of(inner)
    waiting = await go.invoke(parent, {"messages": [*rounds(4), HumanMessage("go", id="q")]})
    assert waiting["__interrupt__"][0].value == "which one?"
    assert records_of(inner).history("thread") == []
    await go.invoke(parent, Command(resume="left"))
    assert text_of(values(parent)) == "done"
    assert "they said left" in texts(model.received[-1])
    assert [row.verdict for row in records_of(inner).history("thread")] == ["committed"]


@pytest.mark.parametrize("mode", MODES)
async def test_every_mode_of_streaming(go: Drive, build: Any, mode: str) -> None:
    """Each has something to say, only the answer's tokens stream, and the state is the same after all."""
    summarizer = StreamingModel(replies=["<summary>a ghost walks</summary>"])
    graph = build(StreamingModel(replies=["here you are"]), summarizer)
    chunks = await go.stream(graph, full(), stream_mode=mode)
    assert chunks
    if mode == "messages":
        assert "".join(message.text for message, _ in chunks) == "here you are"
    if mode == "values":
        assert [message.id for message in chunks[-1]["messages"][:-1]] == [m.id for m in full()["messages"]]
        assert chunks[-1]["messages"][-1].text == "here you are"
    if mode == "custom":
        assert [e["verdict"] for e in events([(mode, c) for c in chunks], "CompactionEvent")] == ["committed"]
    if mode == "updates":
        assert "ghost" in str(chunks)
    assert verdicts(graph) == ["committed"]
    assert text_of(values(graph)) == "here you are"


async def test_events_of_a_sub_agent_reach_the_parents_stream(go: Drive, build: Any) -> None:
    """With `subgraphs=True`, as those of any other subgraph; its answer's tokens, too, and no others."""
    summarizer = StreamingModel(replies=["<summary>a ghost walks</summary>"])
    parent = parent_of(build(StreamingModel(replies=["here you are"]), summarizer, checkpointer=None))
    chunks = await go.stream(parent, full(), stream_mode=["custom", "messages"], subgraphs=True)
    told = events([(mode, data) for _, mode, data in chunks if mode == "custom"], "CompactionEvent")
    assert [event["verdict"] for event in told] == ["committed"]
    assert "".join(data[0].text for _, mode, data in chunks if mode == "messages") == "here you are"


async def test_a_whole_thread_is_the_same_in_both_ways(go: Drive, build: Any) -> None:
    """Ten turns with compactions: no request over the limit, everything still there."""
    model = ScriptedModel(replies=[filler(60)])
    graph = build(model, ScriptedModel(replies=[copying(r"SENTINEL-\d+")]))
    for turn in range(10):
        await go.invoke(graph, said(f"SENTINEL-{turn} {filler(100)}", f"user-{turn}"))
    assert set(verdicts(graph)) == {"committed"}
    assert max(map(harness.request_tokens, model.received)) <= 1_000
    assert all(f"SENTINEL-{turn}" in texts(model.received[-1]) for turn in range(10))
    assert SUMMARY not in texts(model.received[-1])


async def test_a_hook_that_is_called_by_itself(go: Drive) -> None:
    """Outside of a run and without a runtime, as a test of an application calls it: it compacts, and answers."""
    middleware = CompactionMiddleware(
        settings=CompactionSettings(**harness.SMALL), summarizer=ScriptedModel(replies=[SUMMARY]), token_counter=WORDS
    )
    sent: list[ModelRequest[Any]] = []

    def handler(asked: ModelRequest[Any]) -> ModelResponse[Any]:
        sent.append(asked)
        return ModelResponse(result=[AIMessage("answered", id="the-answer")])

    async def ahandler(asked: ModelRequest[Any]) -> ModelResponse[Any]:
        return handler(asked)

    messages: list[Any] = full()["messages"]
    without_runtime: Any = None
    request: ModelRequest[Any] = ModelRequest(
        model=ScriptedModel(), messages=messages, state={"messages": messages}, runtime=without_runtime
    )
    if isinstance(go, Asynchronous):
        answered = await middleware.awrap_model_call(request, ahandler)
    else:
        answered = middleware.wrap_model_call(request, handler)
    assert answered.model_response.result[0].text == "answered"
    assert any(map(is_summary, sent[0].messages))
