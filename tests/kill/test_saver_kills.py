"""The saver killed at random moments; `COMPACTION_SOAK=200` for more of them, `COMPACTION_SEED=n` for others."""

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

import sqlalchemy as sa

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.db.urls import sync_url
from tests.full import examples
from tests.kill.children import CONTEXT, PATIENCE_S
from tests.kill.steps import Model, config_of, differing, expected, found, steps, torn

KILLS = int(os.environ.get("COMPACTION_SOAK", examples(8, full=20)))
SEED = os.environ.get("COMPACTION_SEED", "11")
SESSIONS = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "mysql": "SELECT count(*) FROM information_schema.processlist "
    "WHERE db = database() AND id <> connection_id() AND command <> 'Killed'",
}


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


def test_a_saver_killed_anywhere_keeps_what_it_acknowledged(empty_url: str) -> None:
    """Whatever call a kill interrupts is whole or absent, all before it is there, and the call can be repeated."""
    model: Model = {}
    number = 0
    tally = Counter[str]()
    for turn in range(KILLS):
        seed = f"{SEED}-{turn}"
        chance, again, moment = (random.Random(name) for name in (seed, seed, f"moment {seed}"))  # noqa: S311 - reproducible, not secret

        def work(pipe: int, chance: random.Random = chance, model: Model = model, number: int = number) -> None:
            with SQLAlchemySaver.from_url(empty_url) as saver:
                saver.setup()
                for step, _ in steps(chance, model, number):
                    step.run(saver)
                    os.write(pipe, b".")

        heard = kill(work, moment, moment.randint(0, 12))
        await_end(empty_url)
        script = steps(again, model, number)
        for _ in range(heard):
            _, model = next(script)
        step, done = next(script)
        with SQLAlchemySaver.from_url(empty_url) as saver:
            saver.setup()
            left = found(saver)
            undone, half = differing(left, expected(done)), differing(left, expected(model))
            assert not (undone and half), f"kill {seed} in {step.name}"
            assert not torn(saver), f"kill {seed} in {step.name}"
            tally["absent" if undone else "whole"] += 1
            step.run(saver)
        model, number = done, number + heard + 1
    with SQLAlchemySaver.from_url(empty_url) as saver:
        assert not differing(found(saver), expected(model))
    sys.stdout.write(f"\n{KILLS} kills, {number} calls; the one interrupted was {dict(tally)}\n")


def test_a_setup_killed_anywhere_is_finished_by_the_next(empty_url: str) -> None:
    """A process that dies while it makes the tables leaves a database that the next one sets up and uses."""
    moment = random.Random(SEED)  # noqa: S311 - reproducible, not secret

    def work(_pipe: int) -> None:
        with SQLAlchemySaver.from_url(empty_url) as saver:
            saver.setup()
            threading.Event().wait()

    for _ in range(5):
        kill(work, moment, 0)
        await_end(empty_url)
        with SQLAlchemySaver.from_url(empty_url) as saver:
            saver.setup()
            saver.put_writes(config_of("a", ("", "1")), [("channel", "value")], "task")
            assert saver.threads() == ["a"]
            tables.METADATA.drop_all(saver.database.engine)


def test_the_lease_of_a_killed_process_ends(empty_url: str) -> None:
    """A lease outlives the process that held it no longer than its time: then the next one gets the thread."""

    def work(pipe: int) -> None:
        with SQLAlchemySaver.from_url(empty_url) as saver, saver.lease("a", ttl=1.0):
            os.write(pipe, b".")
            threading.Event().wait()

    with SQLAlchemySaver.from_url(empty_url) as saver:
        saver.setup()
    kill(work, random.Random(SEED), 1)  # noqa: S311 - reproducible, not secret
    with SQLAlchemySaver.from_url(empty_url) as saver, saver.lease("a", wait=PATIENCE_S):
        saver.put_writes(config_of("a", ("", "1")), [("channel", "value")], "task")
