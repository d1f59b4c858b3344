import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.types import Command

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.maintenance.import_checkpoints import import_checkpoints
from langgraph_compaction.checkpoint.maintenance.import_sources import open_source
from tests.conftest import server_database
from tests.graph.cli import foreign
from tests.graph.cli.foreign import GRAPHS, OFFICIAL, changed, config, said, state_of
from tests.graph.cli.importing import both, imported, refused

Make = Callable[[str], str]


@pytest.mark.parametrize(("kind", "to"), [("sqlite", "sqlite"), ("postgresql", "same"), ("sqlite", "mariadb")])
def test_every_thread_arrives_as_it_was(foreign_url: Make, target: str, kind: str, to: str) -> None:
    """Forks, subgraphs, interrupts, failures, fan-outs and delta channels: every state of every history is equal."""
    url = foreign_url(kind)
    with ExitStack() as stack:
        if to == "mariadb":
            target = stack.enter_context(server_database(to))
        elif to == "same":
            target = url
        figures = imported(url, target)
        assert (figures["threads"], figures["already"], figures["failed"]) == (len(GRAPHS), 0, [])
        assert figures["checkpoints"] == figures["written"] == figures["verified"] > 50
        before, after = stack.enter_context(both(url, target))
        for thread in GRAPHS:
            assert state_of(after, thread) == state_of(before, thread)
            for found in after.list(config(thread)):
                versions = [*found.checkpoint["channel_versions"].values()]
                assert all(type(version) is int for version in versions)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_thread_that_waits_for_an_answer_goes_on_in_the_target(foreign_url: Make, target: str, kind: str) -> None:
    """The person's answer reaches the subgraph that asked, and a delta channel goes on from its last value."""
    imported(foreign_url(kind), target)
    with SQLAlchemySaver.from_url(target) as saver:
        graph = foreign.asking().compile(checkpointer=saver)
        said_last = graph.invoke(Command(resume="yes"), config("asked"))["messages"][-1]
        assert said_last.text == "approved: yes"
        deltas = foreign.delta().compile(checkpointer=saver)
        before = deltas.get_state(config("delta")).values["messages"]
        after = deltas.invoke(said("one more"), config("delta"))["messages"]
        assert after[: len(before)] == before
        assert [message.text for message in after[len(before) :]] == ["one more", "answer to one more"]


def test_run_again_it_writes_nothing(source: str, target: str) -> None:
    """The second run finds all of it there, compares it, and says so."""
    first = imported(source, target)
    again = imported(source, target)
    assert again == {**first, "already": first["checkpoints"], "written": 0}


def test_what_the_source_got_since_follows(source: str, target: str) -> None:
    """New turns, and new writes at a checkpoint that was carried over, are added; the rest is left."""
    first = imported(source, target)
    with OFFICIAL["sqlite"](source) as saver:
        foreign.asking().compile(checkpointer=saver).invoke(Command(resume="later"), config("asked"))
    again = imported(source, target)
    assert again["already"] == first["checkpoints"]
    assert again["written"] == again["checkpoints"] - first["checkpoints"] > 0
    with both(source, target) as (before, after):
        assert state_of(after, "asked") == state_of(before, "asked")


def test_only_the_named_threads_are_carried_over(source: str, target: str) -> None:
    """--thread may be repeated; a thread that is not there is an error that names it."""
    assert imported(source, target, "--thread", "talk", "--thread", "delta")["threads"] == 2
    with SQLAlchemySaver.from_url(target) as saver:
        assert sorted(saver.threads()) == ["delta", "talk"]
    assert "holds no thread 'tlak'" in refused(source, target, "--thread", "tlak")


def test_a_killed_import_goes_on_where_it_was(tmp_path: Path, target: str) -> None:
    """After SIGKILL the next run writes what was missing, nothing twice, and all of it is equal."""
    source = f"sqlite:///{tmp_path / 'long.db'}"
    with OFFICIAL["sqlite"](source) as saver:
        foreign.fill(saver, turns=12)
    command = [
        Path(sys.executable).parent / "langgraph-compaction",
        "import-checkpoints",
        "--from",
        source,
        "--to",
        target,
    ]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
    try:
        while _count(target) < 20:
            assert child.poll() is None
            time.sleep(0.005)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    there = _count(target)
    again = imported(source, target)
    assert 20 <= again["already"] == there < again["checkpoints"]
    assert again["written"] == again["checkpoints"] - there
    with both(source, target) as (before, after):
        for thread in GRAPHS:
            assert state_of(after, thread) == state_of(before, thread)


def _count(target: str) -> int:
    if not Path(target.removeprefix("sqlite:///")).exists():
        return 0
    if not changed(target, "SELECT 1 FROM sqlite_master WHERE name = 'compaction_checkpoint'"):
        return 0
    return changed(target, "SELECT count(*) FROM compaction_checkpoint")[0][0]


def test_a_long_thread_is_never_in_memory_as_a_whole(tmp_path: Path, target: str) -> None:
    """A thread of 100 states of half a megabyte each is carried over and compared within a third of that."""
    source = f"sqlite:///{tmp_path / 'long.db'}"
    size, count = 500_000, 100
    with OFFICIAL["sqlite"](source) as saver:
        at: Any = {"configurable": {"thread_id": "long", "checkpoint_ns": ""}}
        for number in range(count):
            checkpoint = {**empty_checkpoint(), "channel_values": {"text": f"{number:02}" * (size // 2)}}
            at = saver.put(at, checkpoint, {"source": "loop", "step": number}, {})
    with open_source(source) as opened, SQLAlchemySaver.from_url(target) as saver:
        saver.setup()
        tracemalloc.start()
        try:
            verified = sum(event.problem is None for event in import_checkpoints(opened, saver))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert verified == count
    assert peak < size * count / 3
