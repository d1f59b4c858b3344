"""What `put_writes` keeps, in which order, and whenever it comes."""

from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME

from tests.checkpoint.contract.steps import Saver, Steps, checkpoint, read, where, writes_of


def test_writes_come_in_the_order_a_live_step_applies_them(saver: Saver, thread_id: str) -> None:
    """Writes are ordered by the path of their task, then the task, then their place; not by arrival."""
    head = Steps(saver, thread_id).put({})
    for path, task in [("~pull, c", "1"), ("~pull, a", "2"), ("", "4"), ("~pull, b", "3"), ("", "0")]:
        saver.put_writes(head, [("x", number) for number in range(12)], task, path)
    assert writes_of(saver, head) == [(task, "x", n) for task in ("0", "4", "2", "3", "1") for n in range(12)]
    assert [each.pending_writes for each in saver.list(where(thread_id))] == [read(saver, head).pending_writes]


Written = list[tuple[str, Any]]
REPEATED: dict[str, tuple[list[Written], Written]] = {
    "the first stays": ([[("a", 1), ("b", 2), ("c", 3)], [("a", 10)]], [("a", 1), ("b", 2), ("c", 3)]),
    "what is new is added": ([[("a", 1)], [("a", 10), ("b", 20)]], [("a", 1), ("b", 20)]),
    "special ones are replaced": ([[(ERROR, "first")], [(ERROR, "second")]], [(ERROR, "second")]),
    "not among plain ones": ([[("x", 1), (ERROR, 1)], [("x", 2), (ERROR, 2)]], [(ERROR, 1), ("x", 1)]),
    "special ones come first": (
        [[("x", 1)], [(ERROR, "e"), (INTERRUPT, "i")], [(RESUME, ["r"])]],
        [(RESUME, ["r"]), (INTERRUPT, "i"), (ERROR, "e"), ("x", 1)],
    ),
    "known by their place": ([[(ERROR, "e"), ("x", 1)], [("x", 0)]], [(ERROR, "e"), ("x", 0), ("x", 1)]),
    "none": ([[]], []),
}
"""What the runs of a task write, and what is kept."""


@pytest.mark.parametrize("case", REPEATED)
def test_a_task_that_runs_again_changes_what_it_may(saver: Saver, thread_id: str, case: str) -> None:
    """Its plain writes stay as they were; an error, an interrupt or a resume takes the place of the one before."""
    runs, kept = REPEATED[case]
    head = Steps(saver, thread_id).put({})
    for written in runs:
        saver.put_writes(head, written, "task")
    assert writes_of(saver, head) == [("task", *write) for write in kept]


def test_writes_may_come_before_their_checkpoint(saver: Saver, thread_id: str) -> None:
    """They are there when it is; of a thread that was deleted they are gone."""
    kept, gone = str(uuid6()), str(uuid6())
    saver.put_writes(where(thread_id, kept), [("x", 1)], "task")
    assert saver.get_tuple(where(thread_id)) is None
    assert list(saver.list(where(thread_id))) == []
    assert writes_of(saver, Steps(saver, thread_id).put({}, name=kept)) == [("task", "x", 1)]
    saver.put_writes(where(thread_id, gone), [("x", 1)], "task")
    saver.delete_thread(thread_id)
    assert writes_of(saver, Steps(saver, thread_id).put({}, name=gone)) == []


def test_writes_at_the_same_time_are_all_kept(saver: Saver, thread_id: str) -> None:
    """Tasks that end together, while the next checkpoint is being stored, lose none of their writes."""
    head = Steps(saver, thread_id).put({"x": 0})
    tasks = [f"task-{number:02}" for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(saver.put_writes, head, [("x", task), ("y", task)], task) for task in tasks]
        putting = pool.submit(saver.put, head, checkpoint({"x": 1}, {"x": 9}), {"step": 1}, {"x": 9})
    assert not [each.exception() for each in wait([*writing, putting]).done if each.exception()]
    assert writes_of(saver, head) == [(task, channel, task) for task in tasks for channel in ("x", "y")]
