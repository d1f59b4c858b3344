from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from langgraph_compaction.checkpoint.db import owner as owners
from langgraph_compaction.checkpoint.db.owner import owner
from tests.kill.children import CONTEXT, PATIENCE_S
from tests.kill.fuse import Fuse
from tests.kill.recovery import check_whole, recover
from tests.kill.scenarios import SCENARIOS, Worlds, fused
from tests.kill.sight import Sight, look_at
from tests.kill.world import CONFIG, World

PRECHECK = SCENARIOS["precheck"]


@contextmanager
def at_work(world: World, place: str = "summarize:enter") -> Generator[Any]:
    """Have another process compact the thread and stay at one place for as long as it lives."""
    here, there = CONTEXT.Pipe()

    def stay(passed: str) -> None:
        if passed == place:
            there.send(passed)
            there.recv()

    process = CONTEXT.Process(target=lambda: fused(world, PRECHECK, Fuse(watch=stay)), daemon=True)
    process.start()
    assert here.poll(PATIENCE_S)
    try:
        yield process
    finally:
        process.kill()
        process.join()
        process.close()


def at_once(world: World) -> World:
    """The world with an agent whose runs do not wait for each other: a draft alone tells that another one works."""
    return replace(world, wait_s=None)


def left_alone(left: Sight, after: Sight) -> bool:
    """Whether the draft stands as it stood, its row is open and no summary was asked for."""
    kept = after.compaction["draft"] == left.compaction["draft"] and after.open_rows == left.open_rows
    return kept and len(after.open_rows) == 1 and after.calls == left.calls


def test_a_living_owner_is_not_disturbed_and_a_dead_one_is_not_waited_for(world_of: Worlds) -> None:
    """While another process compacts, an input is answered without; once it is dead the next one recovers at once."""
    world = at_once(world_of(PRECHECK))
    with at_work(world) as other:
        left, after = look_at(world), recover(world, "one")
        assert left_alone(left, after)
        assert after.messages[-1].id == "a-one"
        other.kill()
        other.join()
        after = recover(world, "two")
    assert after.verdicts == ["recovered", "committed"]
    check_whole(after)


LEASES = {
    "at once": (0.0, True),
    "just before it ends": (59.9, True),
    "at its end": (60.0, False),
    "clock set back": (-0.1, False),
}
"""Seconds since the draft was opened by a process of which nothing else is known -> whether its lease runs."""


@pytest.mark.parametrize("case", LEASES)
def test_a_lease_ends_by_the_clock(world_of: Worlds, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """A draft is left alone for `summary_timeout_s` after it was opened, and never while its opening lies ahead."""
    seconds, runs = LEASES[case]
    world = world_of(PRECHECK)
    with monkeypatch.context() as patched, world.opened() as graph:
        patched.setattr(owners, "_place", lambda: "elsewhere/pid:[1]")  # another host
        owner.cache_clear()
        graph.invoke(PRECHECK.given, CONFIG, durability="sync", interrupt_before=["summarize"])
    owner.cache_clear()
    left = look_at(world)
    after = recover(replace(world, now=world.now + seconds))
    assert left_alone(left, after) is runs
    assert after.messages[-1].id == "a-next"
    assert after.verdicts == ([None] if runs else ["recovered", "committed"])
