"""Every failure that PEERS §1 lists, as one table: what others get wrong, and what holds here."""

import pytest

from tests.faults import conversations, models, requests, threads
from tests.faults.stage import SCENARIOS
from tests.graph.harness import Drive

MODULES = (models, conversations, requests, threads)
"""Importing them fills the table."""


@pytest.mark.parametrize("number", [pytest.param(key, id=f"{key} {row.title}") for key, row in SCENARIOS.items()])
async def test_a_known_failure(go: Drive, number: str) -> None:
    """The model receives a valid request, nothing is lost, and state, ledger and events say what happened."""
    await SCENARIOS[number].play(go)


def test_the_table_is_whole() -> None:
    """F1 to F26 are all there, and nothing else is."""
    assert sorted(SCENARIOS, key=lambda name: int(name[1:])) == [f"F{number}" for number in range(1, 27)]
    assert {row.play.__module__ for row in SCENARIOS.values()} == {module.__name__ for module in MODULES}
