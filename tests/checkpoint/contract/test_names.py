"""Ids of all kinds: what differs in any character is another thread, namespace, task or channel."""

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig

from tests.checkpoint.contract.savers import Saver
from tests.checkpoint.contract.steps import Steps, checkpoint, id_of, ids, read, values_of, where, writes_of

ALIKE = ["a", "A", "ä", "a ", " a", "á", "a%", "a_", "a'", 'a"', "a\\", "\U0001f600", "a/b:c|d", "0", "00"]


def test_threads_with_similar_names_are_different_threads(saver: Saver, thread_id: str) -> None:
    """Case, accents, blanks and signs count in the id of a thread."""
    for name in ALIKE:
        Steps(saver, f"{thread_id}{name}").put({"x": name})
    assert [values_of(saver, where(f"{thread_id}{name}"))["x"] for name in ALIKE] == ALIKE
    saver.delete_thread(f"{thread_id}a")
    assert saver.get_tuple(where(f"{thread_id}a")) is None
    assert [values_of(saver, where(f"{thread_id}{name}"))["x"] for name in ALIKE[1:]] == ALIKE[1:]


def test_namespaces_with_similar_names_are_different(saver: Saver, thread_id: str) -> None:
    """The same holds for the namespaces of a thread."""
    heads = [Steps(saver, thread_id, name).put({"x": name}) for name in ALIKE]
    assert [values_of(saver, where(thread_id, namespace=name))["x"] for name in ALIKE] == ALIKE
    assert [ids(saver.list(where(thread_id, namespace=name))) for name in ALIKE] == [[id_of(head)] for head in heads]


def test_tasks_and_channels_with_similar_names_are_different(saver: Saver, thread_id: str) -> None:
    """The same holds for tasks, their paths and channels."""
    head = Steps(saver, thread_id).put({name: name for name in ALIKE})
    for name in ALIKE:
        saver.put_writes(head, [(channel, channel) for channel in ALIKE], f"task{name}", f"path{name}")
    assert values_of(saver, head) == {name: name for name in ALIKE}
    assert writes_of(saver, head) == [
        (f"task{name}", channel, channel) for name in sorted(ALIKE) for channel in ALIKE
    ]


def test_long_names_are_kept_whole(saver: Saver, thread_id: str) -> None:
    """Subgraphs nine deep have namespaces and task paths of many characters, which differ at their end."""
    deep = "|".join(f"a_subgraph_with_a_name:{thread_id[-36:]}" for _ in range(9))
    for end in ("1", "2"):
        head = Steps(saver, thread_id, deep + end).put({"x": end})
        saver.put_writes(head, [("x" * 300, end)], "task", f"~__pregel_pull, {'node' * 100}{end}")
        assert writes_of(saver, head) == [("task", "x" * 300, end)]
    assert [values_of(saver, where(thread_id, namespace=deep + end))["x"] for end in ("1", "2")] == ["1", "2"]


def test_a_number_may_name_a_thread(saver: Saver, thread_id: str) -> None:
    """A thread id that is a number is the thread of that text, to all methods alike."""
    number = int(thread_id.removeprefix("thread-").replace("-", ""), 16) % 10**15
    config: RunnableConfig = {"configurable": {"thread_id": number, "checkpoint_ns": ""}}
    head = saver.put(config, checkpoint({"x": 1}, {"x": 1}), {"step": 0}, {"x": 1})
    assert values_of(saver, head) == {"x": 1}
    assert values_of(saver, where(str(number))) == {"x": 1}
    assert ids(saver.list(config)) == [id_of(head)]


@pytest.mark.parametrize("name", ["1", "not-a-uuid", "Z" * 100, "\U0001f600"])
def test_a_checkpoint_id_may_be_any_text(saver: Saver, thread_id: str, name: str) -> None:
    """Ids that are no UUIDs are kept as they are."""
    steps = Steps(saver, thread_id)
    steps.put({"x": 0}, name="0")
    head = steps.put({"x": 1}, name=name)
    saver.put_writes(head, [("x", 1)], name)
    assert read(saver, where(thread_id, name)).config == head
    assert read(saver, where(thread_id, name)).checkpoint["id"] == name
    assert writes_of(saver, where(thread_id, name)) == [(name, "x", 1)]
    assert ids(saver.list(where(thread_id))) == [name, "0"]


def test_everything_in_a_checkpoint_comes_back(saver: Saver, thread_id: str) -> None:
    """Versions of each kind, what nodes have seen, updated channels, time and form are those that were put."""
    versions: dict[str, Any] = {"a": 3, "b": "00000000000000000000000000000002.0.5", "c": 2**40}
    written = checkpoint({"a": 1}, versions)
    written["versions_seen"] = {"__input__": {}, "node": {"a": 2, "b": versions["b"]}, "Ünode": {"c": 1}}
    written["updated_channels"] = ["a", "b"]
    head = saver.put(where(thread_id), written, {"source": "loop", "step": 3, "parents": {"": "x"}}, {"a": 3})
    found = read(saver, head)
    assert found.checkpoint == written
    assert found.metadata == {"source": "loop", "step": 3, "parents": {"": "x"}}


def test_what_the_config_says_is_in_the_metadata(saver: Saver, thread_id: str) -> None:
    """Metadata and settings of the config are kept with a checkpoint, and can be filtered by."""
    config = where(thread_id)
    config["configurable"] |= {"tenant": "acme", "__secret": "no"}
    config["metadata"] = {"user": "ada", "score": 1.5}
    head = saver.put(config, checkpoint({}, {}), {"source": "loop", "step": 0}, {})
    assert read(saver, head).metadata == {"source": "loop", "step": 0, "tenant": "acme", "user": "ada", "score": 1.5}
    assert ids(saver.list(where(thread_id), filter={"user": "ada", "tenant": "acme"})) == [id_of(head)]
    assert ids(saver.list(where(thread_id), filter={"user": "ada", "tenant": "other"})) == []
