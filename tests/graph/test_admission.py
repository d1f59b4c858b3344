"""Pins and system messages of clients are admitted only as far as they leave room; every thread can go on."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.graph import (
    CompactionError,
    CompactionThread,
    ContextExhaustedError,
    MessageRefusedError,
    SettingsError,
)
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.conversation.message_marks import MARK, is_real_user, marks
from langgraph_compaction.nodes.conversation.tokens import total
from tests.fakes import ScriptedModel, calls, texts
from tests.graph.harness import CONFIG, WORDS, Drive, agent, events, filler, said, standing, values, verdicts
from tests.graph.middleware.agents import agent as middleware_agent

BUILDS = {"graph": agent, "middleware": middleware_agent}


def pinned(words: int, name: str, **mark: Any) -> HumanMessage:
    """A message of so many words that a client has pinned."""
    return HumanMessage(filler(words, name), id=name, additional_kwargs={MARK: mark or {"pinned": True}})


def pinned_block() -> list[AnyMessage]:
    """A tool block whose result is pinned, larger than half of the room with its other result."""
    asked: list[Any] = [{"name": "read", "args": {"n": n}, "id": f"c{n}"} for n in range(2)]
    return [
        AIMessage("", tool_calls=asked, id="step"),
        ToolMessage("short", tool_call_id="c0", id="pin", additional_kwargs={MARK: {"pinned": True}}),
        ToolMessage(filler(1_500), tool_call_id="c1", id="long"),
    ]


def interrupted_step() -> list[AnyMessage]:
    """A long tool block in which a result is missing, and a question: the summary has to tell of the step."""
    asked: list[Any] = [{"name": "read", "args": {"n": n}, "id": f"c{n}"} for n in range(200)]
    results = [ToolMessage("done", tool_call_id=f"c{n}", id=f"r{n}") for n in range(199)]
    return [AIMessage("", tool_calls=asked, id="step"), *results, HumanMessage("and now?")]


SYSTEM = SystemMessage(filler(1_500), id="system")
INPUTS: dict[str, list[list[AnyMessage]]] = {
    "two pins": [[pinned(600, "p")], [pinned(600, "q")]],
    "pins that fit one by one": [[pinned(400, "p")], [pinned(400, "q")], [pinned(400, "r")]],
    "a pin over the limit and a question": [[pinned(1_500, "p"), HumanMessage("and now?")]],
    "a header over the limit and a question": [[pinned(1_500, "p", kind="skill_strategy"), HumanMessage("and now?")]],
    "a pinned tool block": [[HumanMessage("read"), *pinned_block(), HumanMessage("and now?")]],
    "a system message": [[SYSTEM, HumanMessage("and now?")]],
    "a second system message": [
        [SystemMessage(filler(600), id="s"), HumanMessage("hello")],
        [SystemMessage(filler(600, "y"), id="t"), HumanMessage("and now?")],
    ],
    "a system message beside pins": [[pinned(450, "p")], [SystemMessage(filler(400), id="s"), HumanMessage("and?")]],
    "many system messages": [[*[SystemMessage(filler(80), id=f"s{n}") for n in range(30)], HumanMessage("and?")]],
    "a system message that leaves no room for the summary of a step": [
        [SystemMessage(filler(940), id="s"), *interrupted_step()]
    ],
    "a pin that leaves no room for the summary of a step": [
        [SystemMessage(filler(880), id="s"), pinned(48, "p"), *interrupted_step()]
    ],
    "pinned texts beside pins": [[pinned(480, "p")], [HumanMessage(f"<Pin>{filler(480, 't')}</Pin>")]],
}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("case", INPUTS)
async def test_the_next_short_question_is_answered(go: Drive, case: str, build: str) -> None:
    """Whatever is pinned, and however long system messages are; and nothing that was said is lost."""
    model = ScriptedModel(replies=["ok"])
    graph = BUILDS[build](model, "digest")
    for messages in INPUTS[case]:
        await go.invoke(graph, {"messages": messages})
    for number in range(3):
        await go.invoke(graph, said("short", f"short-{number}"))
        assert model.received[-1][-1].id == f"short-{number}"
        assert values(graph)["messages"][-1].text == "ok"
    assert all(total(WORDS, request) <= 1_000 for request in model.received)
    whole = {message.id: message.text for message in CompactionThread(graph, CONFIG).transcript()}
    given = [message for messages in INPUTS[case] for message in messages if message.id]
    assert {message.id: message.text for message in given}.items() <= whole.items()


async def test_a_pin_without_room_is_no_pin_and_the_event_says_so(
    go: Drive, caplog: pytest.LogCaptureFixture
) -> None:
    """The message of a refused pin becomes an ordinary message, and the event reports the refusal once.

    Earlier pins stay, and all pins together may take exactly half of the room.
    """
    graph = agent(ScriptedModel(replies=["ok"]), "digest")
    await go.invoke(graph, {"messages": [pinned(300, "early")]})
    given = {"messages": [pinned(193, "late", pinned=True, is_meta=True), pinned(192, "small")]}
    given["messages"] += [pinned(1, "tiny"), HumanMessage("go")]
    chunks = await go.stream(graph, given, stream_mode=["custom", "updates"])
    assert [(event["message_ids"], event["most_tokens"]) for event in events(chunks, "PinsRefusedEvent")] == [
        (("late", "tiny"), 500)
    ]
    assert [pin.message_id for pin in CompactionThread(graph, CONFIG).pins()] == ["early", "small"]
    assert {m.id: dict(marks(m)) for m in values(graph)["messages"]}["late"] == {"is_meta": True}
    assert values(graph)["memory"] == {}, "a mark of a message is no pin of the thread"
    chunks = await go.stream(graph, said("next"), stream_mode=["custom", "updates"])
    assert events(chunks, "PinsRefusedEvent") == []
    (line,) = caplog.messages
    assert line == (
        "Messages came with pins for which there is no room, and are not pinned: late, tiny. Pins may hold 500 "
        "tokens, half of the room"
    )


async def test_pins_that_a_request_brings_obey_the_same_rule(go: Drive) -> None:
    """Ids in the memory of a request pin messages without a mark."""
    graph = agent(ScriptedModel(replies=["ok"]), "digest")
    given = [HumanMessage(filler(400, name), id=name) for name in ("a", "b")]
    memory = {"memory": {"pins": ["a", "b"], "goal": "go on"}}
    await go.invoke(graph, {"messages": [*given, HumanMessage("go")], "compaction_request": memory})
    assert values(graph)["memory"] == {"pins": ["a"], "goal": "go on"}


async def test_pin_and_check_measure_alike(go: Drive) -> None:
    """A pin by hand counts the whole tool block and the system messages, so that no check takes it away again."""
    graph = agent(ScriptedModel(replies=["ok"]), "digest")
    block = pinned_block()
    block[1].additional_kwargs.clear()
    block[2] = block[2].model_copy(update={"content": filler(450)})
    messages = [SystemMessage(filler(100), id="s"), HumanMessage("read"), *block, AIMessage("done", id="done")]
    await go.invoke(graph, {"messages": [*messages, HumanMessage("go")]})
    with pytest.raises(SettingsError, match="may hold 448 of a room of 896"):
        CompactionThread(graph, CONFIG).pin(message_id="pin")


@pytest.mark.parametrize("on_refusal", ["message", "raise"])
@pytest.mark.parametrize("build", BUILDS)
async def test_a_system_message_is_refused_like_an_input(go: Drive, build: str, on_refusal: str) -> None:
    """No model is called; one line stands in its place; the original is in the archive and in the transcript."""
    model = ScriptedModel(replies=["ok"])
    graph = BUILDS[build](model, "digest", on_refusal=on_refusal)
    given = {"messages": [SYSTEM, HumanMessage("and now?", id="question")]}
    if on_refusal == "raise":
        with pytest.raises(MessageRefusedError, match="system messages, system prompt and tools take 1504 tokens"):
            await go.invoke(graph, given)
    else:
        await go.invoke(graph, given)
    assert model.received == []
    assert standing(graph)["last"]["reason"] == "system_message_over_limit"
    assert verdicts(graph) == ["refused"]
    await go.invoke(graph, said("again"))
    line = model.received[0][0]
    assert (line.id, line.type) == ("system", "human")
    assert not is_real_user(line)
    assert line.text.startswith("[This system message was not sent to the model: with it, ")
    thread = CompactionThread(graph, CONFIG)
    assert records_of(graph).recall("thread", marks(line)["handle"]) == SYSTEM
    assert thread.transcript()[0] == SYSTEM
    assert verdicts(graph) == ["refused"]


async def test_a_large_system_message_that_leaves_room_stays(go: Drive) -> None:
    """Nine tenths of the limit, and every later check admits it again without a word."""
    model = ScriptedModel(replies=["ok"])
    graph = agent(model, "digest")
    system = SystemMessage(filler(880), id="system")
    await go.invoke(graph, {"messages": [system, HumanMessage("hello")]})
    for number in range(6):
        await go.invoke(graph, said(filler(20, f"n{number}-")))
        assert model.received[-1][0] == system
        assert values(graph)["messages"][-1].text == "ok"


@pytest.mark.parametrize("build", BUILDS)
async def test_pins_that_a_smaller_window_cannot_hold_can_be_removed(go: Drive, build: str) -> None:
    """They are no new pins, so they stay; the error names them, and its advice works although the turn failed."""
    graph = BUILDS[build](ScriptedModel(replies=["ok"]), "digest")
    await go.invoke(graph, {"messages": [pinned(200, "p"), pinned(250, "q"), HumanMessage("go")]})
    smaller = BUILDS[build](
        ScriptedModel(replies=["ok"]), "digest", context_window=400, checkpointer=graph.checkpointer
    )
    with pytest.raises(ContextExhaustedError, match=r"Pins hold 458 tokens of a room of 400: the messages 'p', 'q'"):
        await go.invoke(smaller, said("short"))
    thread = CompactionThread(smaller, CONFIG)
    assert [pin.message_id for pin in thread.pins()] == ["p", "q"]
    thread.unpin("q")
    await go.invoke(smaller, None)
    assert values(smaller)["messages"][-1].text == "ok"
    assert [pin.message_id for pin in thread.pins()] == ["p"]
    await go.invoke(smaller, said("another"))
    assert values(smaller)["messages"][-1].text == "ok"


async def test_a_failed_turn_with_tools_to_run_is_left_alone(go: Drive) -> None:
    """To remove a pin then would abandon the calls."""

    def broken() -> str:
        """Fail."""
        raise ConnectionError("broken")

    graph = agent(ScriptedModel(replies=[calls(("broken", {}))]), tools=[broken])
    await go.invoke(graph, {"messages": [pinned(10, "p")]}, interrupt_before=["tools"])
    with pytest.raises(CompactionError, match="work to go on with"):
        CompactionThread(graph, CONFIG).unpin("p")


async def test_an_input_that_only_pins_keep_from_fitting_is_refused(go: Drive) -> None:
    """With `keep`, as one that is over the limit by itself: it is archived, and the pins stay."""
    graph = agent(ScriptedModel(replies=["ok"]), "digest", long_input="keep")
    await go.invoke(graph, {"messages": [pinned(450, "p"), HumanMessage("go")]})
    await go.invoke(graph, said(filler(600), "long"))
    assert standing(graph)["last"]["verdict"] == "refused"
    assert "with the fixed part and the pins it needs 1058 tokens" in values(graph)["messages"][-1].text
    assert [pin.message_id for pin in CompactionThread(graph, CONFIG).pins()] == ["p"]


async def test_an_input_beside_pins_is_shortened_and_answered(go: Drive) -> None:
    """The pin stays whole, and the model reads the beginning and the end of the input."""
    model = ScriptedModel(replies=["ok", "done"])
    graph = agent(model, "digest")
    await go.invoke(graph, {"messages": [pinned(450, "p"), HumanMessage("go")]})
    await go.invoke(graph, said(filler(600, "n"), "long"))
    assert values(graph)["messages"][-1].text == "done"
    (seen,) = (message.text for message in model.received[-1] if message.id == "long")
    assert seen.startswith("n0 n1")
    assert "n599" in seen
    assert "p449" in texts(model.received[-1])
