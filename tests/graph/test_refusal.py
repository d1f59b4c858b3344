from contextlib import suppress
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.graph import CompactionThread, MessageRefusedError
from langgraph_compaction.graph.thread_state import records_of
from tests.fakes import ScriptedModel
from tests.graph.harness import (
    CONFIG,
    Drive,
    agent,
    events,
    filler,
    frozen,
    ledger,
    rounds,
    said,
    standing,
    steps,
    values,
    verdicts,
)
from tests.graph.middleware.agents import agent as middleware_agent

HUGE = HumanMessage(filler(1_200, "huge-"), id="huge", name="ann")


def huge() -> dict[str, Any]:
    """An input that no compaction can make fit."""
    return {"messages": [HUGE.model_copy()]}


async def test_an_input_larger_than_the_window_is_refused(go: Drive) -> None:
    """It ends the turn: one line stands in its place, with its id, the sizes and a handle, and an answer says so."""
    model = ScriptedModel()
    graph = agent(model)
    await go.invoke(graph, said("hello"))
    chunks = await go.stream(graph, huge(), stream_mode=["updates", "custom", "messages"])
    assert steps(chunks) == ["token_check"]
    assert len(model.received) == 1
    *_, stand_in, answer = values(graph)["messages"]
    assert isinstance(answer, AIMessage)
    assert answer.text.startswith("A message was not sent to the model: with the fixed part")
    assert [payload[0] for mode, payload in chunks if mode == "messages"] == [answer]
    assert (stand_in.id, stand_in.type, stand_in.name) == ("huge", "human", "ann")
    assert "\n" not in stand_in.text
    handle = stand_in.additional_kwargs["compaction"]["handle"]
    assert all(part in stand_in.text for part in ("1204", "1000", handle))
    assert records_of(graph).recall("thread", handle) == HUGE
    assert standing(graph)["last"]["verdict"] == ledger(graph)[-1].verdict == "refused"
    assert [event["verdict"] for event in events(chunks, "CompactionEvent")] == ["refused"]


async def test_the_next_small_input_works(go: Drive) -> None:
    """A refused input poisons nothing; the model reads the line in its place, and the transcript has the original."""
    model = ScriptedModel()
    graph = agent(model)
    await go.invoke(graph, huge())
    assert steps(await go.stream(graph, said("hello"))) == ["token_check", "model"]
    begun = [message.text[:20] for message in model.received[0]]
    assert begun == ["[This message was no", "A message was not se", "hello"]
    assert CompactionThread(graph, CONFIG).transcript()[0] == HUGE


async def test_a_refusal_may_raise(go: Drive) -> None:
    """With `on_refusal="raise"` the state is the same, and the caller is told by an error."""
    graph = agent(on_refusal="raise")
    with pytest.raises(MessageRefusedError, match="1204"):
        await go.invoke(graph, huge())
    assert verdicts(graph) == ["refused"]
    assert values(graph)["messages"][-1].text.startswith("[This message was not sent")
    await go.invoke(graph, said("hello"))
    assert values(graph)["messages"][-1].text == "ok"


async def test_a_refused_input_is_refused_once(go: Drive) -> None:
    """Where even its line does not fit, running again changes nothing: the handle stays that of the original."""
    graph = agent(system_prompt=filler(980))
    await go.invoke(graph, huge())
    held = frozen(values(graph)["messages"])
    assert steps(await go.stream(graph, {"messages": []})) == ["token_check"]
    assert frozen(values(graph)["messages"]) == held
    assert verdicts(graph) == ["refused"]


async def test_a_message_that_just_fits_is_not_refused(go: Drive) -> None:
    """The limit itself can be sent: what is older goes."""
    model = ScriptedModel()
    graph = agent(model)
    await go.invoke(graph, {"messages": [*rounds(4), HumanMessage(filler(970), id="large")]})
    assert model.received[0][-1].id == "large"
    assert "refused" not in verdicts(graph)


@pytest.mark.parametrize("prompt_words", [0, 300])
async def test_the_fixed_part_counts(go: Drive, prompt_words: int) -> None:
    """What the system prompt takes is not there for the message."""
    graph = agent(system_prompt=filler(prompt_words) or None)
    await go.invoke(graph, said(filler(800)))
    assert (verdicts(graph) == ["refused"]) == bool(prompt_words)


@pytest.mark.parametrize("on_refusal", ["message", "raise"])
@pytest.mark.parametrize("build", [agent, middleware_agent], ids=["graph", "middleware"])
async def test_a_wish_after_a_refusal_asks_no_model(go: Drive, build: Any, on_refusal: str) -> None:
    """A refused message waits for no answer: `compact` compacts, and the agent says nothing to it."""
    model = ScriptedModel()
    graph = build(model, "digest", on_refusal=on_refusal)
    await go.invoke(graph, {"messages": [*rounds(4), HumanMessage("hello", id="hello")]})
    raises = (MessageRefusedError,) if on_refusal == "raise" else ()
    with suppress(*raises):
        await go.invoke(graph, huge())
    with suppress(*raises):
        await go.invoke(graph, {"messages": [], "compaction_request": {"focus": None}})
    assert len(model.received) == 1
    if build is agent:
        assert ledger(graph)[-1].verdict == "committed"
    await go.invoke(graph, said("and now?"))
    assert len(model.received) == 2
    assert values(graph)["messages"][-1].text == "ok"
