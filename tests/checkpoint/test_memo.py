from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.memo import Known, Memo, looks
from tests.checkpoint.samples import EVERY_KIND, talk


def known(messages: list[BaseMessage], first: int = 0) -> Known:
    """Return a list as it was stored, under numbers from `first` on."""
    return Known((1, 0), list(messages), looks(messages), list(range(first, first + len(messages))))


def remembered(messages: list[BaseMessage], size: int = 4) -> Memo:
    """Return a memo that knows a list."""
    memo = Memo(size)
    memo.remember("t", known(messages))
    return memo


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
    """Only what is the very object that was stored is not looked at again."""
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
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_message_that_was_changed_in_place_is_noticed(name: str) -> None:
    """However deep the change is, the message and what follows it are stored again like new ones."""
    call = {"name": "read", "args": {"lines": [1, 2]}, "id": "c"}
    odd = AIMessage(
        [{"type": "text", "text": "said"}], id="x", tool_calls=[call], additional_kwargs={"compaction": {}}
    )
    messages = [*talk(5), odd, *talk(5, start=5)]
    memo = remembered(messages)
    CHANGES[name](odd)
    assert shared(memo, messages) == 5


def test_a_message_that_was_not_changed_is_not_suspected() -> None:
    """Messages of every kind are known again, but for those that hold objects which could change unseen."""
    opaque = "values"  # sets, dates and decimals are not looked into
    plain = [message for name, message in EVERY_KIND.items() if name != opaque]
    assert shared(remembered(plain), plain) == len(plain)
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
    assert len(memo._lists["t"]) == 2
    found = memo.prefix("t", messages)
    assert found is not None
    assert (found[0].seqs, found[1]) == ([5, 6, 7, 8], 3)
    assert shared(memo, other) == 2


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


def test_what_is_forgotten_is_not_known() -> None:
    """Threads that were erased leave nothing behind, others stay."""
    messages = [HumanMessage("x", id="1")]
    memo = remembered(list(messages))
    memo.remember("other", known(list(messages)))
    memo.forget(["t", "never known"])
    assert (shared(memo, list(messages)), shared(memo, list(messages), "other")) == (0, 1)
