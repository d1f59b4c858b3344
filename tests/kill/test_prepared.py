import sys
import threading
from dataclasses import replace
from itertools import product

import pytest

from tests.full import FULL
from tests.kill.children import is_killed
from tests.kill.fuse import Fuse
from tests.kill.scenarios import Scenario, Worlds
from tests.kill.sight import look_at
from tests.kill.world import World, filler, tell

NEAR = Scenario(text="say 5", settings={"summary_ahead": True})
OVER = f"pad {filler(70)}"


def prepared_and_used(world: World, fuse: Fuse) -> None:
    """A turn that prepares a summary, and one that uses it."""
    fuse.install()
    with world.opened(fuse) as graph:
        tell(graph, NEAR.text, "near")
        for worker in threading.enumerate():
            if worker.name == "compaction-ahead":
                worker.join()
        tell(graph, OVER, "over")


PLACES = {
    "sql record_summary:before": 2,
    "sql record_summary:after": 2,
    "sql note:inside": 2,
    "sql note:after": 2,
    "sql begin:after": 2,
    "summarize:enter": 1,
    "sql commit:inside": 1,
    "sql commit:after": 1,
}
"""Where it dies, and how often the summarizer is called in all: again by a process that does not know the choice."""

ON_SERVERS = tuple(PLACES) if FULL else ("sql note:after", "sql commit:inside")


@pytest.mark.parametrize(
    ("own_url", "place"),
    [*(("sqlite", place) for place in PLACES), *product(("postgresql", "mariadb"), ON_SERVERS)],
    indirect=["own_url"],
)
def test_a_preparation_that_is_killed(
    world_of: Worlds, own_url: str, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Wherever it dies: nothing is lost, nothing stays open, and the summary of a stored draft is not paid again."""
    world = replace(world_of(NEAR), url=own_url)
    assert is_killed(lambda: prepared_and_used(world, Fuse(place)))
    left = found = look_at(world)
    monkeypatch.setattr(sys.modules["langgraph_compaction.nodes.model"], "prepare_if_due", lambda *_: ())
    while not found.epoch or found.following:
        with world.opened() as graph:
            tell(graph, OVER, f"next-{len(found.messages)}")
        found = look_at(world)
    assert (found.epoch, found.open_rows) == (1, [])
    assert len(found.calls) == PLACES[place]
    assert [one for one in left.acknowledged if one not in found.transcript] == []
