"""Checkpoints with one parent, ids that do not grow, and the same checkpoint put again."""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base.id import uuid6

from tests.checkpoint.contract.savers import Saver
from tests.checkpoint.contract.steps import Steps, checkpoint, id_of, ids, read, values_of, where, writes_of
from tests.checkpoint.samples import talk


def two_forks(saver: Saver, thread_id: str, values: list[Any]) -> list[Any]:
    """Put children of one checkpoint, all at the same version of a channel; return what is read of them."""
    root = saver.put(where(thread_id), checkpoint({"x": "root"}, {"x": 1}), {"step": 0}, {"x": 1})
    forks = [saver.put(root, checkpoint({"x": value}, {"x": 2}), {"step": 1}, {"x": 2}) for value in values]
    assert values_of(saver, root)["x"] == "root"
    return [values_of(saver, fork)["x"] for fork in forks]


def test_forks_that_share_a_version_number_keep_their_values(saver: Saver, thread_id: str) -> None:
    """Two children of one checkpoint, both at the same version of a channel, are read with their own values."""
    assert two_forks(saver, thread_id, ["left", "right"]) == ["left", "right"]


def test_forks_of_messages_that_share_a_version_number_keep_them(saver: Saver, thread_id: str) -> None:
    """The same holds for lists of messages."""
    values = [talk(3), [*talk(2), *talk(1, start=7)]]
    assert two_forks(saver, thread_id, values) == values


def test_a_fork_knows_its_parent(saver: Saver, thread_id: str) -> None:
    """Each checkpoint names the one it was put on, and the first names none."""
    steps = Steps(saver, thread_id)
    root = steps.put({"x": 0})
    left = steps.put({"x": 1}, on=root)
    leaf = steps.put({"x": 2}, on=left)
    right = steps.put({"x": 3}, on=root)
    parents = {id_of(each.config): each.parent_config for each in saver.list(where(thread_id))}
    assert parents == {id_of(root): None, id_of(left): root, id_of(right): root, id_of(leaf): left}


def test_what_a_step_did_not_change_is_still_there(saver: Saver, thread_id: str) -> None:
    """A checkpoint has its whole state, though only the changed channels were named as new."""
    steps = Steps(saver, thread_id)
    steps.put({"messages": talk(5), "x": 1, "empty": []})
    steps.put({"x": 2})
    assert values_of(saver, steps.put({})) == {"messages": talk(5), "x": 2, "empty": []}


def test_a_channel_that_became_empty_has_no_value(saver: Saver, thread_id: str) -> None:
    """A channel with a new version and no value is absent, and stays readable in the checkpoint before."""
    full = saver.put(where(thread_id), checkpoint({"a": 1, "b": 2}, {"a": 1, "b": 1}), {}, {"a": 1, "b": 1})
    less = saver.put(full, checkpoint({"a": 1}, {"a": 1, "b": 2}), {}, {"b": 2})
    assert values_of(saver, less) == {"a": 1}
    assert values_of(saver, full) == {"a": 1, "b": 2}


def test_a_clock_that_steps_back_hides_nothing(saver: Saver, thread_id: str) -> None:
    """What was put last is the latest and is listed first, though its id is smaller than an older one."""
    earlier, later = str(uuid6()), str(uuid6())
    steps = Steps(saver, thread_id)
    steps.put({"x": "old"}, name=later)
    head = steps.put({"x": "new"}, name=earlier)
    assert read(saver, where(thread_id)).config == head
    assert ids(saver.list(where(thread_id))) == [earlier, later]
    assert ids(saver.list(where(thread_id), before=head)) == [later]
    everywhere: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    assert ids(saver.list(everywhere, before=head)) == [later]
    assert ids(saver.list(where(thread_id), limit=1)) == [earlier]


def test_the_same_checkpoint_put_again_is_one_checkpoint(saver: Saver, thread_id: str) -> None:
    """A put repeated, as after a lost answer, leaves one checkpoint, its writes and the latest as they were."""
    steps = Steps(saver, thread_id)
    root = steps.put({"messages": talk(3), "x": 1})
    saver.put_writes(root, [("x", 2)], "task")
    before = read(saver, root)
    head = steps.put({"x": 2})
    again = saver.put(where(thread_id), before.checkpoint, before.metadata, before.checkpoint["channel_versions"])
    assert again == root
    assert read(saver, root) == before
    assert ids(saver.list(where(thread_id))) == [id_of(head), id_of(root)]
    assert read(saver, where(thread_id)).config == head
    assert writes_of(saver, head) == []


def test_a_checkpoint_put_again_with_other_metadata_takes_them(saver: Saver, thread_id: str) -> None:
    """The last put of an id says what its metadata are, and a filter finds them."""
    steps = Steps(saver, thread_id)
    root = steps.put({"x": 1}, note="first")
    steps.put({"x": 1}, on=where(thread_id), name=id_of(root), note="second")
    assert read(saver, root).metadata["note"] == "second"  # type: ignore[typeddict-item] # a key of our own
    assert ids(saver.list(where(thread_id), filter={"note": "second"})) == [id_of(root)]
    assert ids(saver.list(where(thread_id), filter={"note": "first"})) == []


def test_what_is_read_is_not_what_is_stored(saver: Saver, thread_id: str) -> None:
    """A caller may change what it read, messages and all, and a later read still gives what was put."""
    head = Steps(saver, thread_id).put({"messages": talk(4), "nested": {"list": [1]}}, note={"deep": [1]})
    saver.put_writes(head, [("messages", talk(2)), ("x", {"list": [1]})], "task")
    for _ in range(2):
        found = read(saver, where(thread_id))
        assert found.checkpoint["channel_values"] == {"messages": talk(4), "nested": {"list": [1]}}
        assert found.metadata["note"] == {"deep": [1]}  # type: ignore[typeddict-item] # a key of our own
        assert found.pending_writes == [("task", "messages", talk(2)), ("task", "x", {"list": [1]})]
        found.checkpoint["channel_values"]["messages"][0].content = "changed"
        found.checkpoint["channel_values"]["messages"].pop()
        found.checkpoint["channel_values"]["nested"]["list"].append(2)
        found.metadata["note"]["deep"].append(2)  # type: ignore[typeddict-item] # a key of our own
        found.pending_writes[0][2][0].content = "changed"
        found.pending_writes[1][2]["list"].append(2)


def test_the_caller_keeps_what_it_put(saver: Saver, thread_id: str) -> None:
    """What a caller changes after a put is not in the checkpoint, and a put changes nothing of the caller's."""
    values = {"messages": talk(3), "nested": {"list": [1]}}
    written = checkpoint(values, {"messages": 1, "nested": 1})
    head = saver.put(where(thread_id), written, {"step": 1}, {"messages": 1, "nested": 1})
    assert written["channel_values"] is values
    assert values == {"messages": talk(3), "nested": {"list": [1]}}
    values["messages"][0].content = "changed"
    values["messages"].append(talk(1, start=9)[0])
    values["nested"]["list"].append(2)
    assert values_of(saver, head) == {"messages": talk(3), "nested": {"list": [1]}}
