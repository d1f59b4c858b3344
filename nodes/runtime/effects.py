"""One function body for sync and async: the body yields calls to wait for, and a driver makes these calls.

The body is a generator: it yields `Effect` objects (a model's call, a database transaction), receives their results,
and returns its own result. `run` makes the synchronous call of each effect, `arun` awaits the asynchronous call. An
exception of a call is raised inside the body, which handles the exception. Between its effects a body only computes:
`arun` runs a body that reads long messages in a worker OS thread, so that other conversations go on meanwhile.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import closing, suppress
from contextvars import copy_context
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeVar

from langgraph_compaction.checkpoint import Database

from ..conversation.lengths import length_of

T = TypeVar("T")


_INLINE_CHARS = 20_000
"""Number of characters in messages up to which a body runs on the event loop: it takes a few milliseconds at most."""


class Keeper(Protocol):
    """Records in a database, which has OS threads of its own for its calls."""

    database: Database


@dataclass(frozen=True)
class Effect:
    """A call to wait for, in its synchronous and its asynchronous form."""

    call: Callable[[], Any]
    acall: Callable[[], Awaitable[Any]]


Effects = Generator[Effect, Any, T]


def blocking(call: Callable[[], T]) -> Effects[T]:
    """Wait for a blocking call; under `arun` the call runs in a worker OS thread, never on the event loop."""
    result: T = yield Effect(call, lambda: asyncio.to_thread(call))
    return result


def querying(records: Keeper, call: Callable[[], T]) -> Effects[T]:
    """Wait for a call that uses these records; under `arun` the call runs in an OS thread of their database."""
    result: T = yield Effect(call, lambda: records.database.workers.run(call))
    return result


def either(call: Callable[[], T], acall: Callable[[], Awaitable[T]]) -> Effects[T]:
    """Wait for `call` if `run` drives the body, and for `acall` if `arun` does."""
    result: T = yield Effect(call, acall)
    return result


def slept(seconds: float) -> Effects[None]:
    """Wait so many seconds."""
    yield from either(lambda: time.sleep(seconds), lambda: asyncio.sleep(seconds))


def is_long(messages: Iterable[Any]) -> bool:
    """Whether a body that reads these messages should run off the event loop."""
    return any(length > _INLINE_CHARS for length in accumulate(map(length_of, messages)))


def run(step: Effects[T], call: Callable[[Effect], Any] = lambda effect: effect.call()) -> T:
    """Run a body synchronously, return its result; an exception that leaves this function first closes the body.

    `call` makes the call of an effect and returns its result.
    """
    with closing(step):
        reached = _advance(step)
        while isinstance(reached, Effect):
            try:
                value = call(reached)
            except Exception as error:  # noqa: BLE001 - raised again inside the step
                reached = _advance(step, error=error)
            else:
                reached = _advance(step, value)
        return reached.value


async def arun(step: Effects[T], *, off_loop: bool = False) -> T:
    """Run a body asynchronously, return its result; an exception or a cancellation first closes the body.

    With `off_loop` the body itself runs in a worker OS thread and only its calls are awaited on the event loop: for
    bodies that compute for more than a few milliseconds.
    """
    if off_loop:
        return await _arun_off_loop(step)
    with closing(step):
        reached = _advance(step)
        while isinstance(reached, Effect):
            try:
                value = await reached.acall()
            except Exception as error:  # noqa: BLE001 - raised again inside the step
                reached = _advance(step, error=error)
            else:
                reached = _advance(step, value)
        return reached.value


async def _arun_off_loop(step: Effects[T]) -> T:
    """Run a body in worker threads and its calls on the loop, in one context: a span may stay open across them."""
    context, loop = copy_context(), asyncio.get_running_loop()

    async def advance(value: Any = None, error: Exception | None = None) -> "Effect | _Returned[T]":
        return await _uninterrupted(
            loop.run_in_executor(None, lambda: context.run(lambda: _advance(step, value, error)))
        )

    async def called(effect: Effect) -> Any:
        return await effect.acall()

    try:
        reached = await advance()
        while isinstance(reached, Effect):
            try:
                value = await loop.create_task(called(reached), context=context)
            except Exception as error:  # noqa: BLE001 - raised again inside the step
                reached = await advance(error=error)
            else:
                reached = await advance(value)
        return reached.value
    finally:
        context.run(step.close)


@dataclass(frozen=True)
class _Returned(Generic[T]):
    """The result of a body that has ended."""

    value: T


def _advance(step: Effects[T], value: Any = None, error: Exception | None = None) -> Effect | _Returned[T]:
    try:
        return step.send(value) if error is None else step.throw(error)
    except StopIteration as stop:
        return _Returned(stop.value)


async def _uninterrupted(work: Awaitable[T]) -> T:
    """Wait for work in a thread. A cancellation takes effect when the work has ended: a running body cannot close."""
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # read, so that asyncio does not log it
        raise
