import asyncio

import pytest
from langchain_core.messages import HumanMessage

from benchmarks.two_writers import (
    CONFIG,
    DURABILITIES,
    INPUTS,
    Contender,
    compete,
    conversation,
    forking,
    ids_of,
    raising,
)
from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, ConflictError
from langgraph_compaction.checkpoint.errors import LeaseError
from tests.checkpoint.processes import forks

UNGUARDED = Contender("fork", "", forking)
GUARDED = Contender("raise", "", raising)
LEASED = Contender("lease", "", forking, leased=True)

pytestmark = forks


def test_without_a_guard_two_writers_make_branches(own_url: str) -> None:
    """As with every LangGraph saver, two who write at once do not see each other; each is kept in a branch."""
    row = compete(UNGUARDED, own_url, "sync")
    assert (row.acknowledged, row.conflicts, row.nowhere) == (2 * INPUTS, 0, 0)
    assert row.missing > 0  # they first read the thread at the same moment


@pytest.mark.parametrize("durability", DURABILITIES)
def test_with_the_conflict_guard_no_acknowledged_input_is_lost(own_url: str, durability: str) -> None:
    """A put upon what is no longer the newest checkpoint raises: every input whose run returned is in the thread."""
    row = compete(GUARDED, own_url, durability)
    assert row.conflicts > 0
    assert row.acknowledged + row.given_up == 2 * INPUTS
    assert row.acknowledged > INPUTS
    assert row.missing == 0


@pytest.mark.parametrize("durability", DURABILITIES)
def test_with_a_lease_no_input_is_lost(own_url: str, durability: str) -> None:
    """Two who take the lease for each run never meet: every input is acknowledged and in the thread."""
    row = compete(LEASED, own_url, durability)
    assert (row.acknowledged, row.conflicts, row.missing) == (2 * INPUTS, 0, 0)


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_the_guards_hold_for_asynchronous_runs(own_url: str, durability: str) -> None:
    """Two tasks on savers of their own, one with retries after a conflict and one with a lease, lose nothing."""
    acknowledged = set[str]()

    async def write(number: int, *, leased: bool) -> None:
        async with AsyncSQLAlchemySaver.from_url(own_url, on_conflict="raise") as saver:
            graph = conversation(saver)
            for name in (f"{number}-{n}" for n in range(8)):
                given = {"messages": [HumanMessage("hello", id=name)]}
                for _ in range(50):
                    try:
                        if leased:
                            async with saver.alease("shared", wait=30):
                                await graph.ainvoke(given, CONFIG, durability=durability)
                        else:
                            await graph.ainvoke(given, CONFIG, durability=durability)
                    except (ConflictError, LeaseError):
                        await asyncio.sleep(0.01)
                    else:
                        acknowledged.add(name)
                        break

    async with AsyncSQLAlchemySaver.from_url(own_url) as saver:
        await saver.setup()
        await asyncio.gather(write(1, leased=True), write(2, leased=False))
        assert len(acknowledged) > 8
        assert acknowledged <= ids_of(await conversation(saver).aget_state(CONFIG))
