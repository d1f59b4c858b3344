from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.conftest import server_database
from tests.full import FULL
from tests.kill.children import is_killed
from tests.kill.fuse import Fuse
from tests.kill.recovery import check_recovered, check_resumed, recover, resume
from tests.kill.scenarios import SCENARIOS, Worlds, fused
from tests.kill.sight import Around, look_at

DEATHS = [
    ("precheck", "sql begin:inside"),
    ("precheck", "sql begin:after"),
    ("precheck", "sql record_summary:inside"),
    ("precheck", "sql record_summary:after"),
    ("precheck", "sql commit:inside"),
    ("precheck", "sql commit:after"),
    ("failing", "sql close:inside"),
    ("refused", "sql archive:inside"),
]


@pytest.fixture(params=["postgresql", "mariadb"])
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the URL of a database of this test's own on a server, where the environment names one."""
    with server_database(request.param) as url:
        yield url


WAYS = ("the next input", "going on")
RECOVERIES = [
    pytest.param(death, way, id=f"{', '.join(death)}-{way}")
    for number, death in enumerate(DEATHS)
    for way in (WAYS if FULL else [WAYS[number % 2]])
]
"""Each death, recovered in both ways in a full run, else in one of them, in turn."""


@pytest.mark.parametrize(("death", "way"), RECOVERIES)
def test_a_write_to_a_server_that_was_killed_is_recovered(
    world_of: Worlds, around: Around, server_url: str, death: tuple[str, str], way: str
) -> None:
    """A server undoes the transaction of a process that died and lets its locks go: the next run recovers."""
    name, place = death
    scenario, (before, calm) = SCENARIOS[name], around(name)
    world = replace(world_of(scenario), url=server_url)
    assert is_killed(lambda: fused(world, scenario, Fuse(place)))
    left = look_at(world)
    if way == "going on":
        check_resumed(before, left, resume(world), calm)
    else:
        check_recovered(scenario, before, left, recover(world))
