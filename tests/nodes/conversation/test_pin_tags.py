from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.nodes.conversation.message_marks import MARK
from langgraph_compaction.nodes.conversation.pin_tags import leaves_pin_open, pinned_texts, pins_in, without_pin
from tests.fakes import summary_message
from tests.graph.harness import WORDS
from tests.histories import asks, meta, user

PINNED = "<Pin>keep this</Pin>"


def pins(*messages: AnyMessage, most: int = 100) -> tuple[str, ...]:
    """The pinned texts of a conversation."""
    return pinned_texts(messages, most, WORDS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (PINNED, ["keep this"]),
        ("<Pin>不要周一的航班</Pin>", ["不要周一的航班"]),
        ("a <Pin>first</Pin> b <Pin>second</Pin>", ["first", "second"]),
        ("<Pin>\n two\n lines \n</Pin>", ["two\n lines"]),
        ("<Pin>a <Pin>b</Pin>", ["a <Pin>b"]),
        ("<Pin> </Pin><Pin></Pin>", []),
        ("<Pin>not closed", ["not closed"]),
        ("<Pin>\nnot closed\nover lines", ["not closed\nover lines"]),
        ("<Pin>", []),
        ("```\n<Pin>not closed\n```\nwords", []),
        ("> <Pin>not closed\n\nwords", []),
        ("what does `<Pin>` do?", []),
        ("not opened</Pin>", []),
        ("&lt;Pin&gt;escaped&lt;/Pin&gt;", []),
        (f"```\n{PINNED}\n```", []),
        (f"```xml\n{PINNED}", []),
        (f"said:\r\n > {PINNED}\r\nthat", []),
        (f"```\ncode\n```\n{PINNED}", ["keep this"]),
        (f"````\n```\n{PINNED}\n```\n````", []),
        (f"~~~\n{PINNED}\n~~~", []),
        (f"what does `{PINNED}` do?", []),
        ("<Pin>run `make </Pin>` now</Pin>", ["run `make </Pin>` now"]),
        ("<Pin>run\n```\n</Pin>\n```\nnow</Pin>", ["run\n```\n</Pin>\n```\nnow"]),
        (f"```\ncode\n```> {PINNED}", []),
    ],
)
def test_a_user_pins_in_their_own_words(text: str, found: list[str]) -> None:
    """Between the tags or from the tag on, in either case, over lines; not in code and not in quoted lines."""
    assert pins_in(user(text)) == found


@pytest.mark.parametrize(
    "message",
    [
        AIMessage(PINNED),
        ToolMessage(PINNED, tool_call_id="a"),
        ToolMessage("<Pin>not closed", tool_call_id="a"),
        AIMessage("<Pin>not closed"),
        SystemMessage(PINNED),
        meta(PINNED),
        asks("a", note=PINNED),
        summary_message(PINNED, "c"),
        summary_message("text", "c", {"v": 1, "note": PINNED}),
    ],
)
def test_nobody_else_pins(message: AnyMessage) -> None:
    """Assistant, tools, system prompt, meta messages and the text of a summary pin nothing."""
    assert pins_in(message) == []


def test_an_earlier_summary_carries_its_pins_on() -> None:
    """They stand in its marks; a pin that is repeated is kept once, oldest first."""
    earlier = summary_message("text", "c", pins=["first", "second"])
    assert pins(earlier, user("<Pin>third</Pin> <Pin>first</Pin>")) == ("first", "second", "third")


def test_text_in_blocks_is_read_block_by_block() -> None:
    """A pin begins and ends inside what was said together, whatever stands between the blocks."""
    blocks: list[str | dict[str, Any]] = [
        {"type": "text", "text": "<Pin>in a block</Pin>"},
        {"type": "text", "text": "```\nopen"},
        {"type": "text", "text": "<Pin>in another</Pin>"},
    ]
    assert pins_in(HumanMessage(blocks)) == ["in a block", "in another"]


@pytest.mark.parametrize(("most", "kept"), [(0, ()), (1, ("d",)), (2, ("a b",)), (6, ("a b", "c c c", "d"))])
def test_pins_are_bounded(most: int, kept: Sequence[str]) -> None:
    """What does not fit beside the older ones is no pin; a shorter one behind it may be."""
    assert pins(user("<Pin>a b</Pin><Pin>c c c</Pin>"), user("<Pin>d</Pin>"), most=most) == kept


def test_a_text_is_released_where_it_is_pinned() -> None:
    """The message's words stay; only what counts as pinned changes, and what else is marked stays."""
    said = user("a <Pin>one</Pin> b <Pin>two</Pin>")
    once = without_pin(said, "one")
    assert (pins_in(once), pins_in(without_pin(once, "two")), once.text) == (["two"], [], said.text)
    carried = summary_message("text", "c", pins=["one", "two"])
    left = without_pin(carried, "one")
    assert pins_in(left) == ["two"]
    assert left.additional_kwargs[MARK] == {**carried.additional_kwargs[MARK], "pins": ["two"]}
    assert pins_in(carried) == ["one", "two"]


@pytest.mark.parametrize(
    ("message", "is_open"),
    [
        (user("<Pin>a"), True),
        (user("<Pin>a</Pin>"), False),
        (user("<Pin>a</Pin> <Pin> "), False),
        (user("`<Pin>` a"), False),
        (AIMessage("<Pin>a"), False),
        (meta("<Pin>a"), False),
    ],
)
def test_a_pin_without_an_end_is_noticed(message: AnyMessage, *, is_open: bool) -> None:
    """Only an open tag of a user with text after it counts."""
    assert leaves_pin_open(message) is is_open
