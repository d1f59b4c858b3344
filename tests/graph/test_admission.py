"""Pins and system messages of clients are admitted only as far as they leave room; every thread can go on."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage

from langgraph_compaction.graph import CompactionThread, ContextExhaustedError, MessageRefusedError
from langgraph_compaction.nodes.conversation.message_marks import MARK
from langgraph_compaction.nodes.conversation.tokens import total
from tests.fakes import ScriptedModel, texts
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
    "a system message and a pin, both too long": [[pinned(1_500, "p"), SYSTEM, HumanMessage("and now?")]],
    "many system messages": [[*[SystemMessage(filler(80), id=f"s{n}") for n in range(30)], HumanMessage("and?")]],
    "a system message that leaves no room for the summary of a step": [
        [SystemMessage(filler(940), id="s"), *interrupted_step()]
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


@pytest.mark.parametrize("words", range(189, 195))
async def test_beside_a_system_message_there_is_room_for_a_pin_as_it_is_sent(go: Drive, words: int) -> None:
    """A result without a call takes more in a request, where a user message quotes it."""
    graph = agent(ScriptedModel(), "digest", context_window=300, output_reserve=0)
    pin = ToolMessage(
        filler(20), tool_call_id="nobody", name="read", id="pin", additional_kwargs={MARK: {"pinned": True}}
    )
    await go.invoke(graph, {"messages": [pin, HumanMessage("hello")]})
    asked: list[Any] = [{"name": "read", "args": {"n": n}, "id": f"c{n}"} for n in range(60)]
    results = [ToolMessage("done", tool_call_id=f"c{n}", id=f"r{n}") for n in range(60)]
    step = [AIMessage("", tool_calls=asked, id="step"), *results, SystemMessage(filler(words), id="system")]
    await go.invoke(graph, {"messages": [*step, HumanMessage("And what is the sum?")]})
    await go.invoke(graph, said("And what is the sum?"))
    assert values(graph)["messages"][-1].text == "ok"


async def test_a_refused_message_is_archived_as_it_was_said(go: Drive) -> None:
    """Also if there was no room for its pin."""
    graph, message = agent(ScriptedModel(), "digest"), pinned(1_500, "p")
    await go.invoke(graph, {"messages": [message]})
    assert CompactionThread(graph, CONFIG).search("p700")[0].message == message


async def test_a_pin_without_room_is_no_pin_and_the_event_says_so(go: Drive) -> None:
    """Once; earlier pins stay, and all pins together may take exactly half of the room."""
    graph = agent(ScriptedModel(replies=["ok"]), "digest")
    await go.invoke(graph, {"messages": [pinned(300, "early")]})
    given = {"messages": [pinned(193, "late"), pinned(192, "small"), pinned(1, "tiny"), HumanMessage("go")]}
    chunks = await go.stream(graph, given, stream_mode=["custom", "updates"])
    assert [(event["message_ids"], event["most_tokens"]) for event in events(chunks, "PinsRefusedEvent")] == [
        (("late", "tiny"), 500)
    ]
    assert [pin.message_id for pin in CompactionThread(graph, CONFIG).pins()] == ["early", "small"]
    chunks = await go.stream(graph, said("next"), stream_mode=["custom", "updates"])
    assert events(chunks, "PinsRefusedEvent") == []


@pytest.mark.parametrize("on_refusal", ["message", "raise"])
@pytest.mark.parametrize("build", BUILDS)
async def test_a_system_message_is_refused_like_an_input(go: Drive, build: str, on_refusal: str) -> None:
    """No model is called; one line stands in its place; the original is in the transcript."""
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
    await go.invoke(graph, said("again"))
    assert model.received[0][0].text.startswith("[This system message was not sent to the model: with it, ")
    assert CompactionThread(graph, CONFIG).transcript()[0] == SYSTEM
    assert verdicts(graph) == ["refused"]


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
    thread.unpin("q")
    await go.invoke(smaller, None)
    assert values(smaller)["messages"][-1].text == "ok"
    assert [pin.message_id for pin in thread.pins()] == ["p"]


@pytest.mark.parametrize("window", [1_000, 400])
async def test_all_pins_are_new_where_the_newest_message_was_deleted(go: Drive, window: int) -> None:
    """By it a check knows what was there before. Those that have room stay, and the thread goes on in any case."""
    graph = agent(ScriptedModel(replies=["ok"]), "digest")
    await go.invoke(graph, {"messages": [pinned(150, "p"), pinned(250, "q"), HumanMessage("go", id="newest")]})
    graph.update_state(CONFIG, {"messages": [RemoveMessage(id="newest")]}, as_node="commit")
    later = agent(ScriptedModel(replies=["yes"]), "digest", context_window=window, checkpointer=graph.checkpointer)
    await go.invoke(later, said("short"))
    assert values(later)["messages"][-1].text == "yes"
    assert [pin.message_id for pin in CompactionThread(later, CONFIG).pins()] == (
        ["p", "q"] if window > 400 else ["p"]
    )


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
