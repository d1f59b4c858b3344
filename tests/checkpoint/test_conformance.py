"""LangGraph's own conformance suite, whole, on every database."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, SQLAlchemySaver
from tests.checkpoint.contract.savers import KEYS

WAYS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "asynchronous": (AsyncSQLAlchemySaver, {}),
    "encrypted": (AsyncSQLAlchemySaver, {"keys": KEYS}),
    "synchronous": (SQLAlchemySaver, {}),
}


@pytest.mark.parametrize("way", WAYS)
async def test_conformance(database_url: str, way: str) -> None:
    """The saver passes every test of LangGraph's suite, and none of them is skipped."""
    make, options = WAYS[way]

    @checkpointer_test(name="ours")
    async def registered() -> AsyncGenerator[BaseCheckpointSaver[int]]:
        saver = make(database_url, **options)
        await saver.database.workers.run(saver.database.setup)
        yield saver
        saver.close()

    report = await validate(registered)
    assert set(report.results) == {each.value for each in Capability}
    assert {name: each.failures for name, each in report.results.items() if not each.passed} == {}
