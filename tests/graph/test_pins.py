from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.graph import CompactionThread, SettingsError
from tests.fakes import ScriptedModel, texts, usage
from tests.graph.harness import CONFIG, Drive, agent, filler, full, rounds, said, tool_block, values
from tests.graph.middleware.agents import agent as middleware_agent


async def test_a_pinned_result_keeps_its_block(go: Drive) -> None:
    """The call stays with its result."""
    graph = agent()
    await go.invoke(graph, {"messages": [*tool_block(1, 30), AIMessage("read", id="read")]})
    CompactionThread(graph, CONFIG).pin(message_id="result-1")
    await go.invoke(graph, full())
    assert values(graph)["compaction"]["epoch"] == 1
    assert {"call-message-1", "result-1"} <= {message.id for message in values(graph)["messages"]}


async def test_a_pin_shows_a_hidden_or_shortened_message_whole(go: Drive) -> None:
    """With its tool block, in its place; an undo and a redo keep it."""
    graph = agent(tool_result_threshold=60, preview_tokens=20, tool_blocks_keep_unread=False)
    given = [*rounds(5), *tool_block(1, 200), *tool_block(2, 200), HumanMessage("go on", id="question")]
    await go.invoke(graph, {"messages": given})
    seen = {message.id: message for message in values(graph)["messages"]}
    assert "r-user-1" not in seen
    assert seen["result-2"] != given[-2]
    thread = CompactionThread(graph, CONFIG)
    await thread.apin(message_id="r-user-1")
    await thread.apin(message_id="result-2")
    assert [m for m in values(graph)["messages"] if m.id in ("r-user-1", "result-2")] == [given[2], given[-2]]
    await thread.aundo(force=True)
    await thread.apin(message_id="r-user-2")
    await thread.aredo()
    pinned = [given[2], given[4], given[-2]]
    assert [m for m in values(graph)["messages"] if m.id in ("r-user-1", "r-user-2", "result-2")] == pinned
    assert "r-user-3" not in {m.id for m in values(graph)["messages"]}
    assert [pin.message_id for pin in await thread.apins()] == [m.id for m in pinned]


@pytest.mark.parametrize("as_text", [True, False])
async def test_what_is_released_may_leave(go: Drive, as_text: bool) -> None:
    """It is archived with what else leaves."""
    graph = agent()
    await go.invoke(graph, {"messages": [HumanMessage("a rule", id="rule"), AIMessage("ok", id="ok")]})
    name = (
        CompactionThread(graph, CONFIG).pin(text="a rule of its own")
        if as_text
        else CompactionThread(graph, CONFIG).pin(message_id="rule")
    )
    CompactionThread(graph, CONFIG).unpin(name)
    assert CompactionThread(graph, CONFIG).pins() == []
    await go.invoke(graph, full())
    CompactionThread(graph, CONFIG).compact()
    assert name not in {message.id for message in values(graph)["messages"]}
    with pytest.raises(SettingsError, match="is not pinned"):
        CompactionThread(graph, CONFIG).unpin(name)


@pytest.mark.parametrize(
    "text",
    [
        "use tabs",
        "always run `make test`",
        "always run\n```\nmake test\n```\nfirst",
        "always\n> run it\nfirst",
        "always run\r\nmake test",
    ],
    ids=["words", "code", "fenced code", "quoted line", "line ends"],
)
async def test_texts_that_users_mark_are_listed_and_carried_on(go: Drive, text: str) -> None:
    """`<Pin>` in a user's own words counts; the message may leave, the text stays exactly as it was written."""
    model = ScriptedModel()
    graph = agent(model, dialogue_rounds_keep_min=0)
    marked = HumanMessage(f"{filler(40)} <Pin>{text}</Pin>", id="marked")
    await go.invoke(graph, {"messages": [marked, AIMessage("ok", id="ok")]})
    assert [(found.text, found.whole) for found in CompactionThread(graph, CONFIG).pins()] == [(text, False)]
    await go.invoke(graph, full())
    assert "marked" not in {message.id for message in values(graph)["messages"]}
    assert text in "\n".join(message.text for message in model.received[-1])
    assert [found.text for found in CompactionThread(graph, CONFIG).pins()] == [text]
    assert [row.verdict for row in CompactionThread(graph, CONFIG).history()] == ["committed"]


@pytest.mark.usefixtures("unbraked")
@pytest.mark.parametrize("carried", [True, False])
async def test_a_single_text_can_be_released(go: Drive, *, carried: bool) -> None:
    """From the message that says it, or from the summary that carries it: the next compaction lets it go."""
    model = ScriptedModel()
    graph = agent(model, dialogue_rounds_keep_min=0)
    marked = HumanMessage(f"{filler(40)} <Pin>use tabs</Pin> <Pin>speak French</Pin>", id="marked")
    await go.invoke(graph, {"messages": [marked, AIMessage("ok", id="ok")]})
    if carried:
        await go.invoke(graph, full())
    CompactionThread(graph, CONFIG).unpin(text="use tabs")
    assert [found.text for found in CompactionThread(graph, CONFIG).pins()] == ["speak French"]
    await go.invoke(graph, {"messages": rounds(8, tag="more")})
    assert values(graph)["compaction"]["epoch"] == 1 + carried
    pinned = texts(model.received[-1]).partition("<pinned>")[2]
    assert "use tabs" not in pinned
    assert "speak French" in pinned
    with pytest.raises(SettingsError, match="the text 'use tabs' is not pinned"):
        CompactionThread(graph, CONFIG).unpin(text="use tabs")


@pytest.mark.usefixtures("unbraked")
@pytest.mark.parametrize("compactions", [1, 2])
@pytest.mark.parametrize("undone_before", [True, False])
async def test_an_undo_or_a_redo_brings_no_pin_back(go: Drive, *, compactions: int, undone_before: bool) -> None:
    """Of a message or of a text, from the user's own words or an earlier summary; the other pins stand."""
    graph = agent(dialogue_rounds_keep_min=0)
    marked = HumanMessage(f"{filler(40)} <Pin>use tabs</Pin> <Pin>speak French</Pin>", id="marked")
    await go.invoke(graph, {"messages": [marked, AIMessage("ok", id="ok")]})
    thread = CompactionThread(graph, CONFIG)
    await thread.apin(text="be brief")
    for n in range(compactions):
        await go.invoke(graph, {"messages": rounds(8, tag=f"more{n}")})
    assert values(graph)["compaction"]["epoch"] == compactions
    if undone_before:
        await thread.aundo(force=True)
    await thread.aunpin(text="use tabs")
    await thread.aunpin(text="be brief")
    for change in [thread.aredo] if undone_before else [lambda: thread.aundo(force=True), thread.aredo]:
        await change()
        assert [pin.text for pin in await thread.apins()] == ["speak French"]


async def test_a_text_is_pinned_as_a_message_of_its_own() -> None:
    """The model reads it and does not answer it; its words release it. Everything can be done on an event loop."""
    model = ScriptedModel()
    graph = agent(model)
    await graph.ainvoke(said("hello"), CONFIG)
    thread = CompactionThread(graph, CONFIG)
    name = await thread.apin(text="answer in French")
    assert await thread.apin(text="answer in French") == name, "a program may pin its rules at each start"
    assert graph.get_state(CONFIG).next == ()
    await thread.acompact()
    assert len(model.received) == 1
    await graph.ainvoke(full(), CONFIG)
    assert "answer in French" in texts(model.received[-1])
    assert [(found.message_id, found.whole) for found in await thread.apins()] == [(name, True)]
    await thread.aunpin(text="answer in French")
    assert await thread.apins() == []


def test_what_cannot_be_pinned_is_refused() -> None:
    """`pin` and `unpin` require exactly one of their two arguments, and `pin` refuses an unknown message.

    Pins may take exactly half of the room, and `pin` refuses a text with which the pins would take more.
    """
    graph = agent()
    graph.invoke({"messages": rounds(1)}, CONFIG)
    before, thread = values(graph), CompactionThread(graph, CONFIG)
    for wrong in ({}, {"message_id": "r-user-0", "text": "both"}):
        for change in (thread.pin, thread.unpin):
            with pytest.raises(SettingsError, match="either message_id or text"):
                change(**wrong)
    with pytest.raises(SettingsError, match="no message 'elsewhere'"):
        thread.pin(message_id="elsewhere")
    with pytest.raises(SettingsError, match="pins would hold 501 tokens, and may hold 500 of a room of 1000"):
        thread.pin(text=filler(497))
    assert values(graph) == before
    thread.pin(text=filler(496))
    assert [found.text for found in thread.pins()] == [filler(496)]


@pytest.mark.parametrize("build", [agent, middleware_agent], ids=["graph", "middleware"])
async def test_a_pin_that_was_accepted_stays_where_there_is_less_room(go: Drive, build: Any) -> None:
    """Fewer tokens fit after the provider has counted more than we do."""
    model = ScriptedModel()
    graph = build(model)
    await go.invoke(graph, said("hello"))
    name = CompactionThread(graph, CONFIG).pin(text=filler(450, "rule"))
    model.replies = [usage(AIMessage("ok"), 700)]
    await go.invoke(graph, said("one"))
    assert values(graph)["compaction"]["calibration"]["scripted"] > 1.2
    model.replies = ["ok"]
    await go.invoke(graph, said("two"))
    assert [found.message_id for found in CompactionThread(graph, CONFIG).pins()] == [name]


@pytest.mark.parametrize("build", [agent, middleware_agent], ids=["agent", "middleware"])
async def test_answers_behind_a_new_or_released_pin_lose_what_binds_them(go: Drive, build: Any) -> None:
    """Claude refuses thinking that was signed on a history without the pin, or behind its own compaction with it."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "x9Q"}
    claude = {"model_name": "claude-opus-5-5"}
    compacted = AIMessage([{"type": "compaction", "content": "so far"}], id="block", response_metadata=claude)
    signed = AIMessage([thinking, {"type": "text", "text": "ok"}], id="signed", response_metadata=claude)
    model = ScriptedModel()
    graph = build(model=model)
    given = [HumanMessage("a rule", id="rule"), compacted, HumanMessage("more", id="more"), signed]
    await go.invoke(graph, {"messages": [*given, HumanMessage("first", id="first")]})
    assert "hm" in str(model.received[-1])
    thread = CompactionThread(graph, CONFIG)
    await thread.apin(message_id="rule")
    await go.invoke(graph, {"messages": [HumanMessage("second", id="second")]})
    assert "a rule" in str(model.received[-1])
    assert "hm" not in str(model.received[-1])
    again = signed.model_copy(update={"id": "again"})
    await go.invoke(graph, {"messages": [again, HumanMessage("third", id="third")]})
    assert "hm" in str(model.received[-1])
    await thread.aunpin("rule")
    await go.invoke(graph, {"messages": [HumanMessage("fourth", id="fourth")]})
    assert "a rule" not in str(model.received[-1])
    assert "hm" not in str(model.received[-1])
