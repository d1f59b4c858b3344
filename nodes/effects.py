"""One body for sync and async: a step yields what has to be waited for, a driver waits for it.

A step is a generator. It yields `Effect` objects (a model's call, a database's transaction), receives their
results and returns its own. `run` drives it with the sync side of each effect, `arun` with the async side;
an effect's exception is raised inside the step, which decides what it means.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from langgraph_compaction.checkpoint import Database

T = TypeVar("T")


class Keeper(Protocol):
    """What is kept in a database."""

    database: Database


@dataclass(frozen=True)
class Effect:
    """Something to wait for, in its two forms."""

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
    """Drive a step to its result, synchronously. Whatever goes upwards closes the step first."""
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
    """Drive a step to its result, asynchronously. Whatever goes upwards, cancellation too, closes the step first."""
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
