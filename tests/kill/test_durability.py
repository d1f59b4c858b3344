from pathlib import Path

import pytest

from tests.kill.children import is_killed
from tests.kill.durability import PACES, PLACES, SCENARIO, Paced, compare
from tests.kill.recovery import check_whole
from tests.kill.scenarios import Worlds, act
from tests.kill.sight import sight
from tests.kill.world import filler, tell


def test_we_lose_nothing_that_langgraph_keeps(tmp_path: Path) -> None:
    """Killed anywhere under any durability, ours loses at most the message that a plain graph loses there too."""
    rows = list(compare(tmp_path))
    for row in rows:
        assert set(row.ours) == set(PLACES)
        assert all(lost <= row.bare for lost in row.ours.values())
    assert [row.bare for row in rows] == [set(), set(), {"crucial"}, {"crucial"}]
    assert [(row.durability, row.pace) for row in rows] == list(PACES)


@pytest.mark.parametrize("place", ["selective_compaction:leave", "summarize:leave", "commit:leave"])
@pytest.mark.parametrize("durability", ["async", "exit"])
def test_rows_of_a_turn_that_langgraph_lost_do_no_harm(world_of: Worlds, place: str, durability: str) -> None:
    """SQL knows of a compaction of which no checkpoint tells: it is never restored, and closed by the next one."""
    world = world_of(SCENARIO)

    def run() -> None:
        fuse = Paced(place, "stalled")
        fuse.install()
        with world.opened(fuse) as graph:
            act(graph, SCENARIO, durability)

    assert is_killed(run)
    with world.opened() as graph:
        tell(graph, "go on", "next")
        calm = sight(graph, world)
        tell(graph, f"pad {filler(65)}", "more")
        after = sight(graph, world)
    assert (calm.epoch, calm.transcript) == (0, calm.acknowledged)
    check_whole(after)
    assert after.epoch == 1
    assert after.verdicts[0] == ("committed" if place == "commit:leave" else "abandoned")
    assert after.ledger[0].compaction_id not in [row.compaction_id for row in after.chain]
