"""Checkpoints with one parent, ids that do not grow, and the same checkpoint put again."""

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.base.id import uuid6

from langgraph_compaction.checkpoint.checkpoints.checkpoint_store import CheckpointStore
from langgraph_compaction.checkpoint.errors import ConflictError
from tests.checkpoint.contract.conftest import Opened
from tests.checkpoint.contract.steps import Saver, Steps, checkpoint, id_of, ids, read, values_of, where, writes_of
from tests.checkpoint.samples import talk


@pytest.mark.parametrize("values", [["left", "right"], [talk(3), talk(2, start=7)]], ids=["values", "messages"])
def test_forks_that_share_a_version_number_keep_their_values(saver: Saver, thread_id: str, values: list[Any]) -> None:
    """Two children of one checkpoint, both at the same version of a channel, are read with their own values."""
    root = saver.put(where(thread_id), checkpoint({"x": "root"}, {"x": 1}), {"step": 0}, {"x": 1})
    forks = [saver.put(root, checkpoint({"x": value}, {"x": 2}), {"step": 1}, {"x": 2}) for value in values]
    assert [values_of(saver, config)["x"] for config in (root, *forks)] == ["root", *values]
    assert [read(saver, fork).parent_config for fork in forks] == [root, root]


def test_a_clock_that_steps_back_hides_nothing(saver: Saver, thread_id: str) -> None:
    """What was put last is the latest and is listed first, though its id is smaller than an older one."""
    earlier, later = str(uuid6()), str(uuid6())
    steps = Steps(saver, thread_id)
    steps.put({"x": "old"}, name=later)
    head = steps.put({"x": "new"}, name=earlier)
    assert read(saver, where(thread_id)).config == head
    everywhere: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    for config in (where(thread_id), everywhere):
        assert ids(saver.list(config)) == [earlier, later]
        assert ids(saver.list(config, before=head)) == [later]
        assert ids(saver.list(config, limit=1)) == [earlier]


def test_the_same_checkpoint_put_again_is_one_checkpoint(saver: Saver, thread_id: str) -> None:
    """A put repeated, as after a lost answer, leaves one checkpoint, its writes and the latest as they were.

    With other metadata, the last put says what they are, and a filter finds them.
    """
    steps = Steps(saver, thread_id)
    root = steps.put({"messages": talk(3), "x": 1}, note="first")
    saver.put_writes(root, [("x", 2)], "task")
    before = read(saver, root)
    head = steps.put({"x": 2})
    again = saver.put(where(thread_id), before.checkpoint, before.metadata, before.checkpoint["channel_versions"])
    assert (again, read(saver, root)) == (root, before)
    assert ids(saver.list(where(thread_id))) == [id_of(head), id_of(root)]
    assert read(saver, where(thread_id)).config == head
    assert writes_of(saver, head) == []
    saver.put(where(thread_id), before.checkpoint, before.metadata | {"note": "second"}, {})
    found = {note: ids(saver.list(where(thread_id), filter={"note": note})) for note in ("first", "second")}
    assert found == {"first": [], "second": [id_of(root)]}


def test_what_is_read_is_not_what_is_stored(saver: Saver, thread_id: str) -> None:
    """A caller may change what it put or read, messages and all, and a later read still gives what was put."""
    values = {"messages": talk(4), "nested": {"list": [1]}}
    written = checkpoint(values, {"messages": 1, "nested": 1})
    head = saver.put(where(thread_id), written, {"step": 1, "note": {"deep": [1]}}, {"messages": 1, "nested": 1})
    assert written["channel_values"] is values
    assert values == {"messages": talk(4), "nested": {"list": [1]}}
    saver.put_writes(head, [("messages", talk(2)), ("x", {"list": [1]})], "task")
    for _ in range(2):
        values["messages"][0].content = "changed"
        values["messages"].append(talk(1, start=9)[0])
        values["nested"]["list"].append(2)
        found = read(saver, where(thread_id))
        values = found.checkpoint["channel_values"]
        assert values == {"messages": talk(4), "nested": {"list": [1]}}
        assert found.metadata["note"] == {"deep": [1]}
        assert found.pending_writes == [("task", "messages", talk(2)), ("task", "x", {"list": [1]})]
        found.metadata["note"]["deep"].append(2)
        found.pending_writes[0][2][0].content = "changed"
        found.pending_writes[1][2]["list"].append(2)


def test_a_checkpoint_put_again_is_not_taken_for_the_newest(opened: Opened, thread_id: str) -> None:
    """With the conflict guard, a run goes on after an older checkpoint was put again, as after a lost answer."""
    saver = opened(on_conflict="raise")
    steps = Steps(saver, thread_id)
    root = steps.put({"x": 0})
    again = read(saver, steps.put({"x": 1})).checkpoint
    head = steps.put({"x": 2})
    saver.put(root, again, {"source": "loop"}, {})
    assert steps.put({"x": 3}, on=head)
    with pytest.raises(ConflictError):
        steps.put({"x": 4}, on=head)


def test_a_late_reader_hides_no_newer_checkpoint(
    opened: Opened, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the conflict guard, what a reader saw does not count if a checkpoint was put before it had read all."""
    saver = opened(on_conflict="raise")
    steps = Steps(saver, thread_id)
    first = steps.put({"x": 0})
    build = CheckpointStore._built
    heads: list[RunnableConfig] = []

    def put_before_building(store: CheckpointStore, *arguments: Any) -> CheckpointTuple:
        heads.append(steps.put({"x": 1}))
        return build(store, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "_built", put_before_building)
        saver.get_tuple(where(thread_id))
    with pytest.raises(ConflictError):
        steps.put({"x": 2}, on=first)
    assert steps.put({"x": 3}, on=heads[0])
