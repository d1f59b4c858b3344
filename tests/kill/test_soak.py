"""Runs killed at random: `COMPACTION_SOAK=200 pytest tests/kill/test_soak.py -s`; `COMPACTION_SEED=n` for others."""

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kill.children import is_killed
from tests.kill.fuse import Fuse
from tests.kill.recovery import check_recovered, check_resumed, recover, resume
from tests.kill.scenarios import SCENARIOS, fused, fused_recovery
from tests.kill.sight import Around, look_at
from tests.kill.world import World

KILLS = int(os.environ.get("COMPACTION_SOAK", "4"))
SEED = int(os.environ.get("COMPACTION_SEED", "11"))


class Timer(Fuse):
    """A fuse that ends the process at the nth place that is passed, whichever that is."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.left = last

    def __call__(self, place: str) -> None:
        """Pass a place."""
        with self.lock:
            self.left -= 1
            if self.left == 0:
                self.at = place if place not in self.passed else f"{place}#{self.passed[place] + 1}"
            super().__call__(place)


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    """Count the kills, and say so at the end."""
    counted = Counter[str]()
    yield counted
    sys.stdout.write(f"\nruns killed: {dict(counted)}\n")


@pytest.mark.parametrize("number", range(KILLS))
def test_a_run_killed_anywhere_is_recovered(
    templates: dict[str, World], around: Around, tmp_path: Path, tally: Counter[str], number: int
) -> None:
    """A random turn, killed at a random place, perhaps again while it recovers: whole, whichever way it goes on."""
    chance = random.Random(f"{SEED}-{number}")  # noqa: S311 - reproducible, not secret
    name = chance.choice(sorted(SCENARIOS))
    scenario, (before, calm) = SCENARIOS[name], around(name)
    world = scenario.world(templates[scenario.template].copied(tmp_path / "world"))
    place = chance.randint(1, 60)
    tally["once"] += is_killed(lambda: fused(world, scenario, Timer(place)))
    left = look_at(world)
    again = world.copied(tmp_path / "again")
    check_resumed(before, left, resume(again), calm)
    for _ in range(chance.randint(0, 2)):
        tally["again, in recovery"] += is_killed(lambda: fused_recovery(world, Timer(chance.randint(1, 40))))
    left = look_at(world)
    check_recovered(scenario, before, left, recover(world, "last"), "last")
