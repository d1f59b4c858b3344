from dataclasses import replace

import pytest

from langgraph_compaction.nodes.selection import breaker
from tests.kill.children import is_killed
from tests.kill.fuse import Fuse
from tests.kill.recovery import recover
from tests.kill.scenarios import SCENARIOS, Worlds, fused
from tests.kill.sight import look_at

COOLED = SCENARIOS["failing"]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one failure start the cool-down: 8 s from 1,000.0 on."""
    monkeypatch.setattr(breaker, "COOLDOWN_AFTER", 1)


def test_streak_and_rung_outlive_the_process(world_of: Worlds) -> None:
    """After a failed attempt and a kill the next process goes on with the next level, not with the first again."""
    world = world_of(COOLED)
    assert is_killed(lambda: fused(world, COOLED, Fuse("model:enter")))
    left = look_at(world)
    assert (left.compaction["streak"], left.compaction["level"], left.verdicts) == (1, 2, ["failed_permanent"])
    after = recover(replace(world, now=1_009.0))
    assert after.verdicts == ["failed_permanent", "degraded_deterministic"]
    assert after.calls == left.calls
    assert (after.compaction["streak"], after.compaction["level"]) == (0, 0)


def test_the_cool_down_outlives_the_process(world_of: Worlds) -> None:
    """Seconds after the failure a new process still waits, answers the turn, and says so in the ledger."""
    world = world_of(COOLED)
    assert is_killed(lambda: fused(world, COOLED, Fuse("model:enter")))
    after = recover(replace(world, now=1_007.9))
    assert set(after.verdicts[1:]) == {"deferred_cooldown"}
    assert (after.epoch, after.messages[-1].id) == (0, "a-next")
    assert after.compaction["streak"] == 1
