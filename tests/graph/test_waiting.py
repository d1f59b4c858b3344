import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from tests.fakes import ScriptedModel, StalledSummarizer
from tests.graph.harness import (
    CONFIG,
    SUMMARY,
    Clock,
    Drive,
    agent,
    calm,
    events,
    frozen,
    full,
    ledger,
    rounds,
    said,
    standing,
    steps,
    values,
    verdicts,
)


@pytest.fixture
def stalled() -> Iterator[StalledSummarizer]:
    """Return a summarizer that waits, and let it go in the end."""
    summarizer = StalledSummarizer()
    yield summarizer
    summarizer.let_go.set()


async def test_a_stalled_summarizer_ends_at_its_time_out(go: Drive, stalled: StalledSummarizer) -> None:
    """It is called once, because two more calls would stall as well; the turn goes on, and nothing has changed."""
    graph = agent(calm(), stalled, summary_timeout_s=0.05)
    await go.invoke(graph, full())
    (row,) = ledger(graph)
    assert (row.verdict, row.reason) == ("failed_transient", "summary_timeout")
    assert "summary_timeout_s" in row.detail
    assert stalled.calls == 1
    assert [m.id for m in values(graph)["messages"]] == [*(m.id for m in full()["messages"]), "the-answer"]


async def test_a_stalled_chat_model_ends_too(go: Drive, stalled: StalledSummarizer) -> None:
    """Whatever the summarizer is, also a model that knows only blocking calls."""

    def hang(_: list[BaseMessage]) -> str:
        stalled.entered.set()
        stalled.let_go.wait()
        return SUMMARY

    graph = agent(ScriptedModel(), ScriptedModel(replies=[hang]), summary_timeout_s=0.05)
    try:
        await go.invoke(graph, full())
    finally:
        stalled.let_go.set()  # or the event loop would wait for the model's thread
    assert ledger(graph)[0].reason == "summary_timeout"
    assert stalled.entered.is_set()


async def test_the_summarizers_own_time_out_is_retried(go: Drive) -> None:
    """A time-out that the client raises is a failure that may pass."""
    summarizer = ScriptedModel(replies=[TimeoutError("read timed out"), SUMMARY])
    graph = agent(ScriptedModel(), summarizer)
    await go.invoke(graph, full())
    assert verdicts(graph) == ["committed"]


async def test_what_needs_nobodys_answer_has_no_time_out(go: Drive) -> None:
    """The digest comes to its end on a busy machine too."""
    graph = agent(ScriptedModel(), "digest", summary_timeout_s=1e-9)
    await go.invoke(graph, full())
    assert verdicts(graph) == ["committed"]


@pytest.mark.parametrize(("pairs", "after"), [(8, []), (10, ["degraded_deterministic"])])
async def test_a_compaction_has_one_deadline(go: Drive, clock: Clock, pairs: int, after: list[str]) -> None:
    """Two refused replies of 50 s fit into 120 s, a third and a fallback do not: over the limit a digest follows."""

    def refused(_: list[BaseMessage]) -> str:
        clock.time += 50
        return ""

    spare = ScriptedModel(replies=[SUMMARY])
    summarizer = ScriptedModel(replies=[refused])
    graph = agent(calm(), summarizer, fallback_summarizers=[spare], now=clock)
    await go.invoke(graph, {"messages": [*rounds(pairs), HumanMessage("and now?")]})
    assert verdicts(graph) == ["rejected_empty", *after]
    assert (len(summarizer.received), len(spare.received)) == (2, 0)
    assert "seconds_left" not in standing(graph)["breaker"]


async def test_a_fallback_is_asked_while_any_time_is_left(go: Drive, clock: Clock) -> None:
    """Half a second before the deadline, a fallback that answers at once still writes the summary."""

    def refused(_: list[BaseMessage]) -> AIMessage:
        clock.time += 119.5
        return AIMessage("", tool_calls=[{"name": "read", "args": {}, "id": "c"}])

    spare = ScriptedModel(replies=[SUMMARY])
    graph = agent(calm(), ScriptedModel(replies=[refused]), fallback_summarizers=[spare], now=clock)
    await go.invoke(graph, {"messages": [*rounds(10), HumanMessage("and now?")]})
    assert verdicts(graph) == ["rejected_tool_call", "committed"]
    assert len(spare.received) == 1


async def test_the_next_compaction_has_its_own_deadline(go: Drive, clock: Clock) -> None:
    """The time that the compaction before an answer used up is not missing in the one after it."""

    def refused(_: list[BaseMessage]) -> str:
        clock.time += 150
        return ""

    spare = ScriptedModel(replies=[SUMMARY])
    graph = agent(ScriptedModel(), ScriptedModel(replies=[refused]), fallback_summarizers=[spare], now=clock)
    await go.invoke(graph, full())
    assert verdicts(graph) == ["rejected_empty", "committed"]


async def cancelled_in_summarize(graph: Any, stalled: StalledSummarizer) -> None:
    """Start a turn and cancel it while the summarizer works."""
    task = asyncio.create_task(graph.ainvoke(full(), CONFIG))
    await asyncio.to_thread(stalled.entered.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancellation_leaves_the_messages_alone(stalled: StalledSummarizer) -> None:
    """The summarizer is cancelled with its turn; the thread holds what it held, and the draft."""
    graph = agent(ScriptedModel(), stalled)
    await cancelled_in_summarize(graph, stalled)
    assert stalled.cancelled
    assert frozen(values(graph)["messages"]) == frozen(full()["messages"])
    assert graph.get_state(CONFIG).next == ("summarize",)
    assert verdicts(graph) == [None]


async def test_after_a_cancellation_the_next_input_is_answered(stalled: StalledSummarizer, clock: Clock) -> None:
    """While the cancelled run could still be at work it is let be; later its draft is dropped and made anew."""
    model = ScriptedModel()
    graph = agent(model, stalled, now=clock)
    await cancelled_in_summarize(graph, stalled)
    stalled.let_go.set()
    chunks = [chunk async for chunk in graph.astream(said("hello?"), CONFIG)]
    assert steps(chunks) == ["token_check", "model"]
    assert model.received[0][-1].text == "hello?"
    clock.time += 61
    assert steps([chunk async for chunk in graph.astream(said("still there?"), CONFIG)]) == [
        "token_check",
        "rollback",
        "selective_compaction",
        "summarize",
        "commit",
        "model",
    ]
    assert verdicts(graph) == ["recovered", "committed"]
    assert standing(graph)["draft"] is None
    assert {"hello?", "still there?"} <= {message.text for message in values(graph)["messages"]}


async def test_a_cancelled_turn_can_be_resumed(stalled: StalledSummarizer) -> None:
    """`invoke(None)` goes on with the draft and answers the question."""
    graph = agent(ScriptedModel(), stalled)
    await cancelled_in_summarize(graph, stalled)
    stalled.let_go.set()
    chunks = [chunk async for chunk in graph.astream(None, CONFIG, stream_mode=["updates", "custom"])]
    assert steps(chunks) == ["summarize", "commit", "model"]
    assert [event["verdict"] for event in events(chunks, "CompactionEvent")] == ["committed"]
    assert values(graph)["messages"][-1].text == "ok"
