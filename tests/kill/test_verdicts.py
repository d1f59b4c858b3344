import pytest

from tests.kill.children import is_killed
from tests.kill.fuse import Fuse
from tests.kill.recovery import check_whole, recover
from tests.kill.scenarios import CRUCIAL, SCENARIOS, Worlds, fused
from tests.kill.sight import look_at
from tests.kill.world import filler, tell

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


@pytest.mark.parametrize("place", ["sql record_summary:after", "sql commit:inside"])
def test_a_paid_draft_that_no_longer_fits_is_dropped(world_of: Worlds, place: str) -> None:
    """An input too large for what the draft would leave: the draft is recovered from, and compacted anew."""
    world = world_of(PRECHECK)
    assert is_killed(lambda: fused(world, PRECHECK, Fuse(place)))
    with world.opened() as graph:
        tell(graph, f"pad {filler(195)}", "next")
    after = look_at(world)
    check_whole(after)
    assert after.verdicts == ["recovered", "committed"]
    assert [message.id for message in after.messages][-3:] == [CRUCIAL, "next", "a-next"]
