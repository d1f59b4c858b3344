"""A pytest plugin for `mutants`: records which product lines each test executes while it runs.

Set-up and imports are not recorded: code that runs once for all tests says nothing about one of them. Cached results
of the product's functions are dropped before each test, so that a test is also recorded for a function whose result
an earlier test has cached.
"""

import sys
from collections.abc import Iterator

import coverage
import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Record the lines that this test executes under its node id, without the ids of parameters."""
    if not (measured := coverage.Coverage.current()):
        raise RuntimeError("tests.requirements.tracing works under `coverage run` only")
    drop_cached_results()
    measured.switch_context(item.nodeid.partition("[")[0])
    try:
        yield
    finally:
        measured.switch_context("")


_KEPT = ("_register_", "offline_encoding")
"""Beginnings of the names of functions whose caches stay: they register a process hook, or read a large file."""


def drop_cached_results() -> None:
    """Empty the caches of the product's functions."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "langgraph_compaction"]:
        for key, value in [*vars(sys.modules[name]).items()]:
            if not key.startswith(_KEPT) and (clear := getattr(value, "cache_clear", None)):
                clear()
