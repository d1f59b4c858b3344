"""Damaged or forged rows whose parents lead in a circle are an error that names them, never a walk without an end."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome
from langgraph_compaction.checkpoint.errors import RowError
from langgraph_compaction.graph.inspector.thread_data import read

CONFIG: Any = {"configurable": {"thread_id": "talk", "checkpoint_ns": ""}}
CIRCLES = {"of two": ("a", "b", "a"), "of one": ("a", "a"), "behind a line": ("a", "b", "c", "a", "c", "d")}


@pytest.fixture
def saver() -> Iterator[SQLAlchemySaver]:
    """Open a saver in memory."""
    with SQLAlchemySaver.from_url("memory") as opened:
        opened.setup()
        yield opened


def at(name: str) -> Any:
    """The config of a checkpoint."""
    return {"configurable": {**CONFIG["configurable"], "checkpoint_id": name}}


def checkpoint(name: str) -> Checkpoint:
    """An empty checkpoint of this id."""
    return {**empty_checkpoint(), "id": name}


def put(saver: SQLAlchemySaver, names: tuple[str, ...]) -> str:
    """Put checkpoints each on the one before; the same name again changes its parent. The last one's name."""
    before = CONFIG
    for step, name in enumerate(names):
        # what a delta channel is rebuilt from is looked for along the parents
        about: Any = {"source": "loop", "step": step, "counters_since_delta_snapshot": {"channel": (1, 1)}}
        before = saver.put(before, checkpoint(name), {**about, "run_id": f"run {name}"}, {})
    return names[-1]


Walk = Callable[[SQLAlchemySaver, str], Any]
WALKS: dict[str, Walk] = {
    "delta history": lambda saver, last: saver.get_delta_channel_history(config=at(last), channels=["channel"]),
    "prune": lambda saver, _: saver.prune(["talk"], keep_last=1),
    "inspect": lambda saver, _: read(saver, "talk").line,
    "erase runs": lambda saver, _: saver.delete_for_runs(["run a", "run b", "run c"]),
}


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("circle", CIRCLES)
def test_a_circle_of_checkpoints_ends_a_walk(saver: SQLAlchemySaver, circle: str, walk: str) -> None:
    """The error names thread and checkpoint; what needs no walk still answers, and the thread can be erased."""
    last = put(saver, CIRCLES[circle])
    with pytest.raises(RowError, match=r"checkpoint [a-d] in '' of thread 'talk' .*leads back to it"):
        WALKS[walk](saver, last)
    assert saver.get_tuple(at(last)) is not None
    assert {found.checkpoint["id"] for found in saver.list(CONFIG)} == set(CIRCLES[circle])
    saver.delete_thread("talk")
    assert saver.get_tuple(CONFIG) is None


RECORDS: dict[str, Callable[[CompactionRecords, str], Any]] = {
    "undo": lambda records, head: records.before("talk", head=head),
    "show": lambda records, head: records.line("talk", head),
    "transcript": lambda records, head: records.transcript("talk", "", [HumanMessage("x", id="1")], head=head),
}


@pytest.mark.parametrize("walk", RECORDS)
def test_a_circle_of_compactions_is_named(saver: SQLAlchemySaver, walk: str) -> None:
    """Ledger rows that are each other's parents are damaged: no order of compactions is made up from them."""
    records = CompactionRecords(saver.database)
    keys = [AttemptKey("talk", "", f"base {number}", 0, 0) for number in range(2)]
    names = [key.compaction_id for key in keys]
    for key, parent in zip(
        keys, names[::-1], strict=True
    ):  # each row is bound to its parent, so it is written with it
        opening: Any = {"checkpoint_id": None, "epoch": 0, "trigger": "", "strategy": "", "counter": ""}
        records.begin(key, [HumanMessage("x", id="1")], now=0, parent_id=parent, tokens_before=1, **opening)
        records.commit(key, Outcome(verdict="committed", now=0), archived=[])
    with pytest.raises(RowError, match=r"ledger row [0-9a-f]{16} of thread 'talk' .*leads back to it"):
        RECORDS[walk](records, names[0])
