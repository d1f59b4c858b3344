"""Resumes a thread after a kill, and checks it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.kill.scenarios import CRUCIAL, SCENARIOS, Scenario, act, agree
from tests.kill.sight import Around, Sight, look_at, plain, sight
from tests.kill.world import CONFIG, World, tell

COMMITS = {"committed", "degraded_deterministic"}


def calm_runs(templates: Mapping[str, World], folder: Path) -> Around:
    """Return a function from a scenario's name to the thread before and after its turn without a kill."""
    known: dict[str, tuple[Sight, Sight]] = {}

    def find(name: str) -> tuple[Sight, Sight]:
        if name not in known:
            scenario = SCENARIOS[name]
            world = scenario.world(templates[scenario.template].copied(folder / name))
            before = look_at(world)
            with world.opened() as graph:
                act(graph, scenario)
            known[name] = before, look_at(world)
        return known[name]

    return find


def recover(world: World, name: str = "next") -> Sight:
    """Run the next input."""
    with world.opened() as graph:
        tell(graph, "go on", name)
        agree(graph)
        return sight(graph, world)


def resume(world: World) -> Sight:
    """Resume the interrupted turn."""
    with world.opened() as graph:
        graph.invoke(None, CONFIG, durability="sync")
        agree(graph)
    return look_at(world)


def check_recovered(scenario: Scenario, before: Sight, left: Sight, after: Sight, name: str = "next") -> None:
    """Check that the next input was answered and the thread is complete."""
    check_whole(after)
    check_kept(before, left, after)
    assert [(m.id, m.text) for m in after.messages[-2:]] == [(name, "go on"), (f"a-{name}", "noted")]
    acknowledged = any(given == CRUCIAL for given, _, _ in left.acknowledged)
    grown = after.epoch - before.epoch
    assert grown == 1 if scenario.due and acknowledged else grown in (0, 1)


def check_resumed(before: Sight, left: Sight, after: Sight, calm: Sight) -> None:
    """Check that the thread ended as without a kill, or is unchanged if the input had not been stored."""
    check_whole(after)
    check_kept(before, left, after)
    started = left.following or (left.messages, left.compaction) != (before.messages, before.compaction)
    assert lasting(after) == lasting(calm if started else before)


def check_whole(found: Sight) -> None:
    """Check that all messages are there in order, no attempt is open, and the ledger has the chain of commits."""
    assert plain(found.messages) == found.transcript == found.acknowledged
    assert found.following == ()
    assert found.compaction.get("draft") is None
    assert found.open_rows == []
    assert len(found.chain) == found.epoch
    assert {row.verdict for row in found.chain} <= COMMITS


def check_kept(before: Sight, left: Sight, after: Sight) -> None:
    """Check that acknowledged data is there, and that a recorded summary was not requested again."""
    assert set(left.acknowledged) <= set(after.transcript)
    if left.recorded > before.recorded:
        assert after.calls == left.calls


def lasting(found: Sight) -> dict[str, Any]:
    """Return the part of a thread that does not depend on the number of restarts."""
    rows = [
        {name: getattr(row, name) for name in row.__slots__ if name not in {"id", "checkpoint_id"}}
        for row in found.ledger
    ]
    return {"messages": found.messages, "compaction": found.compaction, "view": found.view, "ledger": rows}
