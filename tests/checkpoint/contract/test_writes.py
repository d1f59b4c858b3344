"""What `put_writes` keeps, in which order, and whenever it comes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME

from tests.checkpoint.contract.savers import Saver
from tests.checkpoint.contract.steps import Steps, checkpoint, in_time, read, where, writes_of


def test_writes_come_in_the_order_a_live_step_applies_them(saver: Saver, thread_id: str) -> None:
    """Writes are ordered by the path of their task, then the task, then their place; not by arrival."""
    head = Steps(saver, thread_id).put({})
    for path, task in [("~pull, c", "1"), ("~pull, a", "2"), ("", "4"), ("~pull, b", "3"), ("", "0")]:
        saver.put_writes(head, [("x", task), ("y", task)], task, path)
    assert [(task, channel) for task, channel, _ in writes_of(saver, head)] == [
        (task, channel) for task in ("0", "4", "2", "3", "1") for channel in ("x", "y")
    ]
    assert [each.pending_writes for each in saver.list(where(thread_id))] == [read(saver, head).pending_writes]


def test_many_writes_of_a_task_keep_their_order(saver: Saver, thread_id: str) -> None:
    """A task's writes come back in the order in which it made them, beyond the ninth too."""
    head = Steps(saver, thread_id).put({})
    saver.put_writes(head, [("x", number) for number in range(25)], "task", "path")
    assert [value for _, _, value in writes_of(saver, head)] == list(range(25))


def test_the_first_write_of_a_task_wins(saver: Saver, thread_id: str) -> None:
    """A task that runs again changes nothing of what it wrote before, and what it did not write again stays."""
    head = Steps(saver, thread_id).put({})
    saver.put_writes(head, [("a", 1), ("b", 2), ("c", 3)], "task", "path")
    saver.put_writes(head, [("a", 10)], "task", "path")
    assert writes_of(saver, head) == [("task", "a", 1), ("task", "b", 2), ("task", "c", 3)]


def test_a_longer_second_run_adds_what_is_new(saver: Saver, thread_id: str) -> None:
    """A task that runs again and writes more keeps its first writes and gains the further ones."""
    head = Steps(saver, thread_id).put({})
    saver.put_writes(head, [("a", 1)], "task", "path")
    saver.put_writes(head, [("a", 10), ("b", 20)], "task", "path")
    assert writes_of(saver, head) == [("task", "a", 1), ("task", "b", 20)]


@pytest.mark.parametrize("channel", sorted(WRITES_IDX_MAP))
def test_a_special_write_alone_is_replaced(saver: Saver, thread_id: str, channel: str) -> None:
    """A second error, interrupt, schedule or resume of a task takes the place of its first."""
    head = Steps(saver, thread_id).put({})
    saver.put_writes(head, [(channel, "first")], "task")
    saver.put_writes(head, [(channel, "second")], "task")
    assert writes_of(saver, head) == [("task", channel, "second")]


def test_special_writes_stand_before_plain_ones(saver: Saver, thread_id: str) -> None:
    """A task that was interrupted and then wrote has both, whichever came first."""
    head = Steps(saver, thread_id).put({})
    saver.put_writes(head, [("x", 1)], "late")
    for task in ("early", "late"):
        saver.put_writes(head, [(ERROR, "e"), (INTERRUPT, "i")], task)
        saver.put_writes(head, [(RESUME, ["r"])], task)
    saver.put_writes(head, [("x", 1)], "early")
    specials = [(RESUME, ["r"]), (INTERRUPT, "i"), (ERROR, "e"), ("x", 1)]
    assert writes_of(saver, head) == [(task, *write) for task in ("early", "late") for write in specials]


def test_a_special_write_beside_a_plain_one_is_kept(saver: Saver, thread_id: str) -> None:
    """Among plain writes a special one follows their rule: the first stays."""
    head = Steps(saver, thread_id).put({})
    saver.put_writes(head, [("x", 1), (ERROR, "first")], "task")
    saver.put_writes(head, [("x", 2), (ERROR, "second")], "task")
    assert writes_of(saver, head) == [("task", ERROR, "first"), ("task", "x", 1)]


def test_a_write_is_known_by_its_place(saver: Saver, thread_id: str) -> None:
    """Two runs of a task that write one channel at different places leave both writes."""
    head = Steps(saver, thread_id).put({})
    saver.put_writes(head, [(ERROR, "e"), ("x", 1)], "task")
    saver.put_writes(head, [("x", 0)], "task")
    assert writes_of(saver, head) == [("task", ERROR, "e"), ("task", "x", 0), ("task", "x", 1)]


def test_no_writes_are_no_error(saver: Saver, thread_id: str) -> None:
    """A task without writes leaves nothing."""
    head = Steps(saver, thread_id).put({})
    saver.put_writes(head, [], "task")
    assert writes_of(saver, head) == []


def test_writes_may_come_before_their_checkpoint(saver: Saver, thread_id: str) -> None:
    """Writes from another thread, for a checkpoint that is not stored yet, are there when it is."""
    name = str(uuid6())
    in_time(lambda: saver.put_writes(where(thread_id, name), [("x", 1)], "task"))
    assert saver.get_tuple(where(thread_id)) is None
    assert list(saver.list(where(thread_id))) == []
    head = Steps(saver, thread_id).put({}, name=name)
    assert writes_of(saver, head) == [("task", "x", 1)]


def test_writes_without_a_checkpoint_are_deleted_with_their_thread(saver: Saver, thread_id: str) -> None:
    """A thread that was deleted leaves no writes for a later checkpoint of the same id."""
    name = str(uuid6())
    saver.put_writes(where(thread_id, name), [("x", 1)], "task")
    saver.delete_thread(thread_id)
    head = Steps(saver, thread_id).put({}, name=name)
    assert writes_of(saver, head) == []


def test_writes_belong_to_one_checkpoint_of_one_namespace(saver: Saver, thread_id: str) -> None:
    """The same task id under other checkpoints, namespaces and threads is another task."""
    places = [
        head
        for thread in (thread_id, f"{thread_id}-2")
        for namespace in ("", "inner:1", "inner:1|deeper:2")
        for steps in [Steps(saver, thread, namespace)]
        for head in (steps.put({}), steps.put({}))
    ]
    for number, head in enumerate(places):
        saver.put_writes(head, [("x", number)], "task")
    assert [writes_of(saver, head) for head in places] == [[("task", "x", n)] for n in range(len(places))]


def test_writes_at_the_same_time_are_all_kept(saver: Saver, thread_id: str) -> None:
    """Tasks that end together, while the next checkpoint is being stored, lose none of their writes."""
    steps = Steps(saver, thread_id)
    head = steps.put({"x": 0})
    tasks = [f"task-{number:02}" for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(saver.put_writes, head, [("x", task), ("y", task)], task) for task in tasks]
        work.append(pool.submit(saver.put, head, checkpoint({"x": 1}, {"x": 9}), {"step": 1}, {"x": 9}))  # type: ignore[arg-type] # futures of two kinds
        for each in work:
            each.result()
    assert writes_of(saver, head) == [(task, channel, task) for task in tasks for channel in ("x", "y")]
