"""Messages lost by a killed turn under each durability of LangGraph, with a plain graph and with ours."""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph.graph import MessagesState, StateGraph

from langgraph_compaction.graph import CompactionThread
from tests.kill.children import is_killed
from tests.kill.fuse import Fuse
from tests.kill.scenarios import SCENARIOS, TEMPLATES, act, play
from tests.kill.world import CONFIG, World, answer, tell

SCENARIO = SCENARIOS["precheck"]
NODES = ("token_check", "selective_compaction", "summarize", "commit", "model")
PLACES = [f"{node}:leave" for node in NODES]
PATIENCE_S = 30

PACES = (("sync", "landed"), ("async", "landed"), ("async", "stalled"), ("exit", "stalled"))
"""Durability, and progress of the background writer when the process dies: it has written the checkpoint of the
previous step, or nothing of this turn. With "exit" nothing is written before the end."""


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


@dataclass(frozen=True, kw_only=True)
class Bare:
    """A plain graph of one model node, with LangGraph's saver."""

    world: World

    @contextmanager
    def opened(self, fuse: Fuse | None = None) -> Generator[Any]:
        """Open the file and build the graph."""
        passed = fuse or Fuse()

        def model(state: MessagesState) -> dict[str, Any]:
            passed("model:enter")
            reply = answer(state["messages"])  # type: ignore[arg-type] # messages of a state are BaseMessage
            passed("model:leave")
            return {"messages": [reply]}

        graph = StateGraph(MessagesState).add_node(model).set_entry_point("model").set_finish_point("model")
        with self.world.saver(fuse) as saver:
            yield graph.compile(checkpointer=saver)


def played_bare(folder: Path) -> World:
    """A conversation of the plain graph, with as many turns as ours."""
    folder.mkdir()
    world = World(folder=folder)
    with Bare(world=world).opened() as graph:
        for number in range(TEMPLATES["first"]):
            tell(graph, "say 10", f"h{number}")
    return world


def lost_bare(world: World, place: str, durability: str, pace: str) -> set[str]:
    """Ids of user messages that a plain graph has lost after the kill and the next input."""

    def run() -> None:
        fuse = Paced(place, pace)
        with Bare(world=world).opened(fuse) as graph:
            graph.invoke(SCENARIO.given, CONFIG, durability=durability)

    return _lost(run, Bare(world=world), lambda graph: graph.get_state(CONFIG).values["messages"])


def lost_ours(world: World, place: str, durability: str, pace: str) -> set[str]:
    """The same for our graph, where archived messages count as present."""

    def run() -> None:
        fuse = Paced(place, pace)
        fuse.install()
        with world.opened(fuse) as graph:
            act(graph, SCENARIO, durability)

    return _lost(run, world, lambda graph: CompactionThread(graph, CONFIG).transcript())


def _lost(run: Callable[[], None], world: World | Bare, found: Callable[[Any], list[Any]]) -> set[str]:
    assert is_killed(run)
    with world.opened() as graph:
        tell(graph, "go on", "next")
        there = {message.id for message in found(graph)}
    turns = [f"h{number}" for number in range(TEMPLATES["first"])]
    assert {"a-next", *turns} <= there  # a turn that has ended is on disk under every durability
    return {*turns, "crucial", "next"} - there


@dataclass(frozen=True)
class Row:
    """One line of the comparison."""

    durability: str
    pace: str
    bare: set[str]
    """Messages that a plain graph loses before and after the model's node."""
    ours: dict[str, set[str]]
    """Messages that our graph loses at each place."""


def compare(folder: Path) -> Iterator[Row]:
    """Kill both graphs at every place under every durability; return the losses."""
    bare, ours = played_bare(folder / "bare"), play(folder / "ours", TEMPLATES["first"])
    for durability, pace in PACES:
        name = f"{durability}-{pace}"
        plain = [
            lost_bare(bare.copied(folder / f"bare-{name}-{moment}"), f"model:{moment}", durability, pace)
            for moment in ("enter", "leave")
        ]
        found = {
            place: lost_ours(ours.copied(folder / f"ours-{name}-{place}"), place, durability, pace)
            for place in PLACES
        }
        yield Row(durability, pace, plain[0] & plain[1], found)
