"""Work done in forked processes at the same time."""

import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest

forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
"""For tests whose children only use what they open themselves."""


def run_together(count: int, work: Callable[..., None], *arguments: Any) -> None:
    """Call `work(number, *arguments)` in `count` forked processes that start together; all must end well."""
    context = multiprocessing.get_context("fork")
    gate = context.Barrier(count)

    def enter(number: int) -> None:
        gate.wait(timeout=30)
        work(number, *arguments)

    children = [context.Process(target=enter, args=(number,)) for number in range(count)]
    for child in children:
        child.start()
    for child in children:
        child.join(timeout=120)
    assert [child.exitcode for child in children] == [0] * count
