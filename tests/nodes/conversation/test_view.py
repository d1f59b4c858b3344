"""A view hides and shortens messages of a conversation that stays whole."""

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.nodes.conversation.request import render
from langgraph_compaction.nodes.conversation.view import View, changed, movable, read_view, seen, view_before

SUMMARY = HumanMessage(
    "what was said", id="summary-1", additional_kwargs={"compaction": {"kind": "compaction_summary"}}
)


def talk(count: int) -> list[AnyMessage]:
    """Return so many messages of user and assistant in turn."""
    return [(AIMessage if n % 2 else HumanMessage)(f"text {n}", id=f"m{n}") for n in range(count)]


def ids(messages: list[AnyMessage]) -> list[str | None]:
    """Return the ids."""
    return [message.id for message in messages]


def hidden(messages: list[AnyMessage], *names: str, **more: Any) -> View:
    """Return a view that hides these messages behind the summary."""
    return changed(messages, None, source="1", drop=names, summary=SUMMARY, **more)


def test_a_summary_stands_where_the_first_hidden_message_stood() -> None:
    """What comes later is seen as it is, and the conversation is not touched."""
    messages: list[AnyMessage] = [SystemMessage("s", id="s"), *talk(6)]
    view = hidden(messages, "m0", "m1", "m3")
    later = [*messages, HumanMessage("new", id="new")]
    assert ids(seen(later, view)) == ["s", "summary-1", "m2", "m4", "m5", "new"]
    assert ids(later) == ["s", *(f"m{n}" for n in range(6)), "new"]


def test_what_was_changed_since_is_seen_again() -> None:
    """A hidden message with another text, a shortened one with another original, and a message in front of all."""
    messages = talk(6)
    view = hidden(messages, "m0", "m1", clip={"m3": AIMessage("short", id="m3")})
    assert [message.text for message in seen(messages, view)] == [
        "what was said",
        "text 2",
        "short",
        "text 4",
        "text 5",
    ]
    edited = [m.model_copy(update={"content": "edited"}) if m.id in ("m1", "m3") else m for m in messages]
    assert [message.text for message in seen(edited, view)][:4] == ["what was said", "edited", "text 2", "edited"]
    front = [HumanMessage("in front", id="front"), *messages]
    assert ids(seen(front, view))[:3] == ["front", "summary-1", "m2"]


BLOCKS = [
    {"type": "compaction", "content": "what the provider says of it"},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "x9Q"},
    {"type": "non_standard", "value": {"type": "compaction", "content": "what the provider says of it"}},
]


@pytest.mark.parametrize("block", BLOCKS)
def test_nothing_before_a_providers_own_compaction_is_seen(block: dict[str, Any]) -> None:
    """Except system messages, and what is pinned, which follows the tool block with the compaction."""
    call = {"name": "read", "args": {}, "id": "c"}
    pin = HumanMessage("keep", id="pin", additional_kwargs={"compaction": {"pinned": True}})
    answer = AIMessage([block, {"type": "text", "text": "on"}], id="a", tool_calls=[call])
    messages = [SystemMessage("s", id="s"), pin, *talk(4), answer, ToolMessage("r", tool_call_id="c", id="r")]
    later = [*messages, HumanMessage("new", id="new")]
    assert ids(seen(later, None)) == ["s", "a", "r", "pin", "new"]
    assert ids(seen(later, None, pins=["m1"])) == ["s", "a", "r", "pin", "m1", "new"]
    assert ids(seen(later, hidden(messages[:6], "m0", "m1"))) == ["s", "a", "r", "pin", "new"]


def test_our_summary_stands_behind_a_providers_own_compaction() -> None:
    """In the place of what it hides; a failed compaction, without content, compacts nothing."""
    messages: list[AnyMessage] = [*talk(3), AIMessage([BLOCKS[0]], id="a"), *talk(9)[3:]]
    view = hidden(messages, "m3", "m4")
    assert ids(seen(messages, view)) == ["a", "summary-1", "m5", "m6", "m7", "m8"]
    failed = [
        m.model_copy(update={"content": [{**BLOCKS[0], "content": None}]}) if m.id == "a" else m for m in messages
    ]
    assert ids(seen(failed, None)) == ids(failed)
    assert ids(seen(failed, view)) == ["m0", "m1", "m2", "a", "summary-1", "m5", "m6", "m7", "m8"]


def test_a_call_that_was_changed_is_seen_with_its_result() -> None:
    """The model is not told that a call was interrupted whose result is hidden; other blocks stay hidden."""
    calls = [{"name": "f", "args": {}, "id": "c"}]
    blocks = [
        message
        for n in range(2)
        for message in (
            AIMessage("", id=f"call{n}", tool_calls=calls),
            ToolMessage("found", id=f"result{n}", tool_call_id="c"),
        )
    ]
    view = hidden([*blocks, *talk(2)], *ids(blocks))
    for changed_one in (blocks[0], blocks[1]):
        edited = changed_one.model_copy(update={"content": "edited"})
        now = [edited if one is changed_one else one for one in blocks]
        assert ids(seen([*now, *talk(2)], view)) == ["call0", "result0", "summary-1", "m0", "m1"]


def test_without_what_it_stands_for_the_summary_goes_too() -> None:
    """The application has deleted the messages that were summarized."""
    messages = talk(6)
    view = hidden(messages, "m0", "m1")
    assert ids(seen(messages[1:], view))[0] == "summary-1"
    assert ids(seen(messages[2:], view)) == ["m2", "m3", "m4", "m5"]


def test_a_later_view_keeps_what_the_earlier_one_hid() -> None:
    """The new summary takes the place of the earlier one."""
    messages = talk(8)
    first = hidden(messages[:6], "m0", "m1", clip={"m3": AIMessage("short", id="m3")})
    newer = SUMMARY.model_copy(update={"id": "summary-2"})
    second = changed(messages, first, source="2", drop=["summary-1", "m2"], summary=newer)
    assert ids(seen(messages, second)) == ["summary-2", "m3", "m4", "m5", "m6", "m7"]
    assert seen(messages, second)[1].text == "short"
    left = changed(messages, first, source="2", drop=["m4"])
    assert ids(seen(messages, left)) == ["summary-1", "m2", "m3", "m5", "m6", "m7"]


def test_nobody_else_writes_a_summary() -> None:
    """A message of the conversation that says it is one is an ordinary message."""
    (message,) = seen([SUMMARY], None)
    assert message.additional_kwargs == {}


@given(st.integers(1, 12), st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)), st.integers(0, 4))
def test_the_view_before_is_found_again(count: int, first: set[int], second: set[int], later: int) -> None:
    """From what the undone compaction began with, whatever was said since."""
    messages = talk(count)
    drop = [f"m{n}" for n in sorted(first) if n < count - 1]
    before = changed(messages, None, source="1", drop=drop, summary=SUMMARY if drop else None)
    shown = seen(messages, before)
    after = changed(messages, before, source="2", drop=[*(f"m{n}" for n in second), "summary-1"])
    grown = [*messages, *(HumanMessage(f"later {n}", id=f"later{n}") for n in range(later))]
    assert len(seen(grown, after)) <= len(shown) + later
    undone = view_before(grown, shown, source="1")
    assert ids(seen(grown, undone))[: len(shown)] == ids(shown)
    assert ids(seen(grown, undone))[len(shown) :] == [f"later{n}" for n in range(later)]


def test_the_line_of_a_refused_system_message_leaves_with_the_message() -> None:
    """What the model never saw is not seen in full once its line is summarized."""
    messages = [*talk(2), SystemMessage("too long", id="s"), *talk(4)[2:]]
    line = HumanMessage("not sent", id="s", additional_kwargs={"compaction": {"refused": True}})
    refused = changed(messages, None, source="", clip={"s": line})
    view = changed(messages, refused, source="1", drop=["m0", "m1", "s"], summary=SUMMARY)
    assert ids(seen(messages, view)) == ["summary-1", "m2", "m3"]


def test_an_answer_is_bound_to_what_stands_before_it_alone() -> None:
    """A hidden command, or another mark, leaves the thinking before it; a hidden question ends it after it."""
    thought = AIMessage([{"type": "thinking", "thinking": "hm", "signature": "s"}], id="m1")
    messages = [HumanMessage("text 0", id="m0"), thought, HumanMessage("/compact", id="m2")]
    marked = messages[0].model_copy(update={"additional_kwargs": {"compaction": {"unpinned": True}}})
    view = changed(messages, None, source="", drop=["m2"], clip={"m0": marked})
    assert seen(messages, view) == [marked, thought]
    assert seen(messages, changed(messages, view, source="", drop=["m0"])) != [thought]


def test_a_view_that_came_back_as_json_is_read_and_anything_else_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """LangGraph's server writes bytes as base64; a client may write anything into the channel."""
    said: list[AnyMessage] = [HumanMessage(f"text {number}", id=f"m{number}") for number in range(4)]
    short = HumanMessage("te...", id="m2")
    summary = HumanMessage("what was said", id="s")
    view = changed(said, None, source="c", drop=["m0", "m1"], clip={"m2": short}, summary=summary)
    told = json.loads(json.dumps({**view, "hidden": b64encode(view["hidden"]).decode()}, default=as_json))
    assert ids(seen(said, read_view(told))) == ids(seen(said, view)) == ["s", "m2", "m3"]
    assert seen(said, read_view(told))[1].text == "te..."
    assert (read_view(told) or {}).get("place") == view["place"] != b""
    wrong: list[Any] = ["text", {"hidden": b""}, *({**view, key: 3} for key in ("hidden", "summary", "shortened"))]
    for value in wrong:
        assert read_view(value) is None
    assert len(caplog.records) == 5


def as_json(value: Any) -> Any:
    """What a server makes of bytes and of messages."""
    return b64encode(value).decode() if isinstance(value, bytes) else value.model_dump()


def test_a_summary_stands_in_the_place_of_what_it_covers() -> None:
    """Not in that of what an earlier compaction hid without a summary; an undo's view has it there, too."""
    said = talk(8)
    first = changed(said, None, source="1", drop=["m0"])
    view = changed(said, first, source="2", drop=["m3", "m4"], summary=SUMMARY)
    shown = seen(said, view)
    assert ids(shown) == ["m1", "m2", "summary-1", "m5", "m6", "m7"]
    again = view_before(said, shown, source="3")
    assert ids(seen(said, again)) == ids(shown)
    third = changed(said, view, source="4", drop=["summary-1", "m5"], summary=SUMMARY.model_copy(update={"id": "s2"}))
    assert ids(seen(said, third)) == ["m1", "m2", "s2", "m6", "m7"]
    assert movable(said, third, 0) == ["m0", "m4", "m5"]


def test_a_summary_replaces_another_where_that_one_stood() -> None:
    """Also if the hidden message in whose place it stood was deleted or changed since, and others are left."""
    said = talk(8)
    view = hidden(said, "m0", "m2")
    left = said[1:]
    assert ids(seen(left, view)) == ["m1", "summary-1", "m3", "m4", "m5", "m6", "m7"]
    next_one = SUMMARY.model_copy(update={"id": "summary-2"})
    again = changed(left, view, source="2", drop=["summary-1", "m5"], summary=next_one)
    assert ids(seen(left, again)) == ["m1", "summary-2", "m3", "m4", "m6", "m7"]


def test_a_conversation_that_was_deleted_takes_the_summary_with_it() -> None:
    """What has moved to the archive counts as left until the newest message of then is deleted, too."""
    messages = talk(8)
    view = View({**hidden(messages, "m0", "m1", "m2", "m3"), "moved": 2})
    assert movable(messages, view, 0) == ["m1", "m2", "m3"]
    assert ids(seen(messages[5:], view)) == ["summary-1", "m5", "m6", "m7"]
    assert ids(seen([HumanMessage("new", id="new")], view)) == ["new"]
    assert movable(messages, hidden(messages, *ids(messages)), 0) == [f"m{n}" for n in range(1, 7)]


def test_an_answer_is_bound_to_nothing_where_the_newest_message_was_taken_back() -> None:
    """A question that is asked anew does not bring back thinking that was signed on another history."""
    thought = AIMessage([{"type": "thinking", "thinking": "hm", "signature": "s"}], id="m3")
    messages = [*talk(3), thought, HumanMessage("text 4", id="m4")]
    view = hidden(messages, "m0", "m1")
    again = [*messages[:-1], HumanMessage("asked anew", id="new")]
    assert seen(again, view)[2] == seen(messages, view)[2] != thought


def test_a_number_that_a_client_writes_in_another_way_is_the_same() -> None:
    """JavaScript sends 1.0 back as 1, and the message stays hidden."""
    calls = [{"name": "f", "args": {"x": number}, "id": "c"} for number in (1.0, 1)]
    first, second = [*([AIMessage("", id="m0", tool_calls=[call]), *talk(3)[1:]] for call in calls)]
    assert ids(seen(second, hidden(first, "m0"))) == ["summary-1", "m1", "m2"]


def test_a_pinned_answer_is_seen_behind_a_providers_compaction_without_its_bound_thinking() -> None:
    """The thinking was signed on the history before the compaction, which is not sent."""
    call = {"name": "read", "args": {}, "id": "c"}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "x9Q"}
    answer = AIMessage([thinking], id="p", tool_calls=[call], response_metadata={"model_name": "claude-opus-5-5"})
    block = AIMessage([BLOCKS[0], thinking], id="a", response_metadata={"model_name": "claude-opus-5-5"})
    shown = seen([*talk(2), answer, ToolMessage("r", tool_call_id="c", id="r"), block, *talk(1)], None, ["r"])
    assert ids(shown) == ["a", "p", "r", "m0"]
    assert thinking in render(shown)[0].content
    assert "thinking" not in str(render(shown)[1].content)
