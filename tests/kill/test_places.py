from functools import partial
from pathlib import Path

import pytest

from tests.full import FULL
from tests.kill.children import exit_code, is_killed
from tests.kill.fuse import Fuse
from tests.kill.recovery import check_recovered, check_resumed, recover, resume
from tests.kill.scenarios import SCENARIOS, Scenario, Worlds, fused
from tests.kill.sight import Around, look_at

EVERY = 4 if FULL else 16
"""A turn is killed at each so manieth of its places."""
START = {name: number for number, name in enumerate(SCENARIOS)}
"""The first of the places at which a turn is killed: of each scenario another one."""


def places_of(world_of: Worlds, scenario: Scenario, log: Path) -> list[str]:
    """Return the places that a turn passes: around nodes, inside SQL writes, around checkpoints and their writes."""

    def note(place: str) -> None:
        with log.open("a") as file:
            file.write(f"{place}\n")

    assert exit_code(lambda: fused(world_of(scenario, "calm"), scenario, Fuse(watch=note))) == 0
    return log.read_text().splitlines()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_turn_that_was_killed_is_recovered(world_of: Worlds, around: Around, tmp_path: Path, name: str) -> None:
    """Wherever it died, the next input recovers it and `invoke(None)` goes on; nothing is lost or paid for twice."""
    scenario, (before, calm) = SCENARIOS[name], around(name)
    places = places_of(world_of, scenario, tmp_path / "places")
    for number, place in enumerate(places[START[name] % EVERY :: EVERY]):
        world = world_of(scenario, f"killed {number}")
        assert is_killed(partial(fused, world, scenario, Fuse(place)))
        left = look_at(world)
        again = world.copied(tmp_path / f"again {number}")
        try:
            check_recovered(scenario, before, left, recover(world))
            check_resumed(before, left, resume(again), calm)
        except AssertionError as error:
            error.add_note(f"killed at {place}")
            raise
