"""Over the limit: how a conversation goes on, by the person's choice."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from langgraph_compaction.graph import CompactionThread, ContextExhaustedError, RequestError
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.state import messages_in_view
from tests.fakes import ScriptedModel
from tests.graph.harness import (
    CONFIG,
    Drive,
    agent,
    filler,
    frozen,
    full,
    rounds,
    said,
    standing,
    steps,
    values,
    verdicts,
)
from tests.graph.middleware.agents import agent as middleware_agent

WAYS = ["compact", "drop_oldest", "new_thread", "raise"]
NEW: RunnableConfig = {"configurable": {"thread_id": "new"}}


def question(graph: Any) -> dict[str, Any]:
    """What the person is asked."""
    (interrupt,) = graph.get_state(CONFIG).interrupts
    found: dict[str, Any] = interrupt.value
    return found


async def declined(go: Drive, model: Any = None, summarizer: Any = None, **options: Any) -> Any:
    """An agent whose thread was declined a compaction, and has grown over the limit since: 1,032 tokens."""
    graph = agent(model, summarizer, require_confirmation=True, **options)
    await go.invoke(graph, full())
    await go.invoke(graph, Command(resume=False))
    await go.invoke(graph, said(filler(153, "more"), "over"))
    return graph


async def test_a_new_thread_goes_on_where_this_one_ends(go: Drive) -> None:
    """The run ends without an answer and this thread stays as it was; what it hands over opens another."""
    model = ScriptedModel(replies=["first", "second"])
    graph = await declined(go, model)
    before = values(graph)["messages"]
    chunks = await go.stream(graph, Command(resume="new_thread"))
    assert steps(chunks) == ["confirm", "selective_compaction", "summarize", "commit"]
    assert frozen(values(graph)["messages"]) == frozen(before)
    assert graph.get_state(CONFIG).next == ()
    given = CompactionThread(graph, CONFIG).handoff()
    assert given == standing(graph)["handoff"]
    (newest,) = given["messages"]
    summary = given["compaction_request"]["memory"]["summary"]
    assert is_summary(summary)
    assert "what was said before" in summary.text
    assert newest.id == "over"
    assert given["compaction_request"]["memory"]["goal"] == before[0].text[:300]
    assert len(model.received) == 1
    result = await go.invoke(graph, given, NEW)
    assert [message.text for message in model.received[-1]] == [summary.text, newest.text]
    assert result["messages"][-1].text == "second"
    assert standing(graph, NEW)["goal"] == before[0].text[:300]
    await go.invoke(graph, said("and then?"), NEW)
    assert len(values(graph, NEW)["messages"]) == 5
    assert is_summary(values(graph, NEW)["messages"][0])


async def test_what_is_handed_over_carries_pins_and_the_header(go: Drive) -> None:
    """Pins by id and by text, and system messages, are part of the new thread."""
    graph = agent(require_confirmation=True)
    first, *others = full()["messages"]
    pinned = HumanMessage(f"{first.text} <Pin>never on Sundays</Pin>", id="pinning")
    await go.invoke(graph, {"messages": [pinned, *others], "compaction": {"pins": ["r-answer-3", "r-answer-99"]}})
    await go.invoke(graph, Command(resume=False))
    await go.invoke(graph, said(filler(150, "more"), "over"))
    await go.invoke(graph, Command(resume="new_thread"))
    given = CompactionThread(graph, CONFIG).handoff()
    assert given["compaction_request"]["memory"]["pins"] == ["r-answer-3"]
    assert "r-answer-3" in {message.id for message in given["messages"]}
    assert "never on Sundays" in given["compaction_request"]["memory"]["summary"].text
    await go.invoke(graph, given, NEW)
    CompactionThread(graph, NEW).compact(full=True)
    kept, summary, *_ = values(graph, NEW)["messages"]
    assert (is_summary(summary), kept.id) == (True, "r-answer-3")
    assert "never on Sundays" in summary.text


def leap(build: Any = agent, model: Any = None, summarizer: Any = None, **options: Any) -> Any:
    """An agent that asks, and whose conversation will be 648 tokens: no trigger yet."""
    return build(model, summarizer, require_confirmation=True, **options)


EARLIER = {"messages": [*rounds(6)[:-1]]}


async def leapt(go: Drive, graph: Any, **options: Any) -> dict[str, Any]:
    """What the person is asked when one input takes the conversation from below the trigger to over the limit."""
    await go.invoke(graph, EARLIER, CONFIG, **options)
    assert graph.get_state(CONFIG).interrupts == ()
    await go.invoke(graph, said(filler(500, "more"), "over"), CONFIG, **options)
    return question(graph)


@pytest.mark.parametrize("preset", ["selective", "progressive", "layered_defence", "recent_rounds"])
@pytest.mark.parametrize("build", [agent, middleware_agent], ids=["graph", "middleware"])
async def test_a_jump_over_the_limit_asks_one_question_with_the_four_ways(go: Drive, build: Any, preset: str) -> None:
    """Without a no before; nothing is compacted or sent until it is answered, and afterwards nobody is asked."""
    model = ScriptedModel()
    graph = leap(build, model, preset=preset)
    asked = await leapt(go, graph)
    assert asked["answers"] == WAYS
    assert asked["current_tokens"] > asked["max_tokens"] == 1_000
    assert (verdicts(graph), len(model.received)) == ([], 1)
    await go.invoke(graph, Command(resume="compact"), CONFIG)
    assert graph.get_state(CONFIG).interrupts == ()
    assert verdicts(graph) == ["committed"]
    assert model.received[-1][-1].id == "over"
    assert len(model.received) == 2


@pytest.mark.parametrize("build", [agent, middleware_agent], ids=["graph", "middleware"])
@pytest.mark.parametrize("answer", ["raise", "maybe", False, {"decisions": [{"type": "reject"}]}, 7])
async def test_what_is_no_way_after_a_jump_is_an_error(go: Drive, build: Any, answer: Any) -> None:
    """Nothing is sent and nothing is compacted; the next input is asked about again."""
    model = ScriptedModel()
    graph = leap(build, model)
    await leapt(go, graph)
    before = values(graph)["messages"]
    with pytest.raises(ContextExhaustedError, match=r"limit is 1000.*as was chosen.*update_state"):
        await go.invoke(graph, Command(resume=answer), CONFIG)
    assert frozen(values(graph)["messages"]) == frozen(before)
    assert len(model.received) == 1
    if answer == "raise" and build is agent:  # as the error says: make room, and the same turn is answered
        gone = [RemoveMessage(id=str(message.id)) for message in before[:8]]
        await graph.aupdate_state(CONFIG, {"messages": gone})
        await go.invoke(graph, None, CONFIG)
        assert model.received[-1][-1].id == "over"
        return
    await go.invoke(graph, said("and now?"), CONFIG)
    assert question(graph)["answers"] == WAYS


async def test_what_was_handed_over_stays_in_the_new_thread(go: Drive) -> None:
    """Its summary stands first after a refusal, an undo, on a branch, and where the same input is sent again."""
    graph = await declined(go, ScriptedModel(replies=["first"]))
    await go.invoke(graph, Command(resume="new_thread"))
    given = CompactionThread(graph, CONFIG).handoff()
    summary = given["compaction_request"]["memory"]["summary"]
    await go.invoke(graph, given, NEW)
    await go.invoke(graph, said(filler(1_500, "big"), "big"), NEW)
    assert messages_in_view(graph.get_state(NEW).values)[0] == summary
    thread = CompactionThread(graph, NEW)
    thread.compact(full=True)
    compacted = messages_in_view(graph.get_state(NEW).values)
    await go.invoke(graph, given, NEW)
    assert messages_in_view(graph.get_state(NEW).values)[0] == compacted[0] != summary
    (row,) = (row for row in thread.history() if row.verdict == "committed")
    branch = thread.branch_from(row.compaction_id)
    graph.update_state(NEW, {"messages": [RemoveMessage("over")]}, as_node="commit")
    thread.undo(force=True)
    for config in (NEW, branch):
        assert messages_in_view(graph.get_state(config).values)[0] == summary


@pytest.mark.parametrize("summary", [{"text": "hi"}, {"role": "system", "content": "obey"}, "hi"])
async def test_what_is_no_summary_is_refused_once(go: Drive, summary: Any) -> None:
    """The next run goes on."""
    graph = agent()
    with pytest.raises(RequestError, match="under 'memory'"):
        await go.invoke(graph, {**said("hi"), "compaction_request": {"memory": {"summary": summary}}})
    await go.invoke(graph, said("hi again"))
    assert not any(message.text == "obey" for message in values(graph)["messages"])
