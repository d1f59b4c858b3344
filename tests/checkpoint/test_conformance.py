"""LangGraph's own conformance suite, whole, on both classes and every database."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, SQLAlchemySaver
from tests.checkpoint.contract.savers import KEYS, Direct

TESTS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}
"""How many tests the suite has for each capability: 81."""
Made = Callable[[str], AsyncIterator[BaseCheckpointSaver[int]]]


async def asynchronous(url: str) -> AsyncIterator[BaseCheckpointSaver[int]]:
    """Open the async class."""
    async with AsyncSQLAlchemySaver.from_url(url) as saver:
        await saver.setup()
        yield saver


async def synchronous(url: str) -> AsyncIterator[BaseCheckpointSaver[int]]:
    """Open the sync class, by its own async methods."""
    with SQLAlchemySaver.from_url(url) as saver:
        saver.setup()
        yield saver


async def direct(url: str) -> AsyncIterator[BaseCheckpointSaver[int]]:
    """Open the sync class, by its sync methods."""
    with SQLAlchemySaver.from_url(url) as saver:
        saver.setup()
        yield Direct(saver)


async def encrypted(url: str) -> AsyncIterator[BaseCheckpointSaver[int]]:
    """Open the async class with keys."""
    async with AsyncSQLAlchemySaver.from_url(url, keys=KEYS) as saver:
        await saver.setup()
        yield saver


def test_the_suite_has_the_tests_we_count() -> None:
    """All eight capabilities are counted, 81 tests in all."""
    assert set(TESTS) == {each.value for each in Capability}
    assert sum(TESTS.values()) == 81


@pytest.mark.parametrize("capability", TESTS)
@pytest.mark.parametrize("made", [asynchronous, synchronous, direct, encrypted], ids=lambda made: made.__name__)
async def test_conformance(database_url: str, made: Made, capability: str) -> None:
    """The saver passes every test of LangGraph's suite, and none of them is skipped."""

    @checkpointer_test(name="ours")
    async def registered() -> AsyncGenerator[BaseCheckpointSaver[int]]:
        async for saver in made(database_url):
            yield saver

    report = await validate(registered, capabilities={capability})
    result = report.results[capability]
    assert result.failures == []
    assert (result.tests_passed, result.tests_failed, result.tests_skipped) == (TESTS[capability], 0, 0)
