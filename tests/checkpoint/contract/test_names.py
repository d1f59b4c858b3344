"""Ids of all kinds: what differs in any character is another thread, namespace, task or channel."""

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig

from tests.checkpoint.contract.steps import Saver, Steps, checkpoint, id_of, ids, read, values_of, where, writes_of

ALIKE = ["a", "A", "ä", "a ", " a", "a\t", "á", "a\u0301", "a%", "a_", "a'", 'a"', "a\\", "\U0001f600", "a/b:c|d"]
LONG = ["n" * 240 + end for end in "12"]


def test_threads_with_similar_names_are_different_threads(saver: Saver, thread_id: str) -> None:
    """Case, accents, blanks and signs count in the id of a thread, which may have 512 characters."""
    names = [f"{thread_id}{name}" for name in ALIKE] + [thread_id.ljust(511, "x") + end for end in "12"]
    for name in names:
        Steps(saver, name).put({"x": name})
    assert [values_of(saver, where(name))["x"] for name in names] == names
    saver.delete_thread(names[0])
    assert saver.get_tuple(where(names[0])) is None
    assert [values_of(saver, where(name))["x"] for name in names[1:]] == names[1:]


def test_namespaces_tasks_and_channels_with_similar_names_are_different(saver: Saver, thread_id: str) -> None:
    """The same holds for these, and for the paths of tasks."""
    names = [*ALIKE, *LONG]
    heads = [Steps(saver, thread_id, name).put({name: name, "x": 1}) for name in names]
    assert [values_of(saver, where(thread_id, namespace=name)) for name in names] == [
        {name: name, "x": 1} for name in names
    ]
    assert [ids(saver.list(where(thread_id, namespace=name))) for name in names] == [[id_of(head)] for head in heads]
    for name in names:
        saver.put_writes(heads[0], [(channel, channel) for channel in names], f"task{name}", f"path{name}")
    assert writes_of(saver, heads[0]) == [
        (f"task{name}", channel, channel) for name in sorted(names) for channel in names
    ]


def test_a_number_may_name_a_thread(saver: Saver, thread_id: str) -> None:
    """A thread id that is a number is the thread of that text, to all methods alike."""
    number = int(thread_id.removeprefix("thread-").replace("-", ""), 16) % 10**15
    config: RunnableConfig = {"configurable": {"thread_id": number, "checkpoint_ns": ""}}
    head = saver.put(config, checkpoint({"x": 1}, {"x": 1}), {"step": 0}, {"x": 1})
    assert values_of(saver, head) == values_of(saver, where(str(number))) == {"x": 1}
    assert ids(saver.list(config)) == [id_of(head)]


@pytest.mark.parametrize("name", ["1", "not-a-uuid", "Z" * 100, "\U0001f600"])
def test_a_checkpoint_id_may_be_any_text(saver: Saver, thread_id: str, name: str) -> None:
    """Ids that are no UUIDs are kept as they are."""
    steps = Steps(saver, thread_id)
    steps.put({"x": 0}, name="0")
    head = steps.put({"x": 1}, name=name)
    saver.put_writes(head, [("x", 1)], name)
    found = read(saver, where(thread_id, name))
    assert (found.config, found.checkpoint["id"], found.pending_writes) == (head, name, [(name, "x", 1)])
    assert ids(saver.list(where(thread_id))) == [name, "0"]


def test_everything_in_a_checkpoint_comes_back(saver: Saver, thread_id: str) -> None:
    """Versions of each kind, what nodes have seen, metadata and what the config says beside them."""
    versions: dict[str, Any] = {"a": 3, "b": "00000000000000000000000000000002.0.5", "c": 2**40}
    written = checkpoint({"a": 1}, versions)
    written["versions_seen"] = {"__input__": {}, "node": {"a": 2, "b": versions["b"]}, "Ünode": {"c": 1}}
    written["updated_channels"] = ["a", "b"]
    config = where(thread_id)
    config["configurable"] |= {"tenant": "acme", "__secret": "no"}
    config["metadata"] = {"user": "ada", "score": 1.5}
    head = saver.put(config, written, {"source": "loop", "step": 3, "parents": {"": "x"}}, {"a": 3})
    found = read(saver, head)
    assert found.checkpoint == written
    told = {"source": "loop", "step": 3, "parents": {"": "x"}, "tenant": "acme", "user": "ada", "score": 1.5}
    assert found.metadata == told
    assert ids(saver.list(where(thread_id), filter={"user": "ada", "tenant": "acme"})) == [id_of(head)]
    assert ids(saver.list(where(thread_id), filter={"user": "ada", "tenant": "other"})) == []
