"""The call of a summarizer: repeated after transient errors, with a time-out, and without leftover tasks."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
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
    context_without_run,
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
@pytest.mark.parametrize("times", [0, 1, 2])
def test_an_error_that_passes_is_asked_again(ask: Ask, times: int) -> None:
    """A transient error is followed by further calls up to the limit, and each call is counted."""
    asked = question(Failing(times, ConnectionError("reset")))
    assert ask(asked, PATIENCE) == GOOD
    assert len(asked.calls) == times + 1


@both
def test_one_that_does_not_pass_is_raised_as_it_came(ask: Ask) -> None:
    """The summarizer's own exception, after the last call."""
    error = ConnectionError("reset")
    asked = question(Failing(9, error))
    with pytest.raises(ConnectionError) as raised:
        ask(asked, PATIENCE)
    assert raised.value is error
    assert len(asked.calls) == 3


@both
def test_a_permanent_error_is_asked_once(ask: Ask) -> None:
    """After a permanent error there is no second call, which would fail in the same way."""
    asked = question(Failing(9, ValueError("the API key is invalid")))
    with pytest.raises(ValueError, match="key is invalid"):
        ask(asked, PATIENCE)
    assert len(asked.calls) == 1


@both
def test_an_error_of_unknown_kind_is_asked_again(ask: Ask) -> None:
    """It may pass: nothing in it says that the next call fails in the same way."""
    asked = question(Failing(9, ValueError("no such key")))
    with pytest.raises(ValueError, match="no such key"):
        ask(asked, PATIENCE)
    assert len(asked.calls) == 3


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


async def test_a_stalled_summarizer_is_cancelled_on_the_event_loop() -> None:
    """After the time-out the summarizer's task is cancelled, and no task is left."""
    stalled = StalledSummarizer()
    with pytest.raises(SummaryTimeoutError):
        await arun(question(stalled).run(CallLimits(seconds=0.05, calls=3, pause=0)))
    await asyncio.sleep(0)
    assert stalled.cancelled
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelling_the_turn_cancels_the_summarizer() -> None:
    """Cancelling the turn cancels the summarizer's task."""
    stalled = StalledSummarizer()
    turn = asyncio.create_task(arun(question(stalled).run(PATIENCE)))
    await asyncio.to_thread(stalled.entered.wait, 10)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
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


def test_a_context_without_the_run_keeps_what_else_is_in_it() -> None:
    """What runs in it is no child of the run, and sees the application's context variables."""
    tenant = ContextVar("tenant", default="nobody")

    def inside() -> tuple[Any, str]:
        return context_without_run().run(lambda: (var_child_runnable_config.get(), tenant.get()))

    context = copy_context()
    context.run(var_child_runnable_config.set, {"tags": ["of the run"]})
    context.run(tenant.set, "acme")
    assert context.run(inside) == (None, "acme")


@both
def test_a_summary_whose_event_loop_has_ended_is_not_asked_for_again(ask: Ask) -> None:
    """There is one call, and the error says that the loop of the run ended."""
    asked = question(Failing(9, SummaryAbandonedError()))
    with pytest.raises(SummaryAbandonedError, match="event loop of the run ended"):
        ask(asked, PATIENCE)
    assert len(asked.calls) == 1
