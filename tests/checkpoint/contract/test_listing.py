"""`list`: what it finds, in which order, and that it holds nobody up."""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from itertools import product
from typing import Any, cast

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.base.id import uuid6

from tests.checkpoint.contract.savers import Saver
from tests.checkpoint.contract.steps import Steps, id_of, ids, in_time, read, where
from tests.checkpoint.samples import talk


@contextmanager
def opened(saver: Saver, thread_id: str) -> Generator[Iterator[CheckpointTuple]]:
    """Open a list, and close it at the end, which lets go whoever waits for it."""
    with closing(cast(Generator[CheckpointTuple], saver.list(where(thread_id)))) as found:
        yield found


def test_a_list_may_be_read_between(saver: Saver, thread_id: str) -> None:
    """Inside a loop over `list` each checkpoint can be read by its own config."""
    steps = Steps(saver, thread_id)
    for number in range(4):
        steps.put({"x": number, "messages": talk(number)})
    with opened(saver, thread_id) as found:
        pairs = in_time(lambda: [(each, saver.get_tuple(each.config)) for each in found])
    assert [listed for listed, _ in pairs] == [found for _, found in pairs]
    assert len(pairs) == 4


def test_a_list_may_be_written_between(saver: Saver, thread_id: str) -> None:
    """Inside a loop over `list` the thread can be written to, and the loop still ends and shows what there was."""
    steps = Steps(saver, thread_id)
    stored = [id_of(steps.put({"x": number})) for number in range(4)]

    seen: list[str] = []

    def work() -> None:
        for each in found:
            seen.append(id_of(each.config))
            saver.put_writes(each.config, [("x", 1)], "task")
            Steps(saver, thread_id, "inner:1").put({"x": 1})
            steps.put({"x": 1})

    with opened(saver, thread_id) as found:
        in_time(work)
    assert [each for each in seen if each in stored] == stored[::-1]


def test_a_list_left_open_holds_nobody_up(saver: Saver, thread_id: str) -> None:
    """A caller that takes the first of a list and keeps it open does not keep others from writing."""
    steps = Steps(saver, thread_id)
    steps.put({"x": 1})
    steps.put({"x": 2})
    with opened(saver, thread_id) as found:
        next(found)
        head = in_time(lambda: steps.put({"x": 3}))
        assert in_time(lambda: read(saver, where(thread_id))).config == head


@pytest.fixture
def stored(saver: Saver, thread_id: str) -> list[tuple[RunnableConfig, dict[str, Any]]]:
    """Put five checkpoints in each of two namespaces, in turn; return configs and metadata, oldest first."""
    spaces = [Steps(saver, thread_id), Steps(saver, thread_id, "inner:1")]
    found = []
    for number, space in product(range(5), spaces):
        metadata = {"source": "input" if number % 2 else "loop", "step": number - 1, "even": number % 2 == 0}
        found.append((space.put({"x": number}, **metadata), metadata))
    return found


@pytest.mark.parametrize(
    "wanted", [None, {}, {"source": "loop"}, {"source": "loop", "step": 1}, {"even": False}, {"unknown": 1}]
)
def test_filter_before_and_limit_go_together(
    saver: Saver,
    thread_id: str,
    stored: list[tuple[RunnableConfig, dict[str, Any]]],
    wanted: dict[str, Any] | None,
) -> None:
    """Each combination gives the newest of those that match, of the namespace that is named."""
    matching = [
        (number, config)
        for number, (config, metadata) in enumerate(stored)
        if all(metadata.get(key) == value for key, value in (wanted or {}).items())
    ]
    for namespace, before, limit in product(("", "inner:1"), (None, 0, 4, 9), (None, 0, 1, 2, 100)):
        expected = [
            id_of(config)
            for number, config in reversed(matching)
            if config["configurable"]["checkpoint_ns"] == namespace and (before is None or number < before)
        ]
        edge = None if before is None else stored[before][0]
        found = saver.list(where(thread_id, namespace=namespace), filter=wanted, before=edge, limit=limit)
        assert ids(found) == expected[:limit], (namespace, before, limit)


def test_a_list_without_a_namespace_goes_through_all_of_them(
    saver: Saver, thread_id: str, stored: list[tuple[RunnableConfig, dict[str, Any]]]
) -> None:
    """A config that names only the thread lists every namespace, the newest first across them."""
    newest_first = [id_of(config) for config, _ in reversed(stored)]
    everywhere: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    assert ids(saver.list(everywhere)) == newest_first
    assert ids(saver.list(everywhere, limit=3)) == newest_first[:3]
    assert ids(saver.list(everywhere, before=stored[4][0])) == newest_first[6:]


def test_a_config_with_a_checkpoint_lists_that_one(
    saver: Saver, thread_id: str, stored: list[tuple[RunnableConfig, dict[str, Any]]]
) -> None:
    """A checkpoint id in the config is a condition like the others."""
    config = stored[4][0]
    assert ids(saver.list(config)) == [id_of(config)]
    assert ids(saver.list(config, filter={"step": 77})) == []
    assert ids(saver.list(where(thread_id, id_of(config), namespace="inner:1"))) == []


def test_no_config_lists_every_thread(saver: Saver, thread_id: str) -> None:
    """Without a config the filter alone says what is found, in all threads and namespaces."""
    expected = {
        id_of(Steps(saver, name, namespace).put({"x": 1}, mark=thread_id))
        for name, namespace in product((thread_id, f"{thread_id}-2"), ("", "inner:1"))
    }
    Steps(saver, f"{thread_id}-3").put({"x": 1}, mark="another")
    assert set(ids(saver.list(None, filter={"mark": thread_id}))) == expected
    assert len(ids(saver.list(None, filter={"mark": thread_id}, limit=3))) == 3


def test_a_long_list_is_whole(saver: Saver, thread_id: str) -> None:
    """Two hundred checkpoints are listed without a gap, and the few among them that match are found."""
    steps = Steps(saver, thread_id)
    stored = [id_of(steps.put({"messages": talk(number % 7)}, third=number % 70 == 3)) for number in range(200)]
    assert ids(saver.list(where(thread_id))) == stored[::-1]
    matching = [stored[143], stored[73], stored[3]]
    assert ids(saver.list(where(thread_id), filter={"third": True})) == matching
    assert ids(saver.list(where(thread_id), filter={"third": True}, limit=2)) == matching[:2]
    middle = where(thread_id, stored[100])
    assert ids(saver.list(where(thread_id), filter={"third": True}, before=middle, limit=1)) == [stored[73]]


def test_before_takes_an_id_that_is_not_stored(saver: Saver, thread_id: str) -> None:
    """Where the checkpoint that a page ended with has gone, the next page is found by its id."""
    steps = Steps(saver, thread_id)
    older = id_of(steps.put({"x": 1}))
    gone = str(uuid6())
    steps.put({"x": 2})
    assert ids(saver.list(where(thread_id), before=where(thread_id, gone))) == [older]


@pytest.mark.parametrize("erase", ["delete_thread", "prune"])
def test_a_thread_may_be_erased_while_it_is_listed(ours: Any, thread_id: str, erase: str) -> None:
    """A loop over a list ends without an error, though what it would have shown next has gone."""
    steps = Steps(ours, thread_id)
    stored = [id_of(steps.put({"messages": talk(number)})) for number in range(60)]
    with opened(ours, thread_id) as found:
        seen = [id_of(next(found).config)]
        ours.delete_thread(thread_id) if erase == "delete_thread" else ours.prune([thread_id])
        seen += ids(found)
    assert seen == stored[::-1][: len(seen)]


def test_an_unknown_thread_has_nothing(saver: Saver, thread_id: str) -> None:
    """Asking for a thread that is not there finds nothing and makes nothing."""
    assert saver.get_tuple(where(thread_id)) is None
    assert saver.get_tuple(where(thread_id, "1f0c0000-0000-6000-8000-000000000000")) is None
    assert list(saver.list(where(thread_id), limit=1)) == []
    saver.delete_thread(thread_id)
    assert saver.get_tuple(where(thread_id)) is None


VALUES: list[Any] = [
    "text",
    "",
    7,
    -1.5,
    True,
    'it\'s 100% _ \\ "quoted"',
    "Grüße 世界 \U0001f600",
    [1, "two"],
    {"a": 1},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_filter_takes_any_value(saver: Saver, thread_id: str, value: Any) -> None:
    """A value of any JSON kind is found by itself and by nothing else."""
    steps = Steps(saver, thread_id)
    wanted = id_of(steps.put({}, key=value))
    steps.put({}, key="another")
    steps.put({})
    assert ids(saver.list(where(thread_id), filter={"key": value})) == [wanted]


@pytest.mark.parametrize("value", [{"a": 1, "b": 2}, {"a": 1, "c": [1]}], ids=repr)
def test_a_filter_wants_the_whole_value(saver: Saver, thread_id: str, value: Any) -> None:
    """A filter is equality: a part of a nested value does not match the whole."""
    Steps(saver, thread_id).put({}, key=value)
    assert ids(saver.list(where(thread_id), filter={"key": {"a": 1}})) == []


@pytest.mark.parametrize("key", ["a.b", "step') OR 1=1 --", 'x"y', "$", "% _ *", "世界", "a' = 'a"])
def test_a_filter_key_is_a_name_and_nothing_else(saver: Saver, thread_id: str, key: str) -> None:
    """A key that reads like SQL or like a path matches the metadata of exactly that name."""
    steps = Steps(saver, thread_id)
    wanted = id_of(steps.put({}, **{key: 1}))
    steps.put({}, a={"b": 1})
    assert ids(saver.list(where(thread_id), filter={key: 1})) == [wanted]
    assert ids(saver.list(where(thread_id), filter={f"{key}'": 1})) == []
