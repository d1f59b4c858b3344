"""What a saver remembers of the messages that it stored or read: it saves work, and keeps nothing alive."""

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from weakref import ref

import pytest
from langchain_core.messages import BaseMessage

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.messages import encode
from langgraph_compaction.checkpoint.messages.message_store import prepare
from langgraph_compaction.checkpoint.messages.write_cache import RUNNING_S
from tests.checkpoint.contract.steps import Steps, values_of, where
from tests.checkpoint.samples import talk

Opened = Callable[..., SQLAlchemySaver]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Return a function that opens a saver in memory, with options, until the test is over."""
    with ExitStack() as stack:

        def open_one(**options: Any) -> SQLAlchemySaver:
            saver = stack.enter_context(SQLAlchemySaver.from_url("memory", **options))
            saver.setup()
            return saver

        yield open_one


def remembered(saver: SQLAlchemySaver) -> list[str]:
    """Return the threads of which something is remembered."""
    return [*saver.cache._threads]


@pytest.mark.parametrize("detect_mutation", [True, False])
def test_of_many_conversations_at_once_only_what_is_new_is_serialized(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, detect_mutation: bool
) -> None:
    """Each of forty that take turns knows its own messages at every put, also after a read."""
    serialized: list[str | None] = []
    monkeypatch.setattr(encode, "prepare", lambda message: serialized.append(message.id) or prepare(message))
    saver = opened(detect_mutation=detect_mutation)
    steps = {f"t{number}": Steps(saver, f"t{number}") for number in range(40)}
    lists: dict[str, list[BaseMessage]] = {name: talk(20) for name in steps}
    for count in range(3):
        for name, messages in lists.items():
            steps[name].put({"messages": messages})
            if count == 1:
                lists[name] = values_of(saver, where(name))["messages"]
    assert len(serialized) == 40 * 20


@pytest.mark.parametrize("detect_mutation", [True, False])
@pytest.mark.parametrize("how", ["stored", "read", "written"])
def test_no_message_is_kept_alive(opened: Opened, detect_mutation: bool, how: str) -> None:
    """A conversation that nobody has any more leaves none of its messages behind, and is forgotten by the next."""
    saver, messages = opened(detect_mutation=detect_mutation), talk(5)
    head = Steps(saver, "t").put({"messages": messages if how == "stored" else talk(5)})
    if how == "read":
        messages = values_of(saver, head)["messages"]
    elif how == "written":
        saver.put_writes(head, [("messages", messages)], "task")
    gone = list(map(ref, messages))
    del messages
    for number in range(9):  # the last messages that were serialized are known for a moment
        Steps(saver, "other").put({"messages": talk(1, start=20 + number)})
    gc.collect()
    assert [one() for one in gone] == [None] * 5
    assert remembered(saver) == ["other"]


@pytest.mark.parametrize("limits", [{"cache": 8}, {"cache_bytes": 100_000}], ids=str)
def test_conversations_that_an_application_keeps_are_forgotten_after_an_hour(
    opened: Opened, limits: dict[str, int]
) -> None:
    """The least recently used first, down to the limits; a turn that runs is remembered even above them."""
    saver, clock = opened(**limits), [0.0]
    saver.cache._clock = lambda: clock[0]
    kept = {f"old{number}": talk(20) for number in range(30)} | {f"new{number}": talk(20) for number in range(20)}
    for name, messages in kept.items():
        clock[0] += 2 * RUNNING_S * (name == "new0")
        Steps(saver, name).put({"messages": messages})
    assert {*remembered(saver)} == {f"new{number}" for number in range(20)}
    clock[0] += 2 * RUNNING_S
    last = [talk(20) for _ in range(4)]
    for number, messages in enumerate(last):
        Steps(saver, f"last{number}").put({"messages": messages})
    assert {*remembered(saver)} >= {f"last{number}" for number in range(4)}
    assert len(remembered(saver)) <= limits.get("cache", 20)
    assert saver.cache._bytes <= limits.get("cache_bytes", 2**30)


ERASURES: dict[str, Callable[[SQLAlchemySaver], object]] = {
    "delete": lambda saver: saver.delete_thread("t"),
    "delete runs": lambda saver: saver.delete_for_runs(["run"]),
    "prune": lambda saver: saver.prune(["t"]),
    "sweep": lambda saver: saver.sweep(older_than=-60),
}


@pytest.mark.parametrize("erase", ERASURES.values(), ids=ERASURES)
def test_what_is_erased_is_forgotten_at_once(opened: Opened, erase: Callable[[SQLAlchemySaver], object]) -> None:
    """The cache drops the messages of an erased thread at once, and not only when it is full."""
    saver, messages = opened(), talk(20)
    Steps(saver, "t").put({"messages": messages}, run_id="run")
    assert remembered(saver) == ["t"]
    erase(saver)
    assert remembered(saver) == []
