"""The test doubles that a user of this package has: scripted models, and what fails on purpose."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_compaction.nodes.testing import (
    BAD_REPLIES,
    Fault,
    ScriptedModel,
    StalledModel,
    StreamingModel,
    calls,
    usage,
)
from tests.fakes import copying
from tests.graph.harness import CONFIG, agent, told, verdicts

ASKED: list[BaseMessage] = [HumanMessage("NEEDLE-1 and NEEDLE-2 and NEEDLE-1")]


def test_a_scripted_model_follows_its_script_and_records_what_it_received() -> None:
    """Texts, messages, functions and errors in order; the last one for ever."""
    model = ScriptedModel(replies=["one", AIMessage("two"), copying(r"NEEDLE-\d"), ValueError("down")])
    found = [model.invoke(ASKED).text for _ in range(3)]
    assert found == ["one", "two", "<summary>NEEDLE-1 NEEDLE-2</summary>"]
    for _ in range(2):
        with pytest.raises(ValueError, match="down"):
            model.invoke(ASKED)
    assert model.received == [ASKED] * 5


async def test_a_streaming_model_says_the_same_word_by_word() -> None:
    """Text, calls with quotes in their arguments, and usage add up to the reply."""
    reply = usage(calls(("read", {"path": 'it\'s "here"'}), text="let me see"), 7)
    for chunks in (
        list(StreamingModel(replies=[reply]).stream(ASKED)),
        [chunk async for chunk in StreamingModel(replies=[reply]).astream(ASKED)],
    ):
        whole: Any = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        assert whole.text == "let me see"
        assert whole.tool_calls == reply.tool_calls
        assert whole.usage_metadata == reply.usage_metadata
        assert [chunk.text for chunk in chunks[:3]] == ["let ", "me ", "see"]


async def test_a_stalled_model_waits_until_it_is_let_go_or_cancelled() -> None:
    """On a thread and on an event loop."""
    model = StalledModel()
    task = asyncio.create_task(asyncio.to_thread(model.invoke, ASKED))
    await asyncio.to_thread(model.stall.entered.wait)
    assert not task.done()
    model.stall.let_go.set()
    assert (await task).text == "ok"
    assert (await model.ainvoke(ASKED)).text == "ok"
    other = StalledModel()
    task = asyncio.create_task(other.ainvoke(ASKED))
    await asyncio.to_thread(other.stall.entered.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert other.stall.cancelled
    assert other.received == []


@pytest.mark.parametrize("name", BAD_REPLIES)
def test_no_bad_reply_becomes_a_summary(name: str) -> None:
    """An agent whose summarizer gives it commits nothing of it."""
    graph = agent(
        ScriptedModel(replies=[usage(AIMessage("answered"), 100)]), ScriptedModel(replies=[BAD_REPLIES[name]])
    )
    graph.invoke(told(), CONFIG)
    (verdict,) = verdicts(graph)
    assert verdict is not None
    assert verdict.startswith(("rejected_", "failed_"))


async def test_a_coroutine_method_raises_when_it_is_awaited() -> None:
    """So often and no more; mended, it works again."""

    class Store:
        async def get(self, key: str) -> str:
            return key

    store = Store()
    with Fault(store, "get", nth=2, times=None, error=KeyError("gone")) as fault:
        assert await store.get("a") == "a"
        for _ in range(3):
            waiting = store.get("b")
            with pytest.raises(KeyError):
                await waiting
        assert fault.calls == 4
    assert await store.get("c") == "c"
