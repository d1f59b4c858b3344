"""The channels of a thread's state, and the ids of its messages."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage
from langgraph.errors import EmptyChannelError

from langgraph_compaction.nodes.compaction_request import RequestChannel, fault_of
from langgraph_compaction.nodes.state import with_ids


def test_each_message_gets_an_id_of_its_own() -> None:
    """Missing, empty and repeated ids are replaced, and the first message with an id keeps it; a whole list stays."""
    whole: list[AnyMessage] = [HumanMessage("a", id="1"), AIMessage("b", id="2")]
    assert with_ids(whole) is whole
    given: list[Any] = [
        HumanMessage("a", id="1"),
        HumanMessage("b"),
        HumanMessage("c", id=""),
        HumanMessage("d", id="1"),
        {"role": "user", "content": "e"},
        AIMessageChunk(content="f", id="2"),
    ]
    before = [message if isinstance(message, dict) else message.model_copy() for message in given]
    found = with_ids(given)
    assert [message.text for message in found] == list("abcdef")
    ids = [message.id for message in found]
    assert (ids[0], ids[-1]) == ("1", "2")
    assert len({*ids}) == len(ids)
    assert all(ids)
    assert type(found[-1]) is AIMessage
    assert given == before


def test_a_derived_id_is_the_same_whenever_the_state_is_read() -> None:
    """A derived id depends only on the previous message, is unique in the list, and differs from a random id."""
    given = [HumanMessage("a"), HumanMessage("b"), HumanMessage("c", id="1"), HumanMessage("d"), HumanMessage("e")]
    first = [message.id for message in with_ids(given, derived=True)]
    assert first == [message.id for message in with_ids(given, derived=True)]
    assert len({*first}) == len(first)
    assert first[2:4] == ["1", "a60b8985-d9cf-56f7-bc54-0bfc0fcac988"]
    taken = [*given[:3], HumanMessage("x", id=first[3]), *given[3:]]
    again = [message.id for message in with_ids(taken, derived=True)]
    assert len({*again}) == len(again)
    assert again[3] == first[3]
    named = [HumanMessage("a"), HumanMessage("b", id="None"), HumanMessage("c")]
    assert len({message.id for message in with_ids(named, derived=True)}) == len(named)
    more = HumanMessage("f", id="2")
    for kept in (0, 2):
        later = with_ids([*given[kept:], more], derived=True)
        assert [message.id for message in later] == [*first[kept:], "2"]
    assert with_ids(given)[0].id != first[0]


def test_a_request_is_there_until_it_has_been_read() -> None:
    """The channel is empty before a request and after the check has cleared it."""
    made = RequestChannel(dict).from_checkpoint({"full": True})
    assert (made.is_available(), made.get()) == (True, {"full": True})
    made.update([None])
    assert not made.is_available()
    with pytest.raises(EmptyChannelError):
        made.get()
    assert not RequestChannel(dict).is_available()


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        (None, ""),
        ({"focus": "the price", "full": True}, ""),
        ({"undo": "last", "force": True}, ""),
        ({"release": True}, ""),
        ({"memory": {"goal": "a"}, "focus": None}, ""),
        ("compact", "is no request"),
        ({"focsu": "eggs", "b": 1}, "unknown keys 'b', 'focsu'"),
        ({"redo": True}, ""),
        ({"undo": "last", "redo": True}, "one a run"),
        ({"undo": "last", "release": True}, "one a run"),
        ({"release": True, "focus": None}, "one a run"),
        ({"undo": True}, ""),
        ({"force": False}, ""),
        ({"undo": " "}, "under 'undo'"),
        ({"release": "yes"}, "under 'release'"),
        ({"force": True}, "under 'force'"),
        ({"undo": "last", "force": "yes"}, "under 'force'"),
        ({"abandon": True}, ""),
        ({"abandon": "yes"}, "under 'abandon'"),
    ],
)
def test_a_request_asks_for_one_thing(asked: Any, fault: str) -> None:
    """A compaction, an undo and a release exclude each other, and a request has no other keys."""
    found = fault_of(asked, {})
    assert (fault in found) if fault else (found == "")
    assert "no part of" in fault_of(asked, {"request": {"full": True}})
    assert fault_of(asked, {"request": None}) == found
