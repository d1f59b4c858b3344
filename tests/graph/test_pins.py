from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionError, CompactionThread, SettingsError
from langgraph_compaction.graph.thread_state import records_of
from tests.fakes import ScriptedModel, calls, texts, usage
from tests.graph.harness import CONFIG, Drive, agent, filler, full, rounds, said, tool_block, values
from tests.graph.middleware.agents import agent as middleware_agent


async def test_a_pinned_message_outlives_compactions(go: Drive) -> None:
    """Verbatim, however often the conversation is compacted."""
    model = ScriptedModel()
    graph = agent(model)
    await go.invoke(
        graph, {"messages": [HumanMessage("never touch production", id="rule"), AIMessage("ok", id="ok")]}
    )
    assert CompactionThread(graph, CONFIG).pin(message_id="rule") == "rule"
    for turn in range(24):
        await go.invoke(graph, said(filler(100, f"turn{turn}-")))
        assert "never touch production" in texts(model.received[-1])
    assert values(graph)["compaction"]["epoch"] >= 2
    assert [found.text for found in CompactionThread(graph, CONFIG).pins()] == ["never touch production"]


async def test_a_pinned_result_keeps_its_block(go: Drive) -> None:
    """The call stays with its result."""
    graph = agent()
    await go.invoke(graph, {"messages": [*tool_block(1, 30), AIMessage("read", id="read")]})
    CompactionThread(graph, CONFIG).pin(message_id="result-1")
    await go.invoke(graph, full())
    assert values(graph)["compaction"]["epoch"] == 1
    assert {"call-message-1", "result-1"} <= {message.id for message in values(graph)["messages"]}


async def test_a_text_is_pinned_as_a_message_of_its_own(go: Drive) -> None:
    """It says of itself that it is pinned, and is no turn of the user's."""
    model = ScriptedModel()
    graph = agent(model)
    await go.invoke(graph, said("hello"))
    name = CompactionThread(graph, CONFIG).pin(text="answer in French")
    assert graph.get_state(CONFIG).next == ()
    CompactionThread(graph, CONFIG).compact()
    assert len(model.received) == 1, "the model does not answer it"
    await go.invoke(graph, full())
    assert "answer in French" in texts(model.received[-1])
    assert [(found.text, found.message_id, found.whole) for found in CompactionThread(graph, CONFIG).pins()] == [
        ("answer in French", name, True)
    ]


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


async def test_a_text_that_was_pinned_by_hand_is_released_by_its_words() -> None:
    """As by its id; and everything can be done on an event loop."""
    graph = agent()
    await graph.ainvoke(said("hello"), CONFIG)
    name = await CompactionThread(graph, CONFIG).apin(text="answer in French")
    assert [found.message_id for found in await CompactionThread(graph, CONFIG).apins()] == [name]
    assert [message.text for message in await CompactionThread(graph, CONFIG).atranscript()] == [
        "hello",
        "ok",
        "answer in French",
    ]
    await CompactionThread(graph, CONFIG).aunpin(text="answer in French")
    assert await CompactionThread(graph, CONFIG).apins() == CompactionThread(graph, CONFIG).pins() == []
    assert await CompactionThread(graph, CONFIG).atranscript() == CompactionThread(graph, CONFIG).transcript()


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
        CompactionThread(graph, CONFIG).pin(message_id="elsewhere")
    with pytest.raises(SettingsError) as raised:
        thread.pin(text=filler(497))
    assert str(raised.value) == "pins would hold 501 tokens, and may hold 500 of a room of 1000: pin less"
    assert values(graph) == before
    assert records_of(graph).history("thread") == []
    thread.pin(text=filler(496))
    assert [found.text for found in thread.pins()] == [filler(496)]


def test_a_thread_at_work_is_left_alone() -> None:
    """A write in between would abandon its tool calls."""
    model = ScriptedModel(replies=[calls(("read", {}))])

    def read() -> str:
        """Read."""
        return "read"

    graph = agent(model, tools=[read])
    graph.invoke(said("go"), CONFIG, interrupt_before=["tools"])
    with pytest.raises(CompactionError, match="work to go on with"):
        CompactionThread(graph, CONFIG).pin(text="no")


class Ending(InMemorySaver):
    """A checkpointer whose process ends after so many checkpoints."""

    left = 99

    def put(self, *given: Any) -> Any:
        """Write a checkpoint, or raise an error."""
        self.left -= 1
        if self.left < 0:
            raise ConnectionError("the process ends")
        return super().put(*given)


def test_a_thread_whose_last_node_is_in_no_checkpoint_is_left_alone() -> None:
    """The node's writes are stored, so that LangGraph names no next node, and the turn still has to go on."""
    saver = Ending()
    graph = agent(checkpointer=saver)
    saver.left = 2
    with pytest.raises(ConnectionError):
        graph.invoke(said("go"), CONFIG, durability="sync")
    saver.left = 99
    assert graph.get_state(CONFIG).next == ()
    with pytest.raises(CompactionError, match=r"work to go on with \(token_check\)"):
        CompactionThread(graph, CONFIG).pin(text="no")
    graph.invoke(None, CONFIG)
    assert values(graph)["messages"][-1].text == "ok"
    CompactionThread(graph, CONFIG).pin(text="yes")


async def test_a_pinned_text_stays_beside_a_long_answer(go: Drive) -> None:
    """The answer of a turn stays as pins do, but takes no room from them."""
    model = ScriptedModel(replies=[AIMessage(filler(350, "answer"))])
    graph = agent(model, summarizer="digest")
    kept = filler(380, "kept")
    await go.invoke(graph, said(f"<Pin>{kept}</Pin>"))
    for turn in range(4):
        await go.invoke(graph, said(filler(40, f"turn{turn}-")))
    assert values(graph)["compaction"]["epoch"] >= 1
    assert [found.text for found in CompactionThread(graph, CONFIG).pins()] == [kept]


async def test_texts_and_messages_share_the_room_of_pins(go: Drive) -> None:
    """A pin that would push a pinned text out is refused."""
    graph = agent()
    await go.invoke(graph, said(f"<Pin>{filler(300, 'kept')}</Pin>"))
    with pytest.raises(SettingsError, match="may hold 500 of a room of 1000"):
        CompactionThread(graph, CONFIG).pin(text=filler(300, "new"))


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
