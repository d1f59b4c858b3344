"""Call a summarizer with a time-out; repeat calls whose errors may pass.

The call has a copy of the caller's `contextvars` context, with its tracing and credentials, but without the
configuration of the run: a graph that summarizes would otherwise take over the turn's checkpointer and streams.
"""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from inspect import signature
from time import perf_counter
from typing import Any, TypeVar

from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from tenacity import wait_exponential_jitter

from langgraph_compaction.checkpoint.telemetry import annotate, record, span

from ..gate.reply_checks import Reply
from ..providers.error_kind import classify
from ..providers.provider_error import status_of
from ..summary.summarizers import Summarizer, SummaryRequest, is_deterministic
from .effects import Effects, blocking, either

T = TypeVar("T")
MAX_PAUSE = 20.0
"""Maximum number of seconds between two calls."""
_FIRST_PAUSE = "multiplier" if "multiplier" in signature(wait_exponential_jitter).parameters else "initial"
"""Name of tenacity's parameter for the first pause, which the installed version accepts without a warning (9.2
renamed it)."""


class SummaryTimeoutError(TimeoutError):
    """The summarizer gave no answer within `summary_timeout_s`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the summarizer gave no answer within {seconds} s (summary_timeout_s)")


class SummaryAbandonedError(Exception):
    """The event loop on which the summarizer was awaited has ended. This is no failure of the summarizer."""

    def __init__(self) -> None:
        super().__init__("the event loop of the run ended before the summary was written")


class _PassingError(Exception):
    """Tells tenacity to repeat a call that failed with an error that may pass; `__cause__` is that error."""


def _may_pass(error: Exception) -> bool:
    """Whether the same call may succeed: after a transient error, and after one of unknown kind without a status."""
    if isinstance(error, SummaryAbandonedError):
        return False
    kind = classify(error)
    return kind == "transient" or (kind == "permanent" and status_of(error) is None)


@dataclass(frozen=True, kw_only=True)
class CallLimits:
    """How long and how often a summarizer is called for one request."""

    seconds: float
    """Time-out for all calls and the pauses between them together."""
    calls: int
    """Maximum number of calls, 1 or more."""
    pause: float
    """Seconds between the first and the second call; the pause doubles, with jitter, before each further call."""


@dataclass(frozen=True)
class SummarizerCall:
    """One request to one summarizer, and the calls made for it: a call that failed may be repeated."""

    summarizer: Summarizer
    request: SummaryRequest
    calls: list[None] = field(default_factory=list[None])
    """One entry for each call that was made, failed ones included."""

    def run(self, limits: CallLimits) -> Effects[Reply]:
        """Call the summarizer and return its reply.

        Raises the summarizer's own error, `SummaryTimeoutError` after the time-out, and `TypeError` if the result is
        no `Reply`. A deterministic summarizer has no time-out, so that it also finishes on a busy machine.
        """
        began = perf_counter()
        with span("compaction.summary", {"compaction.summarizer": self.summarizer.name}):
            try:
                reply = yield from self._run(limits)
            except Exception:
                self._tell(began)
                raise
            self._tell(began)
            _measure(reply)
            return reply

    def _tell(self, began: float) -> None:
        annotate({"compaction.summary_calls": len(self.calls)})
        record("summary.duration", perf_counter() - began, {"summarizer": self.summarizer.name})

    def _run(self, limits: CallLimits) -> Effects[Reply]:
        if is_deterministic(self.summarizer):
            self.calls.append(None)
            return (yield from blocking(lambda: self.summarizer.summarize(self.request)))
        retrying = self._retrying(limits)
        try:
            reply: Any = yield from either(
                lambda: bounded(lambda: retrying.invoke(None), limits.seconds),
                lambda: abounded(lambda: retrying.ainvoke(None), limits.seconds),
            )
        except _PassingError as passing:
            raise passing.__cause__ or passing from None
        if not isinstance(reply, Reply):
            name, kind = self.summarizer.name, type(reply).__name__
            raise TypeError(f"the summarizer {name!r} returned a {kind}, not a Reply")
        return reply

    def _retrying(self, limits: CallLimits) -> Runnable[Any, Any]:
        def call(_: Any) -> Any:
            self.calls.append(None)
            try:
                return self.summarizer.summarize(self.request)
            except Exception as error:
                if _may_pass(error):
                    raise _PassingError from error
                raise

        async def acall(_: Any) -> Any:
            self.calls.append(None)
            try:
                return await self.summarizer.asummarize(self.request)
            except Exception as error:
                if _may_pass(error):
                    raise _PassingError from error
                raise

        waits: Any = {_FIRST_PAUSE: limits.pause, "max": MAX_PAUSE, "jitter": limits.pause}
        retrying: Any = RunnableLambda(call, afunc=acall).with_retry(
            retry_if_exception_type=(_PassingError,), stop_after_attempt=limits.calls
        )
        # set on a copy, because langchain-core drops keys that its own type of the parameter does not list
        result: Runnable[Any, Any] = retrying.model_copy(update={"exponential_jitter_params": waits})
        return result


def _measure(reply: Reply) -> None:
    """Write the reported usage to the current span and to the metrics."""
    for kind, tokens in (("input", reply.input_tokens), ("output", reply.output_tokens)):
        if tokens:
            annotate({f"gen_ai.usage.{kind}_tokens": tokens})
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
        task.cancel()
