"""A turn killed under each durability of LangGraph loses at most the message that a plain graph loses there too."""

import threading

import pytest

from langgraph_compaction.graph import CompactionThread
from tests.full import part
from tests.kill.children import is_killed
from tests.kill.fuse import Fuse
from tests.kill.recovery import check_whole
from tests.kill.scenarios import CRUCIAL, SCENARIOS, TEMPLATES, Worlds, act
from tests.kill.sight import sight
from tests.kill.world import CONFIG, World, filler, tell

SCENARIO = SCENARIOS["precheck"]
NODES = ("token_check", "selective_compaction", "summarize", "commit", "model")
PATIENCE_S = 30

PACES = {
    ("sync", "landed"): set[str](),
    ("async", "landed"): set[str](),
    ("async", "stalled"): {CRUCIAL},
    ("exit", "stalled"): {CRUCIAL},
}
"""Durability, and progress of the background writer when the process dies: it has written the checkpoint of the
previous step, or nothing of this turn -> the messages that a plain graph of LangGraph's loses. With "exit" nothing is
written before the end."""


class Paced(Fuse):
    """A fuse that also controls the saver: its writes block for ever, or are waited for."""

    def __init__(self, at: str, pace: str) -> None:
        super().__init__(at)
        self.pace = pace
        self.here = threading.Condition()
        self.landed = set[str]()

    def __call__(self, place: str) -> None:
        """Pass a place."""
        of_saver = place.startswith(("put ", "writes "))
        if of_saver and self.pace == "stalled":
            threading.Event().wait()
        with self.here:
            self.landed.add(place)
            self.here.notify_all()
            if place == self.at and self.pace == "landed":
                node = place.partition(":")[0]
                assert self.here.wait_for(lambda: f"put to {node}:after" in self.landed, PATIENCE_S)
        super().__call__(place)


def kill(world: World, place: str, durability: str, pace: str) -> None:
    """Kill a turn at this place."""

    def run() -> None:
        fuse = Paced(place, pace)
        fuse.install()
        with world.opened(fuse) as graph:
            act(graph, SCENARIO, durability)

    assert is_killed(run)


@pytest.mark.parametrize(("durability", "pace"), PACES)
@pytest.mark.parametrize("node", part(NODES, 2))
def test_we_lose_nothing_that_langgraph_keeps(world_of: Worlds, node: str, durability: str, pace: str) -> None:
    """Archived messages count as present; a turn that has ended is on disk under every durability."""
    world = world_of(SCENARIO)
    kill(world, f"{node}:leave", durability, pace)
    with world.opened() as graph:
        tell(graph, "go on", "next")
        there = {message.id for message in CompactionThread(graph, CONFIG).transcript()}
    turns = [f"h{number}" for number in range(TEMPLATES["first"])]
    assert {"a-next", "next", *turns} <= there
    assert {CRUCIAL} - there <= PACES[durability, pace]


@pytest.mark.parametrize("place", ["selective_compaction:leave", "commit:leave"])
@pytest.mark.parametrize("durability", ["async", "exit"])
def test_rows_of_a_turn_that_langgraph_lost_do_no_harm(world_of: Worlds, place: str, durability: str) -> None:
    """SQL knows of a compaction of which no checkpoint tells: it is never restored, and closed by the next one."""
    world = world_of(SCENARIO)
    kill(world, place, durability, "stalled")
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
