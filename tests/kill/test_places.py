from pathlib import Path

import pytest

from tests.full import part
from tests.kill.children import exit_code, is_killed
from tests.kill.fuse import Fuse
from tests.kill.places import KILLS, PLAIN
from tests.kill.recovery import check_recovered, check_resumed, recover, resume
from tests.kill.scenarios import SCENARIOS, Worlds, fused
from tests.kill.sight import Around, look_at


def test_the_list_of_places_is_complete(world_of: Worlds, tmp_path: Path) -> None:
    """The plain turn passes these places and no others: node boundaries, SQL writes, checkpoints and their writes."""
    scenario, log = SCENARIOS["precheck"], tmp_path / "places"

    def note(place: str) -> None:
        with log.open("a") as file:
            file.write(f"{place}\n")

    world = world_of(scenario)
    assert exit_code(lambda: fused(world, scenario, Fuse(watch=note))) == 0
    assert sorted(log.read_text().splitlines()) == sorted(PLAIN)


PLACES = part(KILLS, 3)


@pytest.mark.parametrize(("name", "place"), PLACES, ids=[f"{name}, {place}" for name, place in PLACES])
def test_a_turn_that_was_killed_is_recovered(world_of: Worlds, around: Around, name: str, place: str) -> None:
    """Wherever it died, the next input recovers it and `invoke(None)` goes on; nothing is lost or paid for twice."""
    scenario = SCENARIOS[name]
    world, (before, calm) = world_of(scenario), around(name)
    assert is_killed(lambda: fused(world, scenario, Fuse(place)))
    left = look_at(world)
    again = world.copied(world.folder.with_name("again"))
    check_recovered(scenario, before, left, recover(world))
    check_resumed(before, left, resume(again), calm)
