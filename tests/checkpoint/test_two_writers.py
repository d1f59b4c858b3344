import pytest

from benchmarks.two_writers import (
    DURABILITIES,
    INPUTS,
    Contender,
    compete,
    forking,
    raising,
)
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
