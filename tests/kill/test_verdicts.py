import pytest

from tests.kill.children import is_killed
from tests.kill.fuse import Fuse
from tests.kill.recovery import recover
from tests.kill.scenarios import SCENARIOS, Worlds, fused

PRECHECK = SCENARIOS["precheck"]
VERDICTS: dict[str, list[str]] = {
    "put to selective_compaction:after": ["committed"],
    "sql begin:inside": ["committed"],
    "sql begin:after": ["abandoned", "committed"],
    "put to summarize:after": ["recovered", "committed"],
    "sql record_summary:inside": ["recovered", "committed"],
    "sql record_summary:after": ["committed"],
    "put to commit:after": ["committed"],
    "sql commit:inside": ["committed"],
    "sql commit:after": ["committed"],
    "put to model:after": ["committed"],
}
"""Where the process died -> what the ledger says once the next input was answered."""


@pytest.mark.parametrize("place", VERDICTS)
def test_the_ledger_says_what_became_of_each_attempt(world_of: Worlds, place: str) -> None:
    """Nothing to recover before there was a draft; then `recovered`; and what was paid for is finished."""
    world = world_of(PRECHECK)
    assert is_killed(lambda: fused(world, PRECHECK, Fuse(place)))
    assert recover(world).verdicts == VERDICTS[place]
