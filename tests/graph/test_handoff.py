"""After a no, over the limit: how a conversation goes on, by the person's choice (S4.39)."""

import json
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from langgraph_compaction.graph import (
    CompactionError,
    CompactionSettings,
    CompactionState,
    ContextExhaustedError,
    as_node,
    create_compaction_graph,
    handoff,
    records_of,
    transcript,
)
from langgraph_compaction.nodes.policies.transcript import is_summary
from tests.fakes import ScriptedModel, texts
from tests.graph.harness import (
    CONFIG,
    SMALL,
    SUMMARY,
    THREAD,
    WORDS,
    Drive,
    agent,
    filler,
    frozen,
    full,
    ledger,
    request_tokens,
    said,
    standing,
    steps,
    values,
    verdicts,
)

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


@pytest.mark.requirement("S4.39", "S4.24")
async def test_over_the_limit_the_question_comes_once_more(go: Drive) -> None:
    """With the choices that are left, as plain JSON; nothing has happened yet."""
    graph = await declined(go)
    asked = question(graph)
    assert asked["answers"] == WAYS
    assert (asked["current_tokens"], asked["max_tokens"]) == (1_032, 1_000)
    assert asked["tokens_after_about"] < 500
    assert json.loads(json.dumps(asked)) == asked
    assert verdicts(graph) == ["declined"]


@pytest.mark.requirement("S4.39")
@pytest.mark.parametrize("answer", ["compact", True, {"focus": "eggs"}])
async def test_compact_compacts_as_ever(go: Drive, answer: Any) -> None:
    """A clear yes is the same as the word; afterwards nobody is asked a third time."""
    summarizer = ScriptedModel(replies=[SUMMARY])
    graph = await declined(go, summarizer=summarizer)
    chunks = await go.stream(graph, Command(resume=answer))
    assert steps(chunks) == ["confirm", "selective_compaction", "summarize", "commit", "model"]
    assert verdicts(graph) == ["declined", "committed"]
    assert ("eggs" in texts(summarizer.received[0])) == isinstance(answer, dict)
    assert standing(graph)["declined_at"] is None


@pytest.mark.requirement("S4.39", "S2.51")
async def test_drop_oldest_asks_no_model_and_loses_nothing(go: Drive) -> None:
    """The ladder's last rung: the oldest messages are hidden behind a notice and stand in the archive."""
    summarizer = ScriptedModel(replies=[SUMMARY])
    model = ScriptedModel()
    graph = await declined(go, model, summarizer)
    before = values(graph)["messages"]
    await go.invoke(graph, Command(resume="drop_oldest"))
    assert summarizer.received == []
    assert ledger(graph)[-1].strategy == "hide"
    assert request_tokens(model.received[-1]) < 800
    assert model.received[-1][-1].id == "over"
    left = [message.id for message in values(graph)["messages"]]
    assert before[0].id not in left
    assert frozen(transcript(graph, CONFIG))[: len(before)] == frozen(before)
    assert (standing(graph)["rung"], standing(graph)["declined_at"]) == (0, None)


@pytest.mark.requirement("S4.39")
async def test_a_new_thread_goes_on_where_this_one_ends(go: Drive) -> None:
    """The run ends without an answer and this thread stays as it was; what it hands over opens another."""
    model = ScriptedModel(replies=["first", "second"])
    graph = await declined(go, model)
    before = values(graph)["messages"]
    chunks = await go.stream(graph, Command(resume="new_thread"))
    assert steps(chunks) == ["confirm", "selective_compaction", "summarize", "commit"]
    assert frozen(values(graph)["messages"]) == frozen(before)
    assert graph.get_state(CONFIG).next == ()
    given = handoff(graph, CONFIG)
    assert given == standing(graph)["handoff"]
    summary, newest = given["messages"]
    assert is_summary(summary)
    assert "what was said before" in summary.text
    assert newest.id == "over"
    assert given["compaction_request"]["memory"]["goal"] == before[0].text[:300]
    assert len(model.received) == 1
    result = await go.invoke(graph, given, NEW)
    assert [message.text for message in model.received[-1]] == [summary.text, newest.text]
    assert result["messages"][-1].text == "second"
    assert values(graph, NEW)["memory"]["goal"] == before[0].text[:300]
    await go.invoke(graph, said("and then?"), NEW)
    assert len(values(graph, NEW)["messages"]) == 5
    assert transcript(graph, NEW)[0].id == "over"


@pytest.mark.requirement("S4.39")
async def test_what_is_handed_over_carries_pins_and_the_header(go: Drive) -> None:
    """Pins by id and by text, and system messages, are part of the new thread."""
    graph = agent(require_confirmation=True)
    first, *others = full()["messages"]
    pinned = HumanMessage(f"{first.text} <Pin>never on Sundays</Pin>", id="pinning")
    await go.invoke(graph, {"messages": [pinned, *others], "memory": {"pins": ["r-answer-3", "r-answer-99"]}})
    await go.invoke(graph, Command(resume=False))
    await go.invoke(graph, said(filler(150, "more"), "over"))
    await go.invoke(graph, Command(resume="new_thread"))
    given = handoff(graph, CONFIG)
    assert given["compaction_request"]["memory"]["pins"] == ["r-answer-3"]
    assert "r-answer-3" in {message.id for message in given["messages"]}
    assert "never on Sundays" in texts(given["messages"])


@pytest.mark.requirement("S4.39")
async def test_the_ledger_and_the_channel_know_of_the_handover(go: Drive) -> None:
    """The attempt is told as declined; the next input clears what was handed over, and the channel is small again."""
    graph = await declined(go)
    await go.invoke(graph, Command(resume="new_thread"))
    row = ledger(graph)[-1]
    assert (row.trigger, row.verdict, row.reason) == ("new_thread", "declined", "new_thread")
    assert row.tokens_after is not None
    assert standing(graph)["last"]["reason"] == "new_thread"
    assert standing(graph).get("epoch", 0) == 0
    assert [row for row in records_of(graph).history(THREAD) if row.verdict == "committed"] == []
    await go.invoke(graph, said("no, here"))
    assert standing(graph)["handoff"] is None
    assert question(graph)["answers"] == WAYS
    with pytest.raises(CompactionError, match="new_thread"):
        handoff(graph, CONFIG)


@pytest.mark.requirement("S4.39")
@pytest.mark.parametrize("answer", ["raise", False, "decline", "what?", {"accept": False}, 7])
async def test_anything_else_leaves_it_to_the_person(go: Drive, answer: Any) -> None:
    """The request is not sent; the error says what to do, and the conversation is as it was."""
    model = ScriptedModel()
    graph = await declined(go, model)
    before = values(graph)["messages"]
    with pytest.raises(ContextExhaustedError, match=r"1032 tokens.*update_state.*invoke"):
        await go.invoke(graph, Command(resume=answer))
    assert frozen(values(graph)["messages"]) == frozen(before)
    assert len(model.received) == 1
    assert (ledger(graph)[-1].verdict, ledger(graph)[-1].reason) == ("declined", "raise")


@pytest.mark.requirement("S4.39")
async def test_after_raise_the_turn_goes_on_once_there_is_room(go: Drive) -> None:
    """As the error says: messages are deleted, and the same turn is answered."""
    model = ScriptedModel(replies=["first", "second"])
    graph = await declined(go, model)
    with pytest.raises(ContextExhaustedError):
        await go.invoke(graph, Command(resume="raise"))
    gone = [RemoveMessage(id=str(message.id)) for message in values(graph)["messages"][:4]]
    await graph.aupdate_state(CONFIG, {"messages": gone})
    await go.invoke(graph, None)
    assert values(graph)["messages"][-1].text == "second"
    assert len(model.received[-1]) == 15


@pytest.mark.requirement("S4.39")
async def test_who_makes_room_instead_of_answering_is_not_held_up(go: Drive) -> None:
    """Messages deleted with the answer: the question is moot, whatever the answer."""
    model = ScriptedModel(replies=["first", "second"])
    graph = await declined(go, model)
    gone = [RemoveMessage(id=str(message.id)) for message in values(graph)["messages"][:4]]
    await go.invoke(graph, Command(resume="drop_oldest", update={"messages": gone}))
    assert values(graph)["messages"][-1].text == "second"
    assert verdicts(graph) == ["declined"]


@pytest.mark.requirement("S4.39")
async def test_after_the_answer_nothing_is_asked_over_the_limit(go: Drive) -> None:
    """The turn is answered and nothing is to be sent: the question waits for the next input."""
    graph = agent(ScriptedModel(replies=["ok", filler(130)]), require_confirmation=True)
    await go.invoke(graph, full())
    await go.invoke(graph, Command(resume=False))
    await go.invoke(graph, said(filler(30, "more")))
    assert graph.get_state(CONFIG).next == ()
    assert verdicts(graph) == ["declined"]
    await go.invoke(graph, said("now?"))
    assert question(graph)["answers"] == WAYS


@pytest.mark.requirement("S4.39")
async def test_without_a_no_before_nobody_is_asked(go: Drive) -> None:
    """Who jumps over the limit in one step, or has switched the questions off since, is compacted at once."""
    graph = agent(require_confirmation=True)
    await go.invoke(graph, full())
    await go.invoke(graph, Command(resume=False))
    await go.invoke(graph, said(filler(150, "more")), context={"require_confirmation": False})
    assert verdicts(graph) == ["declined", "committed"]


async def test_a_handover_tries_the_next_rung_where_the_summariser_fails(go: Drive) -> None:
    """The digest stands in; nobody is asked again."""
    graph = await declined(go, summarizer=ScriptedModel(replies=[ValueError("down")]))
    await go.invoke(graph, Command(resume="new_thread"))
    assert verdicts(graph) == ["declined", "failed_permanent", "declined"]
    assert is_summary(handoff(graph, CONFIG)["messages"][0])


async def test_inside_a_parent_no_new_thread_is_offered(go: Drive) -> None:
    """Its run does not end where ours does; and who chooses `raise` there has the error at once."""
    model = ScriptedModel()

    def answer(state: CompactionState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    inner = create_compaction_graph(
        settings=CompactionSettings(**SMALL, require_confirmation=True), summarizer="digest", token_counter=WORDS
    )
    parent = StateGraph(CompactionState)
    parent.add_node("compact", as_node(inner))
    parent.add_node("answer", answer)
    parent.add_edge(START, "compact")
    parent.add_edge("compact", "answer")
    graph = parent.compile(checkpointer=InMemorySaver())
    await go.invoke(graph, full())
    await go.invoke(graph, Command(resume=False))
    await go.invoke(graph, said(filler(150, "more")))
    assert question(graph)["answers"] == [way for way in WAYS if way != "new_thread"]
    with pytest.raises(ContextExhaustedError, match="update_state"):
        await go.invoke(graph, Command(resume="new_thread"))
    assert len(model.received) == 1
