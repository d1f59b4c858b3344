from contextlib import suppress
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Overwrite

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
    request_tokens,
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


def defective() -> list[Any]:
    """A long thread as other programs leave it: over the window, with every defect we know."""
    call = {"name": "read", "args": {}, "id": "c1"}
    return [
        ToolMessage("nobody asked", tool_call_id="gone", id="orphan"),
        *rounds(6),
        AIMessage("", tool_calls=[call], id="interrupted"),
        HumanMessage("never mind", id="interruption"),
        AIMessage("fine", id="fine"),
        AIMessage("", tool_calls=[call], id="again"),
        ToolMessage(filler(60), tool_call_id="c1", id="reused-call-id"),
        ToolMessage(filler(60), tool_call_id="c1", id="answered-twice"),
        HumanMessage("this id", id="twice"),
        AIMessage("that id", id="twice"),
        HumanMessage(filler(60, "no-id")),
        {"role": "assistant", "content": filler(60, "a-dict")},
        *rounds(6, tag="later"),
    ]


async def test_a_long_thread_with_defects_is_compacted_on_its_first_turn(go: Drive) -> None:
    """An adopted thread over the window is compacted before its first call, and nothing of it is lost."""
    model = ScriptedModel()
    graph = agent(model)
    graph.update_state(CONFIG, {"messages": Overwrite(defective())}, as_node="model")
    await go.invoke(graph, said("and now?"))
    assert verdicts(graph)[0] == "committed"
    assert len(model.received) == 1
    assert request_tokens(model.received[0]) <= 1_000
    assert model.received[0][-1].text == "and now?"
    held = values(graph)["messages"]
    assert len({message.id for message in held}) == len(held)
    said_then = [m["content"] if isinstance(m, dict) else m.text for m in defective()]
    assert [message.text for message in CompactionThread(graph, CONFIG).transcript()[: len(said_then)]] == said_then
