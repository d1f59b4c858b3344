"""`stream_mode="updates"`: a call that compacts streams one update, as any other call does."""

from dataclasses import replace
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, hook_config
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Overwrite

from langgraph_compaction.graph import CompactionThread, MessageRefusedError
from langgraph_compaction.nodes.testing import ScriptedModel, calls, texts, usage
from tests.graph.harness import CONFIG, Drive, filler, full, rounds, said, standing, values, verdicts
from tests.graph.middleware.agents import agent
from tests.invariants import check_request, is_summary

CALM = usage(AIMessage("done"), 100)


@tool
def look(n: int) -> str:
    """Look at so many words."""
    return filler(n, "seen")


def last_texts(chunks: list[Any]) -> list[str]:
    """What the usual loop reads: the newest message of each node that wrote messages."""
    return [u["messages"][-1].text for chunk in chunks for u in chunk.values() if u and "messages" in u]


def said_in(graph: Any) -> list[Any]:
    """What was said on the thread."""
    return list(graph.get_state(CONFIG).values["messages"])


def of_model(chunks: list[Any]) -> list[Any]:
    """The entries of the agent's model."""
    return [chunk["model"] for chunk in chunks if "model" in chunk]


async def test_a_call_that_compacts_streams_one_update(go: Drive) -> None:
    """The model's entry is one dict with the answer, and no other entry has messages."""
    graph = agent(ScriptedModel(replies=[CALM]))
    chunks = await go.stream(graph, full(), stream_mode="updates")
    assert verdicts(graph) == ["committed"]
    (answered,) = of_model(chunks)
    assert [message.text for message in answered["messages"]] == ["done"]
    assert last_texts(chunks) == ["done"]
    assert said_in(graph)[:-1] == full()["messages"]
    assert sum(map(is_summary, values(graph)["messages"])) == 1


async def test_a_compaction_after_the_answer_streams_the_answer_once(go: Drive) -> None:
    """It comes with the model; the end of the agent has no messages."""
    graph = agent(ScriptedModel(replies=[usage(AIMessage(filler(100), id="the-answer"), 790, 100)]))
    chunks = await go.stream(graph, {"messages": rounds(6)[:-1]}, stream_mode="updates")
    assert verdicts(graph) == ["committed"]
    assert [[m.id for m in answered["messages"]] for answered in of_model(chunks)] == [["the-answer"]]
    assert last_texts(chunks) == [filler(100)]


async def test_a_turn_of_several_calls_and_compactions(go: Drive) -> None:
    """Each call goes on from what the calls before it have left, and streams one update."""
    look_again = [calls(("look", {"n": 300}), start=n) for n in range(1, 5)]
    model = ScriptedModel(replies=[*look_again, CALM])
    graph = agent(model, tools=[look])
    chunks = await go.stream(graph, full(), stream_mode="updates")
    assert verdicts(graph).count("committed") >= 2
    assert [len(answered["messages"]) for answered in of_model(chunks)] == [1] * 5
    for request in model.received:
        check_request(request)
    assert not any("ra0-0 " in texts(request) for request in model.received)
    once = [message.id for message in said_in(graph)]
    assert once[:16] == [message.id for message in rounds(8)]
    assert len(set(once)) == len(once) == 16 + 1 + 4 * 2 + 1
    assert said_in(graph)[-1].text == "done"


async def test_while_a_tool_waits_the_compaction_holds(go: Drive) -> None:
    """Readers of a thread that waits in a tool know of the compaction, and resuming goes on from it."""
    others = [HumanInTheLoopMiddleware(interrupt_on={"look": True})]
    model = ScriptedModel(replies=[usage(calls(("look", {"n": 60})), 100), CALM])
    graph = agent(model, tools=[look], others=others)
    await go.invoke(graph, full())
    assert verdicts(graph) == ["committed"]
    assert said_in(graph)[:-1] == full()["messages"]
    assert CompactionThread(graph, CONFIG).transcript() == said_in(graph)
    assert CompactionThread(graph, CONFIG).preview().tokens_before < 800
    chunks = await go.stream(graph, Command(resume={"decisions": [{"type": "approve"}]}), stream_mode="updates")
    assert "done" in last_texts(chunks)
    assert "ra0-0 " not in texts(model.received[-1])
    assert "seen59" in texts(model.received[-1])
    assert sum(map(is_summary, values(graph)["messages"])) == 1


async def test_a_run_that_died_after_a_compaction(go: Drive) -> None:
    """What it had compacted holds in the next run."""
    model = ScriptedModel(replies=[usage(calls(("look", {"n": 5})), 100), ValueError("down"), CALM])
    graph = agent(model, tools=[look])
    with pytest.raises(ValueError, match="down"):
        await go.invoke(graph, full())
    await go.invoke(graph, said("once more", "again"))
    assert verdicts(graph) == ["committed"]
    assert "ra0-0 " not in texts(model.received[-1])
    kept = values(graph)["messages"]
    assert [m.text for m in kept[-2:]] == ["once more", "done"]
    assert sum(map(is_summary, kept)) == 1
    assert said_in(graph)[:17] == full()["messages"]


async def test_an_overflow_and_a_refusal_stream_one_update(go: Drive) -> None:
    """A call that is sent once more, and a message that is not sent, come as one dict with one answer."""
    graph = agent(ScriptedModel(replies=[ContextOverflowError("prompt is too long"), CALM]))
    chunks = await go.stream(graph, {"messages": rounds(6)[:-1]}, stream_mode="updates")
    assert (verdicts(graph), last_texts(chunks)) == (["committed"], ["done"])
    graph = agent(ScriptedModel())
    chunks = await go.stream(graph, said(filler(1_200), "large"), stream_mode="updates")
    assert len(set(last_texts(chunks))) == 1
    first, told = said_in(graph)
    assert first.id == "large"
    assert told.text == last_texts(chunks)[0]
    assert "was not sent to the model" in told.text


async def test_an_answer_with_the_id_of_a_message_that_left(go: Drive) -> None:
    """It is an answer of its own: it neither replaces the old message nor is hidden with it."""
    graph = agent(ScriptedModel(replies=[usage(AIMessage("done", id="r-answer-0"), 100)]))
    await go.invoke(graph, full())
    assert said_in(graph)[:-1] == full()["messages"]
    assert [messages[-1].text for messages in (said_in(graph), values(graph)["messages"])] == ["done"] * 2


async def test_no_ghosts_from_an_agent_in_another_graph(go: Drive) -> None:
    """Its answer streams as a message, and no summary or old message does, compacted before the answer or after."""
    before, large = [CALM], [usage(AIMessage("done"), 790, 100)]
    for replies, given in ((before, full()), (large, {"messages": rounds(6)[:-1]})):
        inner = agent(ScriptedModel(replies=replies), checkpointer=None)
        builder = StateGraph(MessagesState)
        builder.add_node("team", inner)
        builder.add_edge(START, "team")
        parent = builder.compile(checkpointer=InMemorySaver())
        chunks = await go.stream(parent, given, stream_mode="messages", subgraphs=True)
        assert verdicts(inner) == ["committed"]
        assert [message.text for _, (message, _) in chunks] == ["done"]


class Signs(AgentMiddleware[Any, Any]):
    """Another middleware, which rewrites the answer."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Sign it."""
        return self._signed(handler(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Sign it, asynchronously."""
        return self._signed(await handler(request))

    def _signed(self, response: Any) -> Any:
        (answer,) = response.result
        return replace(response, result=[answer.model_copy(update={"content": f"{answer.text}, signed"})])


async def test_an_answer_rewritten_before_the_middleware_is_kept(go: Drive) -> None:
    """Also in a call that compacts."""
    graph = agent(ScriptedModel(replies=[CALM]), others=[Signs()])
    await go.invoke(graph, full())
    assert verdicts(graph) == ["committed"]
    assert values(graph)["messages"][-1].text == "done, signed"


class Forgets(AgentMiddleware[Any, Any]):
    """Another middleware, which takes a message out of the state in the middle of a turn."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002 - as the base class has it
        """Take out the question's predecessor, once."""
        held = any(message.id == "r-answer-7" for message in state["messages"])
        return {"messages": [RemoveMessage(id="r-answer-7")]} if held else None


async def test_what_another_writer_removes_stays_removed(go: Drive) -> None:
    """A message that the model has seen and that other middleware removes before the end of the agent."""
    graph = agent(ScriptedModel(replies=[CALM]), others=[Forgets()])
    await go.invoke(graph, full())
    kept = [message.id for message in said_in(graph)]
    assert "r-answer-7" not in kept
    assert "question" in kept


async def test_a_middleware_that_takes_the_ids_away_in_each_turn(go: Drive) -> None:
    """The compaction of the first turn holds in the second: what has no id is known by its place."""

    class Bare(AgentMiddleware[Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:  # noqa: ARG002 - as the base class has it
            return {"messages": Overwrite([m.model_copy(update={"id": None}) for m in state["messages"]])}

    model = ScriptedModel(replies=[CALM])
    graph = agent(model, others=[Bare()])
    await go.invoke(graph, full())
    await go.invoke(graph, said("and then?"))
    assert verdicts(graph) == ["committed"]
    for request in model.received:
        assert sum(map(is_summary, request)) == 1
        assert "ra0-0 " not in texts(request)


async def test_a_request_alone_streams_no_message(go: Drive) -> None:
    """Not the summary either."""
    graph = agent(ScriptedModel())
    await go.invoke(graph, full())
    asked = {"messages": [], "compaction_request": {"focus": None, "full": True}}
    streamed = await go.stream(graph, asked, stream_mode="messages")
    assert verdicts(graph)[-1] == "committed"
    assert streamed == []


class Guard(AgentMiddleware[Any, Any, Any]):
    """Answers some inputs without the model."""

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002 - LangChain's signature
        """End the turn where the word "blocked" stands."""
        blocked = "blocked" in state["messages"][-1].text
        return {"jump_to": "end", "messages": [AIMessage("not here")]} if blocked else None


async def test_a_refusal_is_raised_once(go: Drive) -> None:
    """A later turn that calls no model does not raise it again."""
    graph = agent(ScriptedModel(replies=["done"]), others=[Guard()], on_refusal="raise")
    with pytest.raises(MessageRefusedError):
        await go.invoke(graph, said(filler(1_200), "large"))
    assert (await go.invoke(graph, said("blocked")))["messages"][-1].text == "not here"
    assert standing(graph)["step"] == "end"
    assert (await go.invoke(graph, said("hi")))["messages"][-1].text == "done"


async def test_a_view_is_stored_when_it_changes(go: Drive) -> None:
    """A turn that compacts nothing writes no new version of it."""
    graph = agent(ScriptedModel(replies=[CALM, "again"]))
    await go.invoke(graph, full())

    def version() -> Any:
        return graph.checkpointer.get_tuple(CONFIG).checkpoint["channel_versions"]["compaction_view"]

    before = version()
    await go.invoke(graph, said("hi"))
    assert version() == before
