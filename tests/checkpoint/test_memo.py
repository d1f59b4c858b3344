from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.codec import dumps
from langgraph_compaction.checkpoint.memo import Fresh, Held, Known, Memo, Read, look, places
from langgraph_compaction.checkpoint.store import prepare
from tests.checkpoint.samples import EVERY_KIND, talk


def known(messages: list[BaseMessage], first: int = 0) -> Known:
    """Return a list as it was stored, under numbers from `first` on."""
    return Known((1, 0), ref(messages[0]), places(messages), list(map(look, messages)), ((first, len(messages)),))


def just_stored(memo: Memo, messages: list[BaseMessage]) -> None:
    """Let a memo know a list as it was stored."""
    memo.remember("t", known(messages))


def just_read(memo: Memo, messages: list[BaseMessage]) -> None:
    """Let a memo know a list as it was read from the database."""
    memo.read("t", Read((1, 0), ref(messages[0]), ((0, len(messages)),), list(map(dumps, messages))))


def remembered(messages: list[BaseMessage], size: int = 4) -> Memo:
    """Return a memo that knows a list."""
    memo = Memo(size)
    memo.remember("t", known(messages))
    return memo


def held(message: BaseMessage, seq: int) -> Held:
    """Return a single message as it was stored."""
    return Held((1, 0), message, look(message), seq)


def shared(memo: Memo, messages: list[BaseMessage], thread_id: str = "t") -> int:
    """Return how many messages at the start of a list the memo knows."""
    found = memo.prefix(thread_id, messages)
    return found[1] if found else 0


def test_what_a_list_shares_with_one_that_was_stored_is_known() -> None:
    """A list that grew, was cut or branched off is known as far as it holds the same objects."""
    messages = talk(9)
    memo = remembered(messages)
    assert shared(memo, [*messages, *talk(1, start=9)]) == 9
    assert shared(memo, messages[:4]) == 4
    assert shared(memo, [*messages[:5], *talk(1, start=20), *messages[6:]]) == 5
    assert shared(memo, messages[1:]) == 0
    assert shared(memo, []) == 0
    assert shared(memo, messages, "another thread") == 0


def test_equal_messages_that_are_other_objects_are_not_taken_for_known() -> None:
    """A list is looked for by its first object: who brings another one is told nothing of what is there."""
    assert shared(remembered(talk(3)), talk(3)) == 0


def change(message: BaseMessage, name: str, value: Any) -> None:
    """Set a field of a message."""
    setattr(message, name, value)


CHANGES = {
    "content": lambda m: change(m, "content", "edited"),
    "id": lambda m: change(m, "id", "other"),
    "a block": lambda m: m.content[0].update(text="edited"),
    "a mark": lambda m: m.additional_kwargs["compaction"].update(pinned=True),
    "an argument": lambda m: m.tool_calls[0]["args"]["lines"].append(3),
    "a list within": lambda m: m.response_metadata.setdefault("seen", []).append(1),
    "a number": lambda m: m.usage_metadata.update(output_tokens=3),
    "a number's type": lambda m: m.usage_metadata.update(input_tokens=True),
    "a number's type deeper": lambda m: m.usage_metadata["input_token_details"].update(cache_read=1.0),
    "a number's type among texts": lambda m: m.additional_kwargs.update(index=True),
    "an equal dict of other numbers": lambda m: change(
        m, "usage_metadata", {**m.usage_metadata, "total_tokens": 3.0}
    ),
    "a new field": lambda m: change(m, "unheard_of", "new"),
}
ODD = AIMessage(
    [{"type": "text", "text": "said"}],
    id="x",
    tool_calls=[{"name": "read", "args": {"lines": [1, 2]}, "id": "c"}],
    additional_kwargs={"compaction": {}, "kind": "odd", "index": 1},
    usage_metadata={
        "input_tokens": 1,
        "output_tokens": 2,
        "total_tokens": 3,
        "input_token_details": {"cache_read": 1},
    },
)


@pytest.mark.parametrize("there", [just_stored, just_read])
@pytest.mark.parametrize("name", CHANGES)
def test_a_message_that_was_changed_in_place_is_noticed(name: str, there: Callable[..., None]) -> None:
    """However deep the change is, the message and what follows it are stored again like new ones."""
    odd = ODD.model_copy(deep=True)
    messages = [*talk(5), odd, *talk(5, start=5)]
    memo = Memo(4)
    there(memo, messages)
    CHANGES[name](odd)
    assert shared(memo, messages) == 5
    assert shared(memo, messages) == 5  # also once it is known what they looked like


@pytest.mark.parametrize("name", CHANGES)
def test_a_single_message_that_was_changed_in_place_is_noticed(name: str) -> None:
    """What was stored by itself is known as long as it looks as it did then."""
    odd = ODD.model_copy(deep=True)
    memo = Memo(4)
    memo.hold("t", [one := held(odd, 7)])
    assert memo.held("t", odd) is one
    CHANGES[name](odd)
    assert memo.held("t", odd) is None


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_prepared_to_be_stored_is_good_while_the_message_is_unchanged(name: str) -> None:
    """A message is prepared once for the write and the state it stands in; changed in between, it is anew."""
    odd = ODD.model_copy(deep=True)
    memo = Memo(4)
    memo.prepare(fresh := Fresh(odd, look(odd), prepare(odd)))
    assert memo.prepared(odd) is fresh
    assert memo.prepared(ODD) is None
    CHANGES[name](odd)
    assert memo.prepared(odd) is None


def test_few_prepared_messages_are_kept() -> None:
    """They are needed for a moment only, and not at all where nothing is to be remembered."""
    messages = talk(20)
    for size, kept in ((1, 8), (0, 0)):
        memo = Memo(size)
        for message in messages:
            memo.prepare(Fresh(message, look(message), prepare(message)))
        assert [memo.prepared(message) is not None for message in messages] == [False] * (20 - kept) + [True] * kept


def test_a_message_that_was_not_changed_is_not_suspected() -> None:
    """Messages of every kind are known again, but for those that hold objects which could change unseen."""
    opaque = "values"  # sets, dates and decimals are not looked into
    plain = [message for name, message in EVERY_KIND.items() if name != opaque]
    assert shared(remembered(plain), plain) == len(plain)
    memo = Memo(4)
    just_read(memo, [ODD])
    assert shared(memo, [ODD]) == 1
    assert shared(remembered([EVERY_KIND[opaque]]), [EVERY_KIND[opaque]]) == 0


def test_a_value_without_a_truth_is_no_error() -> None:
    """An artifact that compares like an array makes its message a new one."""

    class Array:
        def __eq__(self, _other: object) -> Any:
            raise ValueError("the truth value is ambiguous")

        __hash__ = None  # type: ignore[assignment]

    message = ToolMessage("x", id="1", tool_call_id="1")
    memo = remembered([message])
    message.artifact = Array()
    assert shared(memo, [message]) == 0


def test_a_list_takes_the_place_of_the_one_it_grew_from() -> None:
    """Of the many lists of a growing conversation one is held, and another list stays beside it."""
    messages, other = talk(3), talk(2, start=20)
    memo = remembered(messages)
    memo.remember("t", known(other))
    before = memo.prefix("t", messages)
    assert before is not None
    memo.remember("t", known([*messages, *talk(1, start=3)], first=5), before[0])
    assert len(memo._threads["t"].lists) == 2
    found = memo.prefix("t", messages)
    assert found is not None
    assert (found[0].runs, found[1]) == (((5, 4),), 3)
    assert shared(memo, other) == 2


@pytest.mark.parametrize("there", [just_stored, just_read])
def test_no_list_is_kept_alive(there: Callable[..., None]) -> None:
    """A conversation that nobody has any more leaves none of its messages behind, and is forgotten by the next."""
    messages = talk(5)
    memo = Memo(4)
    there(memo, messages)
    gone = list(map(ref, messages))
    del messages
    assert [one() for one in gone] == [None] * 5
    there(memo, other := talk(2, start=20))
    thread = memo._threads["t"]
    assert [one.first() for one in (*thread.lists, *thread.reads)] == [other[0]]


def test_an_equal_message_in_the_place_of_another_is_stored_as_what_it_is() -> None:
    """Equal is not the same: a text may be an enum's, a dict in another order. What was read is compared as bytes."""
    messages = [*talk(3), HumanMessage("x", id="x", additional_kwargs={"a": {"b": "1", "c": "2"}})]
    other = messages[3].model_copy(update={"additional_kwargs": {"a": {"c": "2", "b": "1"}}})
    assert other == messages[3]
    assert shared(remembered(messages), [*messages[:3], other]) == 3
    for put, expected in ((other, 3), (messages[3].model_copy(deep=True), 4)):
        memo = Memo(4)
        just_read(memo, messages)
        assert shared(memo, [*messages[:3], put]) == expected


def test_a_shorter_list_of_the_same_messages_does_not_hide_the_longer() -> None:
    """Two channels may hold the same messages, one of them only some."""
    messages = talk(9)
    for channels in ((messages, messages[:3]), (messages[:3], messages)):
        memo = Memo(4)
        for one in channels:
            just_read(memo, one)
        assert [shared(memo, one) for one in (messages[:3], messages, messages[:3], messages)] == [3, 9, 3, 9]


def test_an_array_in_a_message_that_is_new_is_no_error() -> None:
    """What a message looks like is asked without asking any value whether it is true."""

    class Array:
        def __bool__(self) -> bool:
            raise ValueError("the truth value is ambiguous")

    message = ToolMessage("x", id="1", tool_call_id="1", artifact=Array())
    assert shared(remembered([message]), [message]) == 0


@pytest.mark.parametrize("there", [just_stored, just_read])
def test_an_equal_message_of_another_class_is_not_known(there: Callable[..., None]) -> None:
    """A class of the application's own has the same fields, and must come back as what it was."""

    class Own(HumanMessage):
        pass

    messages = talk(3)
    memo = Memo(4)
    there(memo, messages)
    own = Own.model_construct(None, **messages[2].__dict__)
    assert own.__dict__ == messages[2].__dict__
    assert shared(memo, [*messages[:2], own]) == 2


@pytest.mark.parametrize("there", [just_stored, just_read])
@pytest.mark.parametrize("other", ["text", {"role": "user"}, None, 7], ids=["text", "dict", "none", "number"])
def test_what_is_no_message_ends_what_is_known(there: Callable[..., None], other: Any) -> None:
    """A list that goes on with something else is known up to there."""
    messages: list[Any] = talk(3)
    memo = Memo(4)
    there(memo, messages)
    assert shared(memo, [*messages[:2], other, messages[2]]) == 2


def test_what_is_held_is_bounded() -> None:
    """At most four lists of a thread and the given number of threads are held, the newest; with 0 there are none."""
    memo = Memo(3)
    lists = [[message] for message in talk(9)]
    for messages in lists:
        memo.remember("many lists", known(messages))
    assert [shared(memo, messages, "many lists") for messages in lists] == [0] * 5 + [1] * 4
    for number in range(9):
        memo.remember(f"{number}", known(lists[0]))
    assert [shared(memo, lists[0], f"{number}") for number in range(9)] == [0] * 6 + [1] * 3
    assert shared(remembered(lists[0], size=0), lists[0]) == 0


def test_single_messages_that_are_held_are_bounded() -> None:
    """The newest 64 single messages of a thread are held, and with 0 threads none; another object is another one."""
    messages = talk(100)
    memo = Memo(3)
    memo.hold("t", [held(message, seq) for seq, message in enumerate(messages)])
    memo.hold("t", [held(messages[36], 36)])
    memo.hold("t", [held(messages[0], 0)])
    assert [seq for seq, message in enumerate(messages) if memo.held("t", message)] == [0, 36, *range(38, 100)]
    assert [memo.held("t", message) for message in talk(100)] == [None] * 100
    assert memo.held("another thread", messages[0]) is None
    memo = Memo(0)
    memo.hold("t", [held(messages[0], 0)])
    assert memo.held("t", messages[0]) is None


def test_what_is_forgotten_is_not_known() -> None:
    """Threads that were erased leave nothing behind, others stay."""
    messages = [HumanMessage("x", id="1")]
    memo = remembered(list(messages))
    memo.remember("other", known(list(messages)))
    memo.hold("t", [held(messages[0], 0)])
    memo.forget(["t", "never known"])
    assert (shared(memo, list(messages)), shared(memo, list(messages), "other")) == (0, 1)
    assert memo.held("t", messages[0]) is None
