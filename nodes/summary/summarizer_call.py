"""Asking a summarizer: in an empty context, for so long, and again where a failure passes by itself."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, TypeVar

from langchain_core.runnables import Runnable, RunnableLambda
from tenacity import wait_exponential_jitter

from ..effects import Effects, blocking, either
from ..providers.overflow import classify
from .summarizers import Summarizer, SummaryRequest, is_deterministic
from .summary_message import Reply

T = TypeVar("T")
LONGEST_PAUSE = 20.0
"""Seconds between two calls, at most."""
_FIRST_PAUSE = "multiplier" if "multiplier" in signature(wait_exponential_jitter).parameters else "initial"
"""How tenacity names the first pause: from 9.2 on it warns of the older name."""


class SummaryTimeoutError(TimeoutError):
    """The summarizer gave no answer in the time that asking it may take."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the summarizer gave no answer within {seconds} s (summary_timeout_s)")


class PassingError(Exception):
    """Stands around an error that passes by itself, so that the call is made again; the error is its cause."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long and how often a summarizer is asked."""

    seconds: float
    """For the whole question, its pauses included."""
    calls: int
    """At most so many; 1 or more."""
    pause: float
    """Seconds before the second call; doubled, with jitter, before each further one."""


@dataclass(frozen=True)
class Question:
    """One request to one summarizer, with what it took."""

    summarizer: Summarizer
    request: SummaryRequest
    calls: list[None] = field(default_factory=list[None])
    """One entry for each call that was made."""

    def ask(self, patience: Patience) -> Effects[Reply]:
        """Ask. An error is raised as it came, `SummaryTimeoutError` after the time, `TypeError` for no reply.

        A summarizer that needs nobody's answer has no time-out: on a busy machine too it must come to its end.
        """
        if is_deterministic(self.summarizer):
            self.calls.append(None)
            return (yield from blocking(lambda: self.summarizer.summarize(self.request)))
        asking = self._retried(patience)
        try:
            reply: Any = yield from either(
                lambda: bounded(lambda: asking.invoke(None), patience.seconds),
                lambda: abounded(lambda: asking.ainvoke(None), patience.seconds),
            )
        except PassingError as passing:
            raise passing.__cause__ or passing from None
        if not isinstance(reply, Reply):
            name, kind = self.summarizer.name, type(reply).__name__
            raise TypeError(f"the summarizer {name!r} returned a {kind}, not a Reply")
        return reply

    def _retried(self, patience: Patience) -> Runnable[Any, Any]:
        def call(_: Any) -> Any:
            self.calls.append(None)
            try:
                return self.summarizer.summarize(self.request)
            except Exception as error:
                if classify(error) == "transient":
                    raise PassingError from error
                raise

        async def acall(_: Any) -> Any:
            self.calls.append(None)
            try:
                return await self.summarizer.asummarize(self.request)
            except Exception as error:
                if classify(error) == "transient":
                    raise PassingError from error
                raise

        waits: Any = {_FIRST_PAUSE: patience.pause, "max": LONGEST_PAUSE, "jitter": patience.pause}
        retrying: Any = RunnableLambda(call, afunc=acall).with_retry(
            retry_if_exception_type=(PassingError,), stop_after_attempt=patience.calls
        )
        # langchain-core would drop a key that its own type does not name
        asked: Runnable[Any, Any] = retrying.model_copy(update={"exponential_jitter_params": waits})
        return asked


def bounded(call: Callable[[], T], seconds: float) -> T:
    """Run a call on a thread of its own, in an empty context; raise `SummaryTimeoutError` after `seconds`.

    A call that has stalled is left behind: it can delay neither the turn nor the end of the process.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            outcome.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            failure.append(error)

    thread = threading.Thread(
        target=contextvars.Context().run, args=(target,), daemon=True, name="compaction-summary"
    )
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise SummaryTimeoutError(seconds)
    return outcome[0]


async def abounded(call: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Await a call in an empty context; raise `SummaryTimeoutError` after `seconds`."""

    async def target() -> T:
        return await call()

    task = asyncio.get_running_loop().create_task(target(), context=contextvars.Context())
    try:
        async with asyncio.timeout(seconds):
            return await task
    except TimeoutError:
        if task.done() and not task.cancelled():
            raise  # the summarizer's own
        raise SummaryTimeoutError(seconds) from None
    finally:
        task.cancel()
