"""Call a summarizer with a time-out; repeat calls whose errors may pass.

The call has a copy of the caller's `contextvars` context, with its tracing and credentials, but without the
configuration of the run: a graph that summarizes would otherwise take over the turn's checkpointer and streams.
"""

import asyncio
import contextvars
import random
import threading
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from langchain_core.runnables.config import var_child_runnable_config

from langgraph_compaction.checkpoint.telemetry import annotate, annotate_usage, record, span

from ..gate.reply_checks import Reply
from ..providers.error_kind import classify
from ..providers.provider_error import status_of
from ..summary.summarizers import Summarizer, SummaryRequest, is_deterministic
from .effects import Effects, blocking, either, slept

T = TypeVar("T")
MAX_PAUSE = 20.0
"""Maximum number of seconds between two calls."""


class SummaryTimeoutError(TimeoutError):
    """The summarizer gave no answer within `summary_timeout_s`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the summarizer gave no answer within {seconds} s (summary_timeout_s)")


class SummaryAbandonedError(Exception):
    """The event loop on which the summarizer was awaited has ended. This is no failure of the summarizer."""

    def __init__(self) -> None:
        super().__init__("the event loop of the run ended before the summary was written")


class Called(NamedTuple):
    """How a request to a summarizer ended."""

    outcome: Reply | Exception
    """The reply, or the summarizer's own error; `SummaryTimeoutError` after the time-out."""
    calls: int
    """Number of calls, failed ones included."""


def call(
    summarizer: Summarizer, request: SummaryRequest, *, seconds: float, calls: int, pause: float
) -> Effects[Called]:
    """Call a summarizer, at most `calls` times as long as its error may pass.

    `seconds` is the time-out for all calls and the pauses between them together, `pause` the first of these pauses in
    seconds. A deterministic summarizer has no time-out, so that it also finishes on a busy machine.
    """
    began, called = perf_counter(), None
    try:
        with span("compaction.summary", {"compaction.summarizer": summarizer.name}):
            if is_deterministic(summarizer):
                called = Called((yield from _once(blocking(lambda: summarizer.summarize(request)))), 1)
            else:
                called = yield from _repeated(summarizer, request, seconds, calls, pause)
            annotate({"compaction.summary_calls": called.calls})
            record("summary.duration", perf_counter() - began, {"summarizer": summarizer.name})
            _show(called.outcome)
    except Exception as error:
        if called is None or error is not called.outcome:
            raise
    return called


def _repeated(
    summarizer: Summarizer, request: SummaryRequest, seconds: float, calls: int, pause: float
) -> Effects[Called]:
    left, until = seconds, perf_counter() + seconds
    for number in range(1, calls + 1):
        outcome: Any = yield from _once(_bounded_call(summarizer, request, left))
        if isinstance(outcome, SummaryTimeoutError):
            return Called(SummaryTimeoutError(seconds), number)
        if not isinstance(outcome, Exception) and not isinstance(outcome, Reply):
            kind = type(outcome).__name__
            outcome = TypeError(f"the summarizer {summarizer.name!r} returned a {kind}, not a Reply")
            return Called(outcome, number)
        if isinstance(outcome, Reply) or number == calls or not _may_pass(outcome):
            return Called(outcome, number)
        wait = pause_after(number, pause)
        left = until - perf_counter() - wait
        if left <= 0:
            return Called(SummaryTimeoutError(seconds), number)
        yield from slept(wait)
    raise ValueError(f"calls={calls}: ask at least once")


def _once(asked: Effects[T]) -> Effects[T | Exception]:
    """Return what a call returns, or the error that it raises."""
    try:
        return (yield from asked)
    except Exception as error:  # noqa: BLE001 - the caller decides what the error means
        return error


def _bounded_call(summarizer: Summarizer, request: SummaryRequest, seconds: float) -> Effects[Reply]:
    return either(
        lambda: bounded(lambda: summarizer.summarize(request), seconds),
        lambda: abounded(lambda: summarizer.asummarize(request), seconds),
    )


def _may_pass(error: Exception) -> bool:
    """Whether the same call may succeed: after a transient error, and after one of unknown kind without a status."""
    if isinstance(error, SummaryAbandonedError):
        return False
    kind = classify(error)
    return kind == "transient" or (kind == "permanent" and status_of(error) is None)


def pause_after(number: int, first: float) -> float:
    """Return the seconds to wait after this call: twice as many each time, with a random part."""
    return min(MAX_PAUSE, first * 2.0 ** (number - 1) + random.uniform(0, first))  # noqa: S311 - not a secret


def _show(reply: Reply | Exception) -> None:
    """Write the reported usage to the current span and to the metrics; raise an error, so that the span has it."""
    if isinstance(reply, Exception):
        raise reply
    annotate_usage(reply.usage())
    for kind, tokens in (("input", reply.input_tokens), ("output", reply.output_tokens)):
        if tokens:
            record("summary.tokens", tokens, {"gen_ai.token.type": kind})
    annotate({"gen_ai.response.model": reply.model})


def context_without_run() -> contextvars.Context:
    """Return a copy of the current context without the configuration of the current run."""
    context = contextvars.copy_context()
    context.run(var_child_runnable_config.set, None)
    return context


def bounded(call: Callable[[], T], seconds: float) -> T:
    """Run a call on an OS thread, outside of the current run; raise `SummaryTimeoutError` after `seconds`.

    A stalled call goes on in a daemon OS thread, so it delays neither the turn nor the end of the process.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            outcome.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            failure.append(error)

    thread = threading.Thread(
        target=context_without_run().run, args=(target,), daemon=True, name="compaction-summary"
    )
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise SummaryTimeoutError(seconds)
    return outcome[0]


async def abounded(call: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Await a call outside of the current run; raise `SummaryTimeoutError` after `seconds`."""

    async def target() -> T:
        return await call()

    task = asyncio.get_running_loop().create_task(target(), context=context_without_run())
    try:
        async with asyncio.timeout(seconds):
            return await task
    except TimeoutError:
        if task.done() and not task.cancelled():
            raise  # the summarizer's own time-out
        raise SummaryTimeoutError(seconds) from None
    finally:
        if not task.get_loop().is_closed():
            task.cancel()
