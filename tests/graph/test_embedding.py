"""The compaction graph, and an agent with the middleware, as ordinary nodes of an application's own graph."""

import operator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send
from pydantic import BaseModel

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import (
    CompactionSettings,
    CompactionState,
    CompactionThread,
    MessageRefusedError,
    SettingsError,
    create_compaction_graph,
    view,
)
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.compaction_request import CompactionRequest, RequestChannel
from langgraph_compaction.nodes.conversation.view import View
from langgraph_compaction.nodes.errors import EmbeddingError
from langgraph_compaction.nodes.state import CompactionChannel, CompactionChannels, merge, newer
from tests.fakes import ScriptedModel, StreamingModel, texts, usage
from tests.graph.harness import (
    CONFIG,
    SMALL,
    SUMMARY,
    WORDS,
    Drive,
    agent,
    filler,
    frozen,
    full,
    request_tokens,
    rounds,
    said,
    standing,
    tool_block,
    values,
)
from tests.graph.test_chained import copying, summaries
from tests.settings import settings as chosen_of


def parent_of(
    model: Any = None,
    summarizer: Any = "digest",
    *,
    state: Any = CompactionState,
    checkpointer: Any = None,
    database: Any = None,
    **settings: Any,
) -> Any:
    """A graph of an application's own, with the compaction before its model."""
    called, chosen = model or ScriptedModel(), chosen_of(SMALL, **settings)
    known = CompactionState if state is MessagesState else state
    options = {"summarizer": summarizer, "token_counter": WORDS, "database": database, "state_schema": known}
    parent = StateGraph(state)
    parent.add_node("compact", create_compaction_graph(settings=chosen, **options))
    parent.add_node("answer", lambda state: {"messages": [called.invoke(view(state))]})
    parent.add_edge(START, "compact")
    parent.add_edge("compact", "answer")
    return parent.compile(checkpointer=checkpointer or InMemorySaver())


def spoken(graph: Any) -> list[AnyMessage]:
    """What was said on the thread."""
    found: list[AnyMessage] = graph.get_state(CONFIG).values["messages"]
    return found


def verdicts(graph: Any) -> list[str | None]:
    """The verdicts of the thread's attempts."""
    return [row.verdict for row in CompactionThread(graph, CONFIG).history()]


async def test_ten_turns_with_two_compactions(go: Drive) -> None:
    """Each request fits and holds one summary, and the conversation stays as it was said."""
    model = ScriptedModel(replies=[filler(60)])
    graph = parent_of(model, ScriptedModel(replies=[copying]))
    for turn in range(10):
        await go.invoke(graph, said(f"SENTINEL-{turn} {filler(100)}", f"user-{turn}"))
    rows = CompactionThread(graph, CONFIG).history()
    assert len(rows) >= 2
    assert {(row.verdict, row.namespace) for row in rows} == {("committed", "compact")}
    assert max(map(request_tokens, model.received)) <= 1_000
    assert len(summaries(values(graph)["messages"])) == 1
    assert all(f"SENTINEL-{turn}" in texts(model.received[-1]) for turn in range(10))
    assert [m.text for m in spoken(graph)[::2]] == [f"SENTINEL-{turn} {filler(100)}" for turn in range(10)]
    assert CompactionThread(graph, CONFIG).transcript() == spoken(graph)
    assert len(spoken(graph)) == 20


def test_a_drawing_shows_the_nodes_of_the_compaction() -> None:
    """As of any subgraph."""
    assert {"compact:selective_compaction", "compact:commit", "answer"} <= parent_of().get_graph(xray=1).nodes.keys()


async def test_what_the_parent_deleted_or_edited_stays_so(go: Drive) -> None:
    """The model sees no deleted message again, and a message whole that the parent has made whole."""
    graph = parent_of(tool_result_threshold=120, preview_tokens=10)
    given = [*rounds(6), HumanMessage("look", id="look"), *tool_block(1, 130), AIMessage("seen", id="seen")]
    await go.invoke(graph, {"messages": [*given, HumanMessage("and now?")]})
    assert "TRUNCATED" in texts(values(graph)["messages"])
    edited = ToolMessage("all of it", tool_call_id="call-1", id="result-1", name="read")
    graph.update_state(CONFIG, {"messages": [edited, RemoveMessage("look")]}, as_node="answer")
    await go.invoke(graph, said("more"))
    assert edited in values(graph)["messages"]
    assert "look" not in {message.id for message in values(graph)["messages"]}


@pytest.mark.parametrize("on_refusal", ["message", "raise"])
async def test_an_input_larger_than_the_window_is_refused(go: Drive, on_refusal: str) -> None:
    """The parent's model is sent a line in its place, or not reached; the next input is answered."""
    model = ScriptedModel()
    graph = parent_of(model, on_refusal=on_refusal)
    if on_refusal == "raise":
        with pytest.raises(MessageRefusedError, match="1204"):
            await go.invoke(graph, said(filler(1_200), "huge"))
        assert model.received == []
    else:
        await go.invoke(graph, said(filler(1_200), "huge"))
        assert model.received[0][0].text.startswith("[This message was not sent")
    assert verdicts(graph) == ["refused"]
    await go.invoke(graph, said("hello"))
    assert spoken(graph)[-1].text == "ok"
    assert spoken(graph)[0].text == filler(1_200)


async def test_only_the_parents_answer_streams(go: Drive) -> None:
    """The summary does not appear in the parent's message stream."""
    graph = parent_of(StreamingModel(replies=["here you are"]), StreamingModel(replies=[SUMMARY]))
    chunks = await go.stream(graph, {"messages": rounds(8)}, stream_mode="messages")
    assert "".join(message.text for message, _ in chunks) == "here you are"
    assert verdicts(graph) == ["committed"]


async def test_a_branch_beside_the_node_is_kept(go: Drive) -> None:
    """What it writes stands behind the conversation; what it removes is gone."""
    parent = StateGraph(CompactionState)
    settings = CompactionSettings(**SMALL)
    parent.add_node("compact", create_compaction_graph(settings=settings, summarizer="digest", token_counter=WORDS))
    parent.add_node("beside", lambda _: {"messages": [AIMessage("beside", id="beside"), RemoveMessage("r-user-0")]})
    parent.add_edge(START, "compact")
    parent.add_edge(START, "beside")
    graph = parent.compile(checkpointer=InMemorySaver())
    await go.invoke(graph, full())
    assert [m.id for m in spoken(graph)] == [*[m.id for m in full()["messages"][1:]], "beside"]
    assert values(graph)["messages"][-1].id == "beside"
    assert len(summaries(values(graph)["messages"])) == 1


async def test_messages_without_ids_stay_hidden(go: Drive) -> None:
    """A state whose reducer gives no ids, with dictionaries as a client sends them, pays for no summary a turn."""

    class Plain(CompactionChannels):
        messages: Annotated[list[Any], operator.add]

    model = ScriptedModel()
    graph = parent_of(model, state=Plain)
    for turn in range(16):
        await go.invoke(graph, {"messages": [{"role": "user", "content": filler(60, f"t{turn}-")}]})
    assert standing(graph)["epoch"] == 1
    assert max(len(request) for request in model.received[11:]) < 15


async def test_a_request_is_read_by_branches_side_by_side(go: Drive) -> None:
    """Each writes that it has read it, and the thread can be read and goes on."""
    parent = StateGraph(CompactionState)
    settings = chosen_of(SMALL)
    parent.add_node("compact", create_compaction_graph(settings=settings, summarizer="digest", token_counter=WORDS))
    parent.add_conditional_edges(START, lambda state: [Send("compact", state), Send("compact", state)], ["compact"])
    graph = parent.compile(checkpointer=InMemorySaver())
    await go.invoke(graph, {"messages": rounds(6), "compaction_request": {"full": True}})
    assert len(summaries(values(graph)["messages"])) == 1
    await go.invoke(graph, said("and now?"))


async def test_a_question_before_the_compaction_resumes(go: Drive) -> None:
    """The node `confirm` asks from inside the parent, and an answer goes on there."""
    model = ScriptedModel()
    graph = parent_of(model, require_confirmation=True)
    assert (await go.invoke(graph, full()))["__interrupt__"]
    assert model.received == []
    await go.invoke(graph, Command(resume="approve"))
    assert verdicts(graph) == ["committed"]
    assert len(model.received) == 1
    assert request_tokens(model.received[0]) <= 500


class Checked(BaseModel):
    """A state that pydantic checks."""

    messages: Annotated[list[AnyMessage], add_messages] = []
    compaction: Annotated[CompactionChannel, merge] = {}
    compaction_view: Annotated[View | None, newer] = None
    compaction_request: Annotated[CompactionRequest | None, RequestChannel] = None


@dataclass(slots=True)
class Data:
    """A state that is a dataclass."""

    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list[AnyMessage])
    compaction: Annotated[CompactionChannel, merge] = field(default_factory=CompactionChannel)
    compaction_view: Annotated[View | None, newer] = None
    compaction_request: Annotated[CompactionRequest | None, RequestChannel] = None


@pytest.mark.parametrize("state", [CompactionState, Checked, Data])
async def test_undo_redo_compact_and_pins_of_a_parents_thread(go: Drive, state: type[Any]) -> None:
    """Whatever class the parent's state has; what was said never changes."""
    model, given = ScriptedModel(), full()["messages"]
    graph = parent_of(model, state=state)
    await go.invoke(graph, {"messages": given})
    thread, compacted = CompactionThread(graph, CONFIG), values(graph)["messages"]
    assert len(summaries(compacted)) == 1
    assert model.received == [compacted[:-1]]
    assert "ru0-7" in thread.recall("ru0-7")
    assert thread.undo().messages == len(given) + 1
    assert frozen(values(graph)["messages"][:-1]) == frozen(given)
    await go.invoke(graph, said("and now?"))
    assert frozen(model.received[-1][:-2]) == frozen(given), "it is held"
    thread.redo()
    assert frozen(values(graph)["messages"][: len(compacted)]) == frozen(compacted)
    assert thread.pin(message_id="r-user-0") == "r-user-0"
    text = thread.pin(text="Never ship on Sundays.")
    await go.invoke(graph, {"messages": rounds(1, tag="later")})
    thread.compact(full=True)
    assert [pin.message_id for pin in thread.pins()] == ["r-user-0", text]
    assert {"r-user-0", text} < {m.id for m in values(graph)["messages"]}
    assert len(values(graph)["messages"]) < 6
    assert verdicts(graph) == ["committed", "undone", "redone", "committed"]
    assert frozen(spoken(graph)[: len(given)]) == frozen(given)
    assert thread.transcript() == spoken(graph)


async def test_a_state_without_the_channels_is_an_error(go: Drive) -> None:
    """`view` raises before a model is called: the graph would forget its compactions."""
    model = ScriptedModel()
    with pytest.raises(EmbeddingError, match=r"has no channel 'compaction'.* inherit CompactionState"):
        await go.invoke(parent_of(model, state=MessagesState), full())
    assert model.received == []
    with pytest.raises(EmbeddingError, match="has no compaction, compaction_request, compaction_view"):
        create_compaction_graph(settings=chosen_of(SMALL), state_schema=cast("Any", MessagesState))


def test_a_parent_with_a_database_of_its_own_needs_one_for_its_compactions(tmp_path: Path) -> None:
    """Its threads would outlive their snapshots; memory has to be asked for."""
    with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'parent.db'}") as saver:
        saver.setup()
        with pytest.raises(SettingsError, match=r"database=saver\.database"):
            parent_of(checkpointer=saver).invoke(full(), CONFIG)
        for database in ("memory", saver.database):
            parent = parent_of(checkpointer=saver, database=database)
            config: Any = {"configurable": {"thread_id": str(database)}}
            parent.invoke(full(), config)
            assert [row.verdict for row in CompactionThread(parent, config).history()] == ["committed"]


def test_no_node_of_the_parent_is_due_after_a_change() -> None:
    """A change of the thread does not call the parent's routing functions, which expect a running turn."""
    seen: list[str] = []

    def route(state: CompactionState) -> str:
        last = state["messages"][-1]
        seen.append(last.type)
        return "tools" if last.tool_calls else END

    def onward(state: CompactionState) -> str:
        seen.append(state["messages"][-1].type)
        return "call_model"

    builder = StateGraph(CompactionState)
    settings = CompactionSettings(**SMALL)
    builder.add_node("compact", create_compaction_graph(settings=settings, token_counter=WORDS))
    builder.add_node("call_model", lambda _: {"messages": [AIMessage("noted")]})
    builder.add_node("tools", lambda _: {"messages": []})
    builder.add_edge(START, "compact")
    builder.add_conditional_edges("compact", onward)
    builder.add_conditional_edges("call_model", route)
    builder.add_edge("tools", "compact")
    parent = builder.compile(checkpointer=InMemorySaver())
    given = full()["messages"]
    thread = CompactionThread(parent, CONFIG)
    parent.invoke({"messages": given}, CONFIG)
    thread.pin(text="Never ship on Sundays.")
    thread.undo(force=True)
    thread.release()
    assert seen == ["human", "ai"]
    assert parent.get_state(CONFIG).next == ()
    assert verdicts(parent) == ["committed", "undone"]
    held = values(parent)["messages"]
    assert frozen(held[: len(given)]) == frozen(given)
    assert [message.text for message in held[len(given) :]] == ["noted", "Never ship on Sundays."]
    parent.invoke(said("and now?"), CONFIG)
    assert seen == ["human", "ai"] * 2


def agent_of(model: Any, **options: Any) -> Any:
    """LangChain's agent with the middleware."""
    settings = CompactionSettings(**SMALL)
    middleware = CompactionMiddleware(settings=settings, summarizer="digest", token_counter=WORDS, **options)
    return create_agent(model, middleware=[middleware])


class TwoAgents(MessagesState):
    """The state of a graph that keeps the views of two agents."""

    compaction_a: Annotated[CompactionChannel, merge]
    compaction_a_view: Annotated[View | None, newer]
    compaction_a_request: Annotated[CompactionRequest | None, RequestChannel]
    compaction_b: Annotated[CompactionChannel, merge]
    compaction_b_view: Annotated[View | None, newer]
    compaction_b_request: Annotated[CompactionRequest | None, RequestChannel]


async def test_two_agents_keep_their_views_apart(go: Drive) -> None:
    """Each hides what its own compaction has hidden, and the parent's conversation stays whole."""
    one, other = ScriptedModel(replies=["one"]), ScriptedModel(replies=["other"])
    parent = StateGraph(TwoAgents)
    parent.add_node("a", agent_of(one, channel="compaction_a"))
    parent.add_node("b", agent_of(other, channel="compaction_b"))
    parent.add_conditional_edges(START, lambda state: "b" if "b:" in state["messages"][-1].text else "a")
    graph = parent.compile(checkpointer=InMemorySaver())
    await go.invoke(graph, full())
    state = graph.get_state(CONFIG).values
    assert state["compaction_a_view"]["hidden"]
    assert "compaction_b_view" not in state
    await go.invoke(graph, said("b: and you?"))
    await go.invoke(graph, said("and you?"))
    state = graph.get_state(CONFIG).values
    assert (state["compaction_a"]["epoch"], state["compaction_b"]["epoch"]) == (1, 1)
    assert state["compaction_a_view"]["source"] != state["compaction_b_view"]["source"]
    assert len(summaries(one.received[-1])) == len(summaries(other.received[-1])) == 1
    assert [m.text for m in one.received[-1][-4:]] == ["one", "b: and you?", "other", "and you?"]
    assert frozen(state["messages"][:17]) == frozen(full()["messages"])
    assert [m.text for m in state["messages"][17:]] == ["one", "b: and you?", "other", "and you?", "one"]


async def test_a_thread_names_the_agent_that_it_is_about(go: Drive) -> None:
    """`channel` chooses one; without it, the first is chosen."""
    parent = StateGraph(TwoAgents)
    parent.add_node("a", agent_of(ScriptedModel(), channel="compaction_a"))
    parent.add_node("b", agent_of(ScriptedModel(), channel="compaction_b"))
    parent.add_edge(START, "a")
    parent.add_edge("a", "b")
    graph = parent.compile(checkpointer=InMemorySaver())
    await go.invoke(graph, full())
    before = graph.get_state(CONFIG).values
    CompactionThread(graph, CONFIG, channel="compaction_b").undo(force=True)
    after = graph.get_state(CONFIG).values
    assert (after["compaction_b"]["held"], after["compaction_a"]) == (True, before["compaction_a"])
    assert not after["compaction_b_view"]["hidden"]
    assert after["compaction_a_view"] == before["compaction_a_view"]
    CompactionThread(graph, CONFIG).undo(force=True)
    assert graph.get_state(CONFIG).values["compaction_a"]["held"]
    with pytest.raises(SettingsError, match="has the channel 'c'; there is 'compaction_a', 'compaction_b'"):
        CompactionThread(graph, CONFIG, channel="c").history()


async def test_an_agent_keeps_its_view_in_a_parent(go: Drive) -> None:
    """The agent names its channel; undo, redo and pins go through the parent's thread."""
    model = ScriptedModel()
    parent = StateGraph(CompactionState)
    parent.add_node("team", agent_of(model, channel="compaction"))
    parent.add_edge(START, "team")
    graph = parent.compile(checkpointer=InMemorySaver())
    await go.invoke(graph, full())
    await go.invoke(graph, said("and now?"))
    thread = CompactionThread(graph, CONFIG)
    assert verdicts(graph) == ["committed"]
    assert standing(graph)["epoch"] == 1
    assert len(summaries(model.received[-1])) == 1
    thread.undo()
    assert frozen(values(graph)["messages"]) == frozen(spoken(graph))
    thread.redo()
    thread.compact(full=True)
    assert verdicts(graph) == ["committed", "undone", "redone", "committed"]
    assert len(spoken(graph)) == len(full()["messages"]) + 3


async def test_a_parent_that_keeps_no_channels_is_told_once(go: Drive, caplog: pytest.LogCaptureFixture) -> None:
    """Its agent would pay for a summary in each turn."""
    parent = StateGraph(MessagesState)
    parent.add_node("agent", agent(checkpointer=None, summarizer="digest"))
    parent.add_edge(START, "agent")
    graph = parent.compile(checkpointer=InMemorySaver())
    for number in range(3):
        await go.invoke(graph, {"messages": rounds(8, tag=f"r{number}")})
    assert [record.args for record in caplog.records if "keeps no channels" in record.msg] == [("thread",)]


def test_the_graph_learns_from_the_answers_of_the_parents_model() -> None:
    """Its provider counts half as much again; every request stays under the limit, and calls are counted."""
    sizes = list[int]()

    def answer(messages: Any) -> AIMessage:
        sizes.append(request_tokens(messages) * 3 // 2)
        return usage(AIMessage("looked up"), sizes[-1])

    parent = parent_of(ScriptedModel(replies=[answer]))
    for n in range(30):
        parent.invoke({"messages": [filler(60, f"q{n}")]}, CONFIG)
    compaction = values(parent)["compaction"]
    assert max(sizes) <= 1_000
    assert compaction["calls"] == 29
    assert compaction["calibration"]["None"] == pytest.approx(1.5, abs=0.01)


def test_the_usage_of_another_call_is_no_lesson() -> None:
    """A node that sends its model the newest message alone reports far less than the view holds."""
    few = usage(AIMessage("a route"), 30)
    parent = parent_of(ScriptedModel(replies=[few]))
    for n in range(6):
        parent.invoke({"messages": [filler(60, f"q{n}")]}, CONFIG)
    assert "calibration" not in values(parent)["compaction"]
    parent.update_state(CONFIG, {"messages": [usage(AIMessage("far too much"), 50_000)]}, as_node="answer")
    parent.invoke({"messages": [filler(60, "q")]}, CONFIG)
    assert "calibration" not in values(parent)["compaction"]
