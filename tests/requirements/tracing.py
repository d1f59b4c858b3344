"""A pytest plugin for `mutants`: records which product lines each test executes while it runs.

Set-up and imports are not recorded: code that runs once for all tests says nothing about one of them.
"""

from collections.abc import Iterator

import coverage
import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Record the lines that this test executes under its node id, without the ids of parameters."""
    if not (measured := coverage.Coverage.current()):
        raise RuntimeError("tests.requirements.tracing works under `coverage run` only")
    measured.switch_context(item.nodeid.partition("[")[0])
    try:
        yield
    finally:
        measured.switch_context("")
