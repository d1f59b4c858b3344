import gc
from collections.abc import Callable, Iterator
from sys import getsizeof
from types import FunctionType, ModuleType
from typing import Any
from weakref import ref

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.messages import encode
from langgraph_compaction.checkpoint.messages.change_detection import (
    ContentTracker,
    IdentityTracker,
    Tracker,
)
from langgraph_compaction.checkpoint.messages.message_codec import dumps, loads
from langgraph_compaction.checkpoint.messages.message_store import prepare
from langgraph_compaction.checkpoint.messages.write_cache import RUNNING_S, WriteCache
from tests.checkpoint.contract.steps import Steps, where
from tests.checkpoint.remembering import (
    Remember,
    held,
    just_read,
    just_stored,
    known,
    remembered,
    shared,
)
from tests.checkpoint.samples import talk


@pytest.mark.parametrize("there", [just_stored, just_read])
@pytest.mark.parametrize("how", [ContentTracker, IdentityTracker])
def test_no_list_is_kept_alive(there: Remember, how: type[Tracker]) -> None:
    """A conversation that nobody has any more leaves none of its messages behind, and is forgotten by the next."""
    messages = talk(5)
    cache = WriteCache(4, how)
    there(cache, messages)
    gone = list(map(ref, messages))
    del messages
    assert [one() for one in gone] == [None] * 5
    there(cache, other := talk(2, start=20))
    thread = cache._threads["t"]
    assert [one.first() for one in (*thread.lists, *thread.reads)] == [other[0]]


def test_what_is_held_is_bounded() -> None:
    """At most four lists of a thread are held, the newest; with 0 threads there are none."""
    cache = WriteCache(3)
    lists = [[message] for message in talk(9)]
    for messages in lists:
        cache.remember_list("many lists", known(messages))
    assert [shared(cache, messages, "many lists") for messages in lists] == [0] * 5 + [1] * 4
    assert shared(remembered(lists[0], size=0), lists[0]) == 0


def test_single_messages_that_are_held_are_bounded() -> None:
    """The newest 64 single messages of a thread are held, and with 0 threads none; another object is another one."""
    messages = talk(100)
    cache = WriteCache(3)
    cache.remember_messages("t", [held(message, seq) for seq, message in enumerate(messages)])
    cache.remember_messages("t", [held(messages[36], 36)])
    cache.remember_messages("t", [held(messages[0], 0)])
    found = [seq for seq, message in enumerate(messages) if cache.find_message("t", message)]
    assert found == [
        0,
        36,
        *range(38, 100),
    ]
    assert [cache.find_message("t", message) for message in talk(100)] == [None] * 100
    assert cache.find_message("another thread", messages[0]) is None
    cache = WriteCache(0)
    cache.remember_messages("t", [held(messages[0], 0)])
    assert cache.find_message("t", messages[0]) is None


def test_what_is_forgotten_is_not_known() -> None:
    """Threads that were erased leave nothing behind, others stay."""
    messages = [HumanMessage("x", id="1")]
    cache = remembered(list(messages))
    cache.remember_list("other", known(list(messages)))
    cache.remember_messages("t", [held(messages[0], 0)])
    cache.forget(["t", "never known"])
    assert (shared(cache, list(messages)), shared(cache, list(messages), "other")) == (0, 1)
    assert cache.find_message("t", messages[0]) is None


class Turns:
    """Conversations of `length` messages in a cache with a clock of its own."""

    def __init__(self, cache: WriteCache, clock: list[float], length: int = 20) -> None:
        self.cache = cache
        self.clock = clock
        self.length = length
        self.lists: dict[str, list[BaseMessage]] = {}

    def put(self, name: str) -> None:
        """Have a turn put its list; the application keeps it until `end`."""
        self.clock[0] += 1
        if name not in self.lists:
            self.lists[name] = talk(self.length)
            just_read(self.cache, self.lists[name], name)
        before = self.cache.find_prefix(name, self.lists[name])
        assert before is not None, f"{name} is known to its own turn"
        self.cache.remember_list(name, before[0], before[0])

    def end(self, name: str) -> None:
        """Let the messages go, as a run does that has ended."""
        del self.lists[name]

    def known(self) -> list[str]:
        """Return the turns whose lists are known."""
        return [name for name, messages in self.lists.items() if shared(self.cache, messages, name)]


def turns(size: int = 1_024, most: int = 2**30, length: int = 20, how: type[Tracker] = ContentTracker) -> Turns:
    """Return turns in a new cache."""
    clock = [0.0]
    return Turns(WriteCache(size, how, max_bytes=most, clock=lambda: clock[0]), clock, length)


@pytest.mark.parametrize("limits", [{"size": 8}, {"most": 150_000}])
def test_conversations_that_are_kept_are_forgotten_after_an_hour(limits: dict[str, int]) -> None:
    """The least recently used first, down to the limits; an application may keep all messages for ever."""
    there = turns(**limits)
    for number in range(30):
        there.put(f"old{number}")
    there.clock[0] += RUNNING_S
    for number in range(20):
        there.put(f"new{number}")
    assert there.known() == [f"new{number}" for number in range(20)]
    there.clock[0] += RUNNING_S
    there.put("new3")
    for number in range(4):
        there.put(f"last{number}")
    assert {"new3", "last0", "last1", "last2", "last3"} <= set(there.known())
    assert len(there.known()) <= limits.get("size", 20)
    assert there.cache._bytes <= limits.get("most", 2**30)


def test_what_ended_turns_knew_is_forgotten() -> None:
    """It is forgotten within the limits too, and also if the turn that began first is the next to write."""
    there = turns()
    for number in range(50):
        there.put(f"t{number}")
        there.end(f"t{number}")
    assert len(there.cache._threads) <= 2
    assert there.cache._bytes == sum(one.size for one in there.cache._threads.values())
    oldest = turns()
    for name in ("first", "ended"):
        oldest.put(name)
    oldest.end("ended")
    oldest.put("first")
    assert [*oldest.cache._threads] == ["first"]


def test_single_messages_are_not_kept_alive() -> None:
    """A message that nobody has any more is forgotten by the next, and a new one at its place is another one."""
    cache = WriteCache(3)
    messages = talk(9)
    cache.remember_messages("t", [held(message, seq) for seq, message in enumerate(messages)])
    gone = list(map(ref, messages[1:]))
    del messages[1:]
    assert [one() for one in gone] == [None] * 8
    cache.remember_messages("t", [held(messages[0], 0)])
    assert len(cache._threads["t"].messages) == len(cache._threads["t"].message_bytes) == 1


def conversation(kind: str, count: int) -> list[BaseMessage]:
    """Return messages of one kind, each with objects of its own."""
    text = "some words of a conversation " * 20

    def made(number: int) -> BaseMessage:
        name = f"{number:036d}"
        used = {"input_tokens": 1000 + number, "output_tokens": 700 + number, "total_tokens": 1700 + 2 * number}
        match kind:
            case "plain":
                return HumanMessage(f"{number} {text}", id=name)
            case "short":
                return AIMessage(f"ok {number}", id=name)
            case "blocks":
                url = f"data:{number}{'A' * 5000}"
                return HumanMessage([{"type": "text", "text": text}, {"type": "image", "url": url}], id=name)
            case _:
                call = {
                    "name": "write",
                    "args": {"path": f"/{number}", "text": f"{number}{text}"},
                    "id": f"c{number}",
                }
                return AIMessage("", id=name, tool_calls=[call], usage_metadata=used)  # type: ignore[arg-type] # built

    return [loads(dumps(made(number))) for number in range(count)]


def reachable(cache: WriteCache, but: list[BaseMessage]) -> int:
    """Return the bytes of all objects that a cache alone keeps alive: not of types, nor of what `but` holds."""
    seen = {id(one) for one in walked([*but, type(cache), cache.tracker])}
    return sum(getsizeof(one) for one in walked([cache._threads]) if id(one) not in seen)


def walked(roots: list[Any]) -> Iterator[Any]:
    """Yield every object that is reached from some, once; classes, modules and functions are not entered."""
    seen: set[int] = set()
    rest = list(roots)
    while rest:
        one = rest.pop()
        if id(one) not in seen and not isinstance(one, type | ModuleType | FunctionType):
            seen.add(id(one))
            yield one
            rest += gc.get_referents(one)


@pytest.mark.parametrize("kind", ["plain", "short", "blocks", "calls"])
@pytest.mark.parametrize("there", [just_stored, just_read])
@pytest.mark.parametrize("how", [ContentTracker, IdentityTracker])
@pytest.mark.parametrize("count", [100, 1_024])
def test_bytes_are_counted_as_they_are_taken(kind: str, count: int, how: type[Tracker], there: Remember) -> None:
    """Within a factor of two, of a list of which the application has but the messages that keep it known."""
    cache = WriteCache(4, how)
    messages = conversation(kind, count)
    there(cache, messages)
    assert shared(cache, messages) == count
    assert cache._bytes == cache._threads["t"].count_bytes(), "what was read is counted again once it is looked at"
    edges = {0, *range(127, count, 128), *range(128, count, 128)} if how is IdentityTracker else {0}
    kept = [messages[place] for place in sorted(edges)]
    del messages
    taken = reachable(cache, kept)
    assert taken / 2 < cache._bytes < taken * 2


@pytest.mark.parametrize("detect_mutation", [True, False])
def test_of_many_conversations_at_once_only_what_is_new_is_serialized(
    monkeypatch: pytest.MonkeyPatch, detect_mutation: bool
) -> None:
    """Each of forty that take turns knows its own messages at every put, also after a read."""
    serialized: list[str | None] = []
    monkeypatch.setattr(encode, "prepare", lambda message: serialized.append(message.id) or prepare(message))
    with SQLAlchemySaver.from_url("memory", detect_mutation=detect_mutation) as saver:
        saver.setup()
        steps = {f"t{number}": Steps(saver, f"t{number}") for number in range(40)}
        lists: dict[str, list[BaseMessage]] = {name: talk(20) for name in steps}
        for count in range(3):
            for name, messages in lists.items():
                steps[name].put({"messages": messages})
                if count == 1:
                    found = saver.get_tuple(where(name))
                    assert found is not None
                    lists[name] = found.checkpoint["channel_values"]["messages"]
    assert len(serialized) == 40 * 20


ERASURES: dict[str, Callable[[SQLAlchemySaver], object]] = {
    "delete": lambda saver: saver.delete_thread("t"),
    "delete runs": lambda saver: saver.delete_for_runs(["run"]),
    "prune": lambda saver: saver.prune(["t"]),
    "sweep": lambda saver: saver.sweep(older_than=-60),
}


@pytest.mark.parametrize("erase", ERASURES.values(), ids=ERASURES)
def test_what_is_erased_is_forgotten_at_once(erase: Callable[[SQLAlchemySaver], object]) -> None:
    """The cache drops the messages of an erased thread at once, and not only when it is full."""
    messages = talk(20)
    with SQLAlchemySaver.from_url("memory") as saver:
        saver.setup()
        Steps(saver, "t").put({"messages": messages}, run_id="run")
        assert shared(saver.cache, messages) == 20
        erase(saver)
        assert shared(saver.cache, messages) == 0
