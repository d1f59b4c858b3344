"""Kills at random places and moments, each drawn from a seed: of a run that compacts, and of the checkpointer."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.db.urls import sync_url
from tests.checkpoint.reference import Reference
from tests.kill.children import CONTEXT, PATIENCE_S, is_killed
from tests.kill.fuse import Fuse
from tests.kill.recovery import check_recovered, check_resumed, recover, resume
from tests.kill.scenarios import SCENARIOS, fused, fused_recovery
from tests.kill.sight import Around, look_at
from tests.kill.steps import found, steps, torn
from tests.kill.world import World

SESSIONS = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "mysql": "SELECT count(*) FROM information_schema.processlist "
    "WHERE db = database() AND id <> connection_id() AND command <> 'Killed'",
}


class Timer(Fuse):
    """A fuse that ends the process at the nth place that is passed, whichever that is."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.left = last

    def __call__(self, place: str) -> None:
        """Pass a place."""
        with self.lock:
            self.left -= 1
            if self.left == 0:
                self.at = place if place not in self.passed else f"{place}#{self.passed[place] + 1}"
            super().__call__(place)


def kill_a_run(seed: str, templates: dict[str, World], around: Around, folder: Path) -> Counter[str]:
    """Kill a random turn at a random place, perhaps again while it recovers, and check both ways to go on."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    tally = Counter[str]()
    name = chance.choice(sorted(SCENARIOS))
    scenario, (before, calm) = SCENARIOS[name], around(name)
    world = scenario.world(templates[scenario.template].copied(folder / "world"))
    place = chance.randint(1, 60)
    tally["run killed"] += is_killed(lambda: fused(world, scenario, Timer(place)))
    left = look_at(world)
    again = world.copied(folder / "again")
    check_resumed(before, left, resume(again), calm)
    for _ in range(chance.randint(0, 2)):
        tally["recovery killed"] += is_killed(lambda: fused_recovery(world, Timer(chance.randint(1, 40))))
    left = look_at(world)
    check_recovered(scenario, before, left, recover(world, "last"), "last")
    return tally


def kill(work: Callable[[int], None], moment: random.Random, signs: int) -> int:
    """Run `work` in a child, kill it some time after so many signs of life and return how many there were."""
    reader, writer = os.pipe()
    child = CONTEXT.Process(target=work, args=(writer,))
    child.start()
    os.close(writer)
    with open(reader, "rb", buffering=0) as pipe:  # noqa: PTH123 - a descriptor, no path
        heard = sum(len(pipe.read(1)) for _ in range(signs))
        time.sleep(moment.uniform(0, 0.01 if signs else 0.1))
        child.kill()
        heard += len(pipe.read())
    child.join(PATIENCE_S)
    assert child.exitcode == -signal.SIGKILL
    return heard


def await_end(url: str) -> None:
    """Wait until the server has seen that its client is gone: a commit under way may still be carried out."""
    engine = sa.create_engine(sync_url(url), poolclass=sa.NullPool)
    deadline = time.monotonic() + PATIENCE_S
    while query := SESSIONS.get(engine.dialect.name):
        with engine.connect() as conn:
            if conn.execute(sa.text(query)).scalar_one() == 0:
                return
        assert time.monotonic() < deadline, "the server keeps a session of the process that was killed"
        time.sleep(0.005)


def kill_a_saver(seed: str, url: str, kills: int) -> Counter[str]:
    """Kill the saver so many times: what a kill interrupts is whole or absent, and all before it is there."""
    model = Reference()
    number = 0
    tally = Counter[str]()
    for turn in range(kills):
        named = f"{seed}-{turn}"
        chance, again, moment = (random.Random(name) for name in (named, named, f"moment {named}"))  # noqa: S311 - reproducible, not secret

        def work(pipe: int, chance: random.Random = chance, model: Reference = model, number: int = number) -> None:
            with SQLAlchemySaver.from_url(url) as saver:
                saver.setup()
                for step, _ in steps(chance, model, number):
                    step.run(saver)
                    os.write(pipe, b".")

        heard = kill(work, moment, moment.randint(0, 12))
        await_end(url)
        script = steps(again, model, number)
        for _ in range(heard):
            _, model = next(script)
        step, done = next(script)
        with SQLAlchemySaver.from_url(url) as saver:
            saver.setup()
            left = found(saver)
            absent = left == found(model)
            assert absent or left == found(done), f"kill {named} in {step.method}"
            assert not torn(saver), f"kill {named} in {step.method}"
            tally[f"saver killed, its call {'absent' if absent else 'whole'}"] += 1
            step.run(saver)
        model, number = done, number + heard + 1
    with SQLAlchemySaver.from_url(url) as saver:
        assert found(saver) == found(model)
    return tally
