"""One function body for sync and async: the body yields calls to wait for, and a driver makes these calls.

The body is a generator: it yields `Effect` objects (a model's call, a database transaction), receives their results,
and returns its own result. `run` makes the synchronous call of each effect, `arun` awaits the asynchronous call. An
exception of a call is raised inside the body, which handles the exception.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from langgraph_compaction.checkpoint import Database

T = TypeVar("T")


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


def run(step: Effects[T]) -> T:
    """Run a body synchronously, return its result; an exception that leaves this function first closes the body."""
    with closing(step):
        try:
            effect = next(step)
            while True:
                try:
                    value = effect.call()
                except Exception as error:  # noqa: BLE001 - raised again inside the step
                    effect = step.throw(error)
                else:
                    effect = step.send(value)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return] # a generator's return value is untyped


async def arun(step: Effects[T]) -> T:
    """Run a body asynchronously, return its result; an exception or a cancellation first closes the body."""
    with closing(step):
        try:
            effect = next(step)
            while True:
                try:
                    value = await effect.acall()
                except Exception as error:  # noqa: BLE001 - raised again inside the step
                    effect = step.throw(error)
                else:
                    effect = step.send(value)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return] # a generator's return value is untyped
