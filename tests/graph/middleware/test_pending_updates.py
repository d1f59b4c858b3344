"""`stream_mode="updates"`: a call that compacts streams one update, as any other call does."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, hook_config
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Overwrite

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import CompactionThread, MessageRefusedError, as_node
from langgraph_compaction.graph.offline_edit import newest
from langgraph_compaction.graph.pending_updates import context_of_hook, in_view, pending, update_of_hook
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.runtime.dependencies import NO_RECORDS, Dependencies
from langgraph_compaction.nodes.state import with_ids
from langgraph_compaction.nodes.testing import ScriptedModel, calls, texts, usage
from tests.graph.harness import CONFIG, THREAD, Drive, filler, full, rounds, said, standing, values, verdicts
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


def of_model(chunks: list[Any]) -> list[Any]:
    """The entries of the agent's model."""
    return [chunk["model"] for chunk in chunks if "model" in chunk]


async def test_a_call_that_compacts_streams_one_update(go: Drive) -> None:
    """The model's entry is one dict with the answer; the shorter list comes with the end of the agent."""
    graph = agent(ScriptedModel(replies=[CALM]))
    chunks = await go.stream(graph, full(), stream_mode="updates")
    assert verdicts(graph) == ["committed"]
    (answered,) = of_model(chunks)
    assert [message.text for message in answered["messages"]] == ["done"]
    assert last_texts(chunks) == ["done", "done"]
    removal, *replaced = chunks[-1]["CompactionMiddleware.after_agent"]["messages"]
    assert removal == RemoveMessage(REMOVE_ALL_MESSAGES)
    assert replaced == values(graph)["messages"]
    assert len([m for m in replaced if is_summary(m)]) == 1
    assert not standing(graph)["pending"]


async def test_a_compaction_after_the_answer_streams_one_update_a_node(go: Drive) -> None:
    """The answer comes with the model, the shorter list with the end of the agent."""
    graph = agent(ScriptedModel(replies=[usage(AIMessage(filler(100), id="the-answer"), 790, 100)]))
    chunks = await go.stream(graph, {"messages": rounds(6)[:-1]}, stream_mode="updates")
    assert verdicts(graph) == ["committed"]
    assert [[m.id for m in answered["messages"]] for answered in of_model(chunks)] == [["the-answer"]]
    assert last_texts(chunks) == [filler(100)] * 2


async def test_a_turn_of_several_calls_and_compactions(go: Drive) -> None:
    """Each call goes on from what the calls before it have left, and streams one update."""
    look_again = [calls(("look", {"n": 300}), start=n) for n in range(1, 5)]
    model = ScriptedModel(replies=[*look_again, CALM])
    graph = agent(model, tools=[look])
    chunks = await go.stream(graph, full(), stream_mode="updates")
    assert verdicts(graph).count("committed") >= 2
    assert [len(answered["messages"]) for answered in of_model(chunks)] == [1] * 5
    for request in model.received:
        check_request(request)  # type: ignore[arg-type] # any messages
    assert not any("ra0-0 " in texts(request) for request in model.received)
    kept = values(graph)["messages"]
    assert kept[-1].text == "done"
    assert len({m.id for m in kept}) == len(kept)
    said_once = (
        [m.id for m in CompactionThread(graph, CONFIG).transcript()]
        if isinstance(graph.checkpointer, InMemorySaver)
        else []
    )
    assert said_once[:16] == [m.id for m in rounds(8)]
    assert len(set(said_once)) == len(said_once) == 16 + 1 + 4 * 2 + 1


async def test_while_a_tool_waits_each_message_is_seen_once(go: Drive) -> None:
    """Readers of a thread that waits in a tool see the compacted conversation, and resuming goes on from it."""
    others = [HumanInTheLoopMiddleware(interrupt_on={"look": True})]
    model = ScriptedModel(replies=[usage(calls(("look", {"n": 60})), 100), CALM])
    graph = agent(model, tools=[look], others=others)
    await go.invoke(graph, full())
    assert verdicts(graph) == ["committed"]
    given = [m.id for m in full()["messages"]]
    assert [m.id for m in CompactionThread(graph, CONFIG).transcript()][:-1] == given
    assert len(CompactionThread(graph, CONFIG).transcript()) == len(given) + 1
    assert CompactionThread(graph, CONFIG).preview().tokens_before < 800
    assert CompactionThread(graph, CONFIG).pins() == []
    chunks = await go.stream(graph, Command(resume={"decisions": [{"type": "approve"}]}), stream_mode="updates")
    assert "done" in last_texts(chunks)
    assert "ra0-0 " not in texts(model.received[-1])
    assert "seen59" in texts(model.received[-1])
    assert sum(map(is_summary, values(graph)["messages"])) == 1
    assert [m.id for m in CompactionThread(graph, CONFIG).transcript()][: len(given)] == given


async def test_a_run_that_died_after_a_compaction(go: Drive) -> None:
    """What it had compacted holds in the next run, which writes it."""
    model = ScriptedModel(replies=[usage(calls(("look", {"n": 5})), 100), ValueError("down"), CALM])
    graph = agent(model, tools=[look])
    with pytest.raises(ValueError, match="down"):
        await go.invoke(graph, full())
    assert standing(graph)["pending"]
    await go.invoke(graph, said("once more", "again"))
    assert verdicts(graph) == ["committed"]
    assert "ra0-0 " not in texts(model.received[-1])
    kept = values(graph)["messages"]
    assert [m.text for m in kept[-2:]] == ["once more", "done"]
    assert sum(map(is_summary, kept)) == 1
    assert not standing(graph)["pending"]


async def test_an_undo_of_a_run_that_was_given_up(go: Drive) -> None:
    """Of a compaction that nothing has written, all comes back, and nothing twice."""
    model = ScriptedModel(replies=[usage(calls(("look", {"n": 5})), 100), ValueError("down"), CALM])
    graph = agent(model, tools=[look])
    with pytest.raises(ValueError, match="down"):
        await go.invoke(graph, full())
    graph.update_state(CONFIG, {"jump_to": None}, as_node="CompactionMiddleware.after_agent")
    assert standing(graph)["pending"]
    assert len(CompactionThread(graph, CONFIG).undo().compactions) == 1
    assert [m.id for m in values(graph)["messages"]][:17] == [m.id for m in full()["messages"]]
    assert len(values(graph)["messages"]) == 17 + 2
    assert graph.get_state(CONFIG).next == ()
    await go.invoke(graph, said("once more", "again"))
    assert "ra0-0 " in texts(model.received[-1])


async def test_an_overflow_and_a_refusal_stream_one_update(go: Drive) -> None:
    """A call that is sent once more, and a message that is not sent, come as one dict with one answer."""
    graph = agent(ScriptedModel(replies=[ContextOverflowError("prompt is too long"), CALM]))
    chunks = await go.stream(graph, {"messages": rounds(6)[:-1]}, stream_mode="updates")
    assert (verdicts(graph), last_texts(chunks)) == (["committed"], ["done"] * 2)
    graph = agent(ScriptedModel())
    chunks = await go.stream(graph, said(filler(1_200), "large"), stream_mode="updates")
    assert len(set(last_texts(chunks))) == 1
    first, told = values(graph)["messages"]
    assert first.id == "large"
    assert told.text == last_texts(chunks)[0]
    assert "was not sent to the model" in told.text


async def test_nothing_of_a_compaction_streams_as_a_message(go: Drive) -> None:
    """`stream_mode="messages"` has the answer and neither the summary nor an old message."""
    graph = agent(ScriptedModel(replies=[CALM]))
    chunks = await go.stream(graph, full(), stream_mode="messages")
    assert [message.text for message, _ in chunks] == ["done"]


async def test_the_values_at_the_end_are_compacted(go: Drive) -> None:
    """Also in a parent that has the agent as a node."""
    chunks = await go.stream(agent(ScriptedModel(replies=[CALM])), full(), stream_mode="values")
    assert sum(map(is_summary, chunks[-1]["messages"])) == 1
    builder = StateGraph(MessagesState)
    inner = agent(
        ScriptedModel(replies=[usage(calls(("look", {"n": 5})), 100), CALM]), tools=[look], checkpointer=None
    )
    builder.add_node("agent", as_node(inner, persist="subgraph"))
    builder.add_edge(START, "agent")
    parent = builder.compile(checkpointer=InMemorySaver())
    state = await go.invoke(parent, full())
    assert sum(map(is_summary, state["messages"])) == 1
    assert "ra0-0 " not in texts(state["messages"])
    assert state["messages"][-1].text == "done"


async def test_an_answer_with_the_id_of_a_message_that_left(go: Drive) -> None:
    """It is an answer of its own: it neither replaces the old message nor leaves the view with it."""
    graph = agent(ScriptedModel(replies=[usage(AIMessage("done", id="r-answer-0"), 100)]))
    await go.invoke(graph, full())
    assert values(graph)["messages"][-1].text == "done"
    assert values(graph)["messages"][-1].id != "r-answer-0"


async def test_no_ghosts_from_an_agent_in_another_graph(go: Drive) -> None:
    """Its answer streams as a message and no summary does, whether it was written before the answer or after it."""
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
    """A message that is in view and that other middleware removes before the end of the agent."""
    graph = agent(ScriptedModel(replies=[CALM]), others=[Forgets()])
    await go.invoke(graph, full())
    kept = [message.id for message in values(graph)["messages"]]
    assert "r-answer-7" not in kept
    assert "question" in kept


async def test_messages_without_ids_are_found_again(go: Drive) -> None:
    """Of a list that had none when it was compacted, and whose messages the state's reducer named afterwards."""

    class Bare(AgentMiddleware[Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:  # noqa: ARG002 - as the base class has it
            return {"messages": Overwrite([m.model_copy(update={"id": None}) for m in state["messages"]])}

    graph = agent(ScriptedModel(replies=[CALM]), others=[Bare()])
    updates = await go.stream(graph, full(), stream_mode="updates")
    assert of_model(updates)[0]["messages"][-1].text == "done"
    kept = values(graph)["messages"]
    assert sum(map(is_summary, kept)) == 1
    assert [m.text for m in kept[-2:]] == ["and now?", "done"]
    assert "ra0-0 " not in texts(kept)


def test_a_hook_that_compacts_nothing_replaces_no_messages_without_ids() -> None:
    """They have the same ids whenever the state is read, so they do not count as changed."""
    bare = [HumanMessage("hello")]
    dependencies = Dependencies(settings=CompactionSettings(), records=NO_RECORDS)
    context = context_of_hook({"messages": bare}, None, dependencies)
    assert "messages" not in update_of_hook(context, bare)
    assert "messages" in update_of_hook(context, [HumanMessage("before")])


def test_the_command_line_reads_what_is_in_view(tmp_path: Path) -> None:
    """Of a thread that waits in a tool: the compacted conversation, and what left it in the archive alone."""
    others = [HumanInTheLoopMiddleware(interrupt_on={"look": True})]
    model = ScriptedModel(replies=[usage(calls(("look", {"n": 60})), 100), CALM])
    with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'agent.db'}") as saver:
        saver.setup()
        graph = agent(model, tools=[look], others=others, checkpointer=saver)
        graph.invoke(full(), CONFIG)
        shown = newest(saver, THREAD).checkpoint["channel_values"]["messages"]
    assert sum(map(is_summary, shown)) == 1
    assert "ra0-0 " not in texts(shown)


def test_what_is_pending_is_applied_in_place() -> None:
    """Dropped, clipped, added and reordered messages; what arrived since stays in its place; twice is as once."""
    a, b, c, d = (HumanMessage(name, id=name) for name in "abcd")
    short, summary = HumanMessage("c-", id="c"), HumanMessage("s", id="s")
    channel = {"pending": pending([a, b, c, d], [a, summary, short, d])}
    between, behind = HumanMessage("x", id="x"), HumanMessage("y", id="y")
    view = in_view([a, b, c, between, d, behind], channel)
    assert [m.text for m in view] == ["a", "s", "c-", "x", "d", "y"]
    assert in_view(view, channel) == view
    assert [m.text for m in in_view([a, b, d], channel)] == ["a", "s", "d"]
    assert in_view([a, b], {}) == [a, b]
    gone = {"pending": pending([a, b], [summary])}
    assert [m.text for m in in_view([a, b, behind], gone)] == ["s", "y"]
    assert [m.text for m in in_view([behind], gone)] == ["s", "y"]


def test_messages_that_had_no_ids_are_found_by_their_text() -> None:
    """Messages whose ids have changed are found by their text, in the order of the messages.

    A message that kept its derived id does not count as another message with the same text.
    """
    bare: list[Any] = [HumanMessage(text) for text in ("a", "ok", "ok", "b")]
    first, *kept = given = with_ids(bare, derived=True)
    channel = {"pending": pending(given, [HumanMessage("s", id="s"), *kept], bare)}
    summary = ("s", "s")
    left = [(message.text, message.id) for message in kept]
    renamed = [message.model_copy(update={"id": f"new-{n}"}) for n, message in enumerate(given)]
    later = HumanMessage("ok", id="later")
    for held in (given, renamed):
        view = in_view([*held, later], channel)
        assert [(message.text, message.id) for message in view] == [summary, *left, ("ok", "later")]
    view = in_view([first, given[1], renamed[2], given[3]], channel)
    assert [(message.text, message.id) for message in view] == [summary, *left]


async def test_a_request_alone_streams_no_message(go: Drive) -> None:
    """Neither the summary nor the removal that replaces the list."""
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
