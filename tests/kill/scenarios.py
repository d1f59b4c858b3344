"""Turns during which a compaction runs, each on top of a prepared conversation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from langgraph.types import Command

from tests.kill.fuse import Fuse
from tests.kill.world import CONFIG, World, filler, said, tell

Worlds = Callable[..., World]
"""Opens a scenario's world in a named folder of the test."""

CRUCIAL = "crucial"
"""Id of the message of the turn that is killed."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One turn, and the conversation that it belongs to."""

    text: str = ""
    """The user's message; empty for a request to compact now."""
    template: str = "first"
    broken: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    due: bool = True
    """Whether a compaction is due once the message is there."""

    def world(self, template: World) -> World:
        """The world of this turn, on a copy of its template."""
        return replace(template, broken=self.broken, settings=self.settings)

    @property
    def given(self) -> dict[str, Any]:
        """The turn's input."""
        return said(self.text, CRUCIAL) if self.text else {"messages": [], "compaction_request": {"focus": None}}


SCENARIOS = {
    "precheck": Scenario(text=f"pad {filler(70)}"),
    "check": Scenario(text="say 80", due=False),
    "tools": Scenario(text="look", due=False),
    "second": Scenario(text=f"pad {filler(70)}", template="second"),
    "failing": Scenario(text=f"pad {filler(70)}", broken=True, settings={"on_summary_failure": "digest"}),
    "hard": Scenario(text=f"pad {filler(150)}", broken=True),
    "manual": Scenario(due=False),
    "confirmed": Scenario(
        text=f"pad {filler(70)}", settings={"require_confirmation": True, "hooks": ("pre_model", "on_overflow")}
    ),
    "refused": Scenario(text=f"pad {filler(600)}", due=False),
}
"""The turns: compacted before the model, after its answer, after a tool; on top of an earlier compaction; with a
summarizer that fails, in the soft and in the hard zone; by hand; after a person agreed; and an input refused."""

TEMPLATES = {"first": 5, "second": 9}
"""Turns played before the crucial one: just below the trigger, without and with a compaction before."""


def play(folder: Path, turns: int) -> World:
    """Play turns with one tool call each."""
    folder.mkdir()
    world = World(folder=folder)
    with world.opened() as graph:
        for number in range(turns):
            tell(graph, "look", f"h{number}")
    return world


def act(graph: Any, scenario: Scenario, durability: str = "sync") -> None:
    """Run the turn to its end; questions are answered with yes."""
    graph.invoke(scenario.given, CONFIG, durability=durability)
    agree(graph, durability)


def agree(graph: Any, durability: str = "sync") -> None:
    """Answer a question that is pending."""
    if graph.get_state(CONFIG).interrupts:
        graph.invoke(Command(resume=True), CONFIG, durability=durability)


def fused(world: World, scenario: Scenario, fuse: Fuse, durability: str = "sync") -> None:
    """Run the turn with a fuse, in a forked child."""
    fuse.install()
    with world.opened(fuse) as graph:
        act(graph, scenario, durability)


def fused_recovery(world: World, fuse: Fuse) -> None:
    """Run the next input with a fuse, in a forked child."""
    fuse.install()
    with world.opened(fuse) as graph:
        tell(graph, "go on", "next")
