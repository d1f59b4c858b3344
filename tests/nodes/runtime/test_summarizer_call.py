"""The call of a summarizer: repeated after transient errors, with a time-out, and without leftover tasks."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
from langchain_core.runnables.config import var_child_runnable_config

from langgraph_compaction.nodes import Reply, SummaryRequest
from langgraph_compaction.nodes.runtime.effects import Effects, arun, run
from langgraph_compaction.nodes.runtime.summarizer_call import (
    MAX_PAUSE,
    Called,
    SummaryAbandonedError,
    SummaryTimeoutError,
    abounded,
    bounded,
    call,
    pause_after,
)
from langgraph_compaction.nodes.summary.summarizers import DigestSummarizer
from tests.fakes import ReplyingSummarizer, StalledSummarizer
from tests.graph.harness import WORDS

GOOD = Reply(content="<summary>text</summary>")
PATIENCE = {"seconds": 30.0, "calls": 3, "pause": 0.0}

Ask = Callable[[Effects[Called]], Called]
both = pytest.mark.parametrize("ask", [run, lambda asked: asyncio.run(arun(asked))], ids=["sync", "async"])


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


def question(summarizer: Any, **limits: Any) -> Effects[Called]:
    """Return a call with an empty request."""
    request = SummaryRequest(messages=(), conversation="", earlier=None, record=None, max_tokens=50, counter=WORDS)
    return call(summarizer, request, **{**PATIENCE, **limits})


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
    """Up to the limit, then it is returned as it came; each call is counted."""
    assert ask(question(Failing(times, error))) == (GOOD if times < calls else error, calls)


@both
def test_what_is_no_reply_is_named(ask: Ask) -> None:
    """A custom summarizer that returns a plain text instead of a `Reply` is named in the error."""
    outcome, calls = ask(question(ReplyingSummarizer("text")))
    assert isinstance(outcome, TypeError)
    assert str(outcome) == "the summarizer 'own' returned a str, not a Reply"
    assert calls == 1


def test_pauses_double_up_to_the_longest() -> None:
    """The first is as long as asked, with a random part; none is longer than the longest."""
    assert 0.5 <= pause_after(1, 0.5) <= 1
    assert 1 <= pause_after(2, 0.5) <= 1.5
    assert pause_after(99, 0.5) == MAX_PAUSE


@both
def test_a_pause_counts_as_time(ask: Ask) -> None:
    """No call begins that would have no time left."""
    outcome, calls = ask(question(Failing(9, ConnectionError("reset")), seconds=5, pause=10))
    assert isinstance(outcome, SummaryTimeoutError)
    assert calls == 1


def test_a_stalled_summarizer_is_left_behind() -> None:
    """The time covers the whole question; its thread is a daemon and ends when it is let go."""
    stalled, before = StalledSummarizer(), set(threading.enumerate())
    outcome, calls = run(question(stalled, seconds=0.05))
    assert isinstance(outcome, SummaryTimeoutError)
    assert "no answer within 0.05 s" in str(outcome)
    assert stalled.calls == calls == 1
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
    turn = asyncio.create_task(arun(question(stalled, seconds=1 if is_late else 30)))
    await asyncio.to_thread(stalled.entered.wait, 10)
    if not is_late:
        turn.cancel()
    if is_late:
        assert isinstance((await turn).outcome, SummaryTimeoutError)
    else:
        with pytest.raises(asyncio.CancelledError):
            await turn
    await asyncio.sleep(0)
    assert stalled.cancelled
    assert asyncio.all_tasks() == {asyncio.current_task()}


@both
def test_a_deterministic_summarizer_has_no_time_out(ask: Ask) -> None:
    """A deterministic summarizer finishes on a busy machine too, and its one call is counted."""
    outcome, calls = ask(question(DigestSummarizer(), seconds=1e-9))
    assert isinstance(outcome, Reply)
    assert calls == 1


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
