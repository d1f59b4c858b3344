"""One function body for sync and async: it yields the calls to wait for, and a driver makes them.

The body is a generator. It yields `Effect` objects (a model's call, a database transaction), receives their results,
and returns its own. `run` makes the synchronous call of each effect, `arun` awaits the asynchronous one. An exception
of a call is raised inside the body, which handles it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from langgraph_compaction.checkpoint import Database

T = TypeVar("T")


class Keeper(Protocol):
    """Records that are kept in a database."""

    database: Database


@dataclass(frozen=True)
class Effect:
    """A call to wait for, in its synchronous and its asynchronous form."""

    call: Callable[[], Any]
    acall: Callable[[], Awaitable[Any]]


Effects = Generator[Effect, Any, T]


def blocking(call: Callable[[], T]) -> Effects[T]:
    """Wait for a blocking call; under `arun` it runs on a worker thread, never on the event loop."""
    result: T = yield Effect(call, lambda: asyncio.to_thread(call))
    return result


def querying(records: Keeper, call: Callable[[], T]) -> Effects[T]:
    """Wait for a call that reads or writes these records; under `arun` it runs on a thread of their database."""
    result: T = yield Effect(call, lambda: records.database.workers.run(call))
    return result


def either(call: Callable[[], T], acall: Callable[[], Awaitable[T]]) -> Effects[T]:
    """Wait for `call` under `run`, for `acall` under `arun`."""
    result: T = yield Effect(call, acall)
    return result


def run(step: Effects[T]) -> T:
    """Run a body to its result, synchronously. It is closed before any exception leaves this function."""
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
    """Run a body to its result, asynchronously. It is closed before an exception or a cancellation goes on."""
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
