"""The call of a summarizer: repeated after transient errors, with a time-out, and without leftover tasks."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, cast

import pytest
from langchain_core.runnables.config import var_child_runnable_config
from tenacity import wait_exponential_jitter

from langgraph_compaction.nodes import Reply, SummaryRequest
from langgraph_compaction.nodes.runtime.effects import arun, run
from langgraph_compaction.nodes.runtime.summarizer_call import (
    MAX_PAUSE,
    CallLimits,
    SummarizerCall,
    SummaryAbandonedError,
    SummaryTimeoutError,
    abounded,
    bounded,
)
from langgraph_compaction.nodes.summary.summarizers import DigestSummarizer
from tests.fakes import ReplyingSummarizer, StalledSummarizer
from tests.graph.harness import WORDS

GOOD = Reply(content="<summary>text</summary>")
PATIENCE = CallLimits(seconds=30, calls=3, pause=0)

Ask = Callable[[SummarizerCall, CallLimits], Reply]
both = pytest.mark.parametrize(
    "ask", [lambda q, p: run(q.run(p)), lambda q, p: asyncio.run(arun(q.run(p)))], ids=["sync", "async"]
)


class Failing(ReplyingSummarizer):
    """A summarizer that raises a number of times before it replies."""

    def __init__(self, times: int, error: Exception) -> None:
        super().__init__(GOOD)
        self.times, self.error = times, error

    def summarize(self, request: SummaryRequest) -> Any:
        """Raise, or reply."""
        reply = super().summarize(request)
        if len(self.requests) <= self.times:
            raise self.error
        return reply


def question(summarizer: Any) -> SummarizerCall:
    """Return a call with an empty request."""
    request = SummaryRequest(messages=(), conversation="", earlier=None, record=None, max_tokens=50, counter=WORDS)
    return SummarizerCall(summarizer, request)


@both
@pytest.mark.parametrize(
    ("error", "times", "calls"),
    [
        (ConnectionError("reset"), 2, 3),
        (ConnectionError("reset"), 9, 3),
        (ValueError("no such key"), 9, 3),  # of an unknown kind: it may pass
        (ValueError("the API key is invalid"), 9, 1),
        (SummaryAbandonedError(), 9, 1),
    ],
)
def test_an_error_that_may_pass_is_asked_again(ask: Ask, error: Exception, times: int, calls: int) -> None:
    """Up to the limit, then it is raised as it came; each call is counted."""
    asked = question(Failing(times, error))
    if times < calls:
        assert ask(asked, PATIENCE) == GOOD
    else:
        with pytest.raises(type(error)) as raised:
            ask(asked, PATIENCE)
        assert raised.value is error
    assert len(asked.calls) == calls


@both
def test_what_is_no_reply_is_named(ask: Ask) -> None:
    """A custom summarizer that returns a plain text instead of a `Reply` is named in the error."""
    with pytest.raises(TypeError, match="'own' returned a str, not a Reply"):
        ask(question(ReplyingSummarizer("text")), PATIENCE)


def test_pauses_double_up_to_the_longest() -> None:
    """The waits handed to `with_retry` begin with the pause and end with the longest; tenacity warns of none."""
    asked: Any = question(ReplyingSummarizer(GOOD))._retrying(CallLimits(seconds=9, calls=3, pause=0.5))
    assert asked.wait_exponential_jitter is True
    waits = wait_exponential_jitter(**asked.exponential_jitter_params)
    first, later = (SimpleNamespace(attempt_number=number) for number in (1, 99))
    assert 0.5 <= waits(cast("Any", first)) <= 1
    assert waits(cast("Any", later)) == MAX_PAUSE
    assert asked.max_attempt_number == 3


def test_a_stalled_summarizer_is_left_behind() -> None:
    """The time covers the whole question; its thread is a daemon and ends when it is let go."""
    stalled, before = StalledSummarizer(), set(threading.enumerate())
    with pytest.raises(SummaryTimeoutError, match=r"no answer within 0\.05 s"):
        run(question(stalled).run(CallLimits(seconds=0.05, calls=3, pause=0)))
    assert stalled.calls == 1
    left = [one for one in threading.enumerate() if one.name == "compaction-summary" and one not in before]
    assert left
    assert all(thread.daemon for thread in left)
    stalled.let_go.set()
    for thread in left:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize("is_late", [True, False])
async def test_a_stalled_summarizer_is_cancelled_on_the_event_loop(*, is_late: bool) -> None:
    """By the time-out and by the turn's own cancellation alike; no task is left."""
    stalled = StalledSummarizer()
    limits = CallLimits(seconds=1 if is_late else 30, calls=3, pause=0)
    turn = asyncio.create_task(arun(question(stalled).run(limits)))
    await asyncio.to_thread(stalled.entered.wait, 10)
    if not is_late:
        turn.cancel()
    with pytest.raises(SummaryTimeoutError if is_late else asyncio.CancelledError):
        await turn
    await asyncio.sleep(0)
    assert stalled.cancelled
    assert asyncio.all_tasks() == {asyncio.current_task()}


@both
def test_a_deterministic_summarizer_has_no_time_out(ask: Ask) -> None:
    """A deterministic summarizer finishes on a busy machine too, and its one call is counted."""
    asked = question(DigestSummarizer())
    assert ask(asked, CallLimits(seconds=1e-9, calls=1, pause=0)).content
    assert len(asked.calls) == 1


async def test_the_turns_run_is_not_inherited_and_its_context_variables_are() -> None:
    """Not LangChain's run, with thread id and checkpointer; other context variables, such as a trace's span, are."""
    tenant = ContextVar("tenant", default="nobody")
    tenant.set("acme")
    token = var_child_runnable_config.set({"configurable": {"thread_id": "t"}})

    def look() -> tuple[str, Any]:
        return tenant.get(), var_child_runnable_config.get(None)

    async def alook() -> tuple[str, Any]:
        return look()

    try:
        assert look() == ("acme", {"configurable": {"thread_id": "t"}})
        assert bounded(look, 10) == await abounded(alook, 10) == ("acme", None)
    finally:
        var_child_runnable_config.reset(token)


async def test_a_time_out_of_the_calls_own_stays_its_own() -> None:
    """And so does whatever else it raises."""
    for error in (TimeoutError("the model's own"), KeyboardInterrupt()):

        def fails(error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            bounded(fails, 10)
        assert caught.value is error

    async def afails() -> None:
        raise TimeoutError("the model's own")

    with pytest.raises(TimeoutError, match="the model's own"):
        await abounded(afails, 10)
