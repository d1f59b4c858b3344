import pytest

from tests.kill.children import is_killed
from tests.kill.fuse import Fuse
from tests.kill.recovery import check_recovered, recover
from tests.kill.scenarios import SCENARIOS, Worlds, fused, fused_recovery
from tests.kill.sight import Around, look_at

DEATHS = [
    ("precheck", "sql begin:after", "sql begin:after"),
    ("precheck", "put to summarize:after", "token_check:leave"),
    ("precheck", "put to summarize:after", "sql note:after"),
    ("precheck", "put to summarize:after", "rollback:leave"),
    ("precheck", "put to summarize:after", "sql record_summary:after"),
    ("precheck", "sql record_summary:after", "summarize:leave"),
    ("precheck", "sql record_summary:after", "sql commit:after"),
    ("precheck", "sql commit:after", "commit:leave"),
    ("check", "sql commit:after", "sql commit:inside"),
    ("second", "put to commit:after", "put to model:after"),
    ("failing", "sql close:after", "sql close:after"),
    ("hard", "sql begin:after#2", "sql begin:after"),
]
"""The turn, where it is killed, and where the run that recovers it is killed."""


@pytest.mark.parametrize(("name", "first", "second"), DEATHS)
def test_a_recovery_that_is_killed_is_recovered(
    world_of: Worlds, around: Around, name: str, first: str, second: str
) -> None:
    """Dying while recovering costs nothing either: the input after that finds a whole thread."""
    scenario = SCENARIOS[name]
    world, (before, _) = world_of(scenario), around(name)
    assert is_killed(lambda: fused(world, scenario, Fuse(first)))
    assert is_killed(lambda: fused_recovery(world, Fuse(second)))
    left = look_at(world)
    check_recovered(scenario, before, left, recover(world, "third"), "third")
