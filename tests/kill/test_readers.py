from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import pytest

from tests.kill.children import CONTEXT, PATIENCE_S, exit_code
from tests.kill.fuse import Fuse
from tests.kill.scenarios import SCENARIOS, Worlds, fused
from tests.kill.sight import Around, Said, plain
from tests.kill.world import CONFIG, World

LOOK, END = 1, 0


def look_when_asked(world: World, asked: Connection) -> None:
    """Ask for the thread's state at every request; at the end give every different list of messages that was seen."""
    seen = set[tuple[tuple[str, str, str], ...]]()
    with world.saver() as saver:
        graph = world.agent(saver, "memory")
        while asked.recv() == LOOK:
            seen.add(tuple(plain(graph.get_state(CONFIG).values["messages"])))
            asked.send(len(seen))
    asked.send(seen)


@contextmanager
def reader(world: World) -> Generator[Connection]:
    """Have another process look at the thread."""
    here, there = CONTEXT.Pipe()
    process = CONTEXT.Process(target=look_when_asked, args=(world, there), daemon=True)
    process.start()
    yield here
    process.join(PATIENCE_S)
    process.close()


def is_old(found: Said, before: Said) -> bool:
    """Whether this is the conversation before the compaction, with what the turn has said since."""
    return found[: len(before)] == before


def is_new(found: Said, after: Said) -> bool:
    """Whether this is the conversation after the compaction, at most without the turn's answer."""
    return found in (after, after[:-1])


@pytest.mark.parametrize("name", ["precheck", "check", "failing", "hard", "second"])
def test_no_reader_ever_sees_half_a_compaction(world_of: Worlds, around: Around, name: str) -> None:
    """At every place of a turn another process sees the list before the compaction or the one after it."""
    scenario, world = SCENARIOS[name], world_of(SCENARIOS[name])
    old, new = around(name)
    before, after = plain(old.messages), plain(new.messages)
    assert (new.epoch, len(after) < len(before)) == (old.epoch + 1, True)
    with reader(world) as other:

        def look(_place: str) -> None:
            other.send(LOOK)
            other.recv()

        assert exit_code(lambda: fused(world, scenario, Fuse(watch=look))) == 0
        other.send(END)
        seen = [list(found) for found in other.recv()]
    assert [found for found in seen if not is_old(found, before) and not is_new(found, after)] == []
    assert any(is_old(found, before) for found in seen)
    assert any(is_new(found, after) for found in seen)
