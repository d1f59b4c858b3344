"""Runs and savers killed at random; `make soak` kills many more."""

import os
import random
import threading
from pathlib import Path

import pytest

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.db import tables
from tests.checkpoint.contract.steps import where
from tests.full import examples
from tests.kill.children import PATIENCE_S
from tests.kill.random_kills import await_end, kill, kill_a_run, kill_a_saver
from tests.kill.sight import Around
from tests.kill.world import World

SEED = "11"


@pytest.mark.parametrize("number", range(6))
def test_a_run_killed_anywhere_is_recovered(
    templates: dict[str, World], around: Around, tmp_path: Path, number: int
) -> None:
    """A random turn, killed at a random place, perhaps again while it recovers: whole, whichever way it goes on."""
    kill_a_run(f"{SEED}-{number}", templates, around, tmp_path)


def test_a_saver_killed_anywhere_keeps_what_it_acknowledged(empty_url: str) -> None:
    """Whatever call a kill interrupts is whole or absent, all before it is there, and the call can be repeated."""
    kills = examples(8, full=20)
    assert kill_a_saver(SEED, empty_url, kills).total() == kills


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
            saver.put_writes(where("a", "1"), [("channel", "value")], "task")
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
        saver.put_writes(where("a", "1"), [("channel", "value")], "task")
