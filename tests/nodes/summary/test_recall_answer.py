"""The answer of `recall`: which parts of the found messages it shows within its tokens."""

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.compaction.recall_search import SearchHit
from langgraph_compaction.checkpoint.messages.message_codec import (
    handle,
)
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.summary.recall_answer import GAP, NOTHING, answer

COUNTER = tiktoken_counter()


def found(*messages: BaseMessage, compaction: str = "0123456789abcdef") -> list[SearchHit]:
    """Return messages as a search finds them."""
    return [
        SearchHit(message=one, handle=handle(one), compaction_id=compaction, archived_at=60.0, score=1.0)
        for one in messages
    ]


def long(number: int, words: int = 400) -> HumanMessage:
    """Return a message of many words."""
    return HumanMessage(f"note {number}: " + " ".join(f"w{number}-{n}" for n in range(words)), id=f"m{number}")


def test_where_a_message_left_the_view_is_said_once() -> None:
    """Over the first of each compaction; each has its handle, its role and its name."""
    first, second = HumanMessage("one", id="a"), ToolMessage("two", tool_call_id="t", name="read", id="b")
    third = HumanMessage("three", id="c")
    shown = answer(
        [*found(first, second), *found(third, compaction="f" * 16)], "one", max_tokens=200, counter=COUNTER
    )
    assert shown.splitlines() == [
        f"[{handle(first)} human, left the view 1970-01-01 00:01 in compaction 0123456789abcdef]",
        "one",
        f"[{handle(second)} tool read]",
        "two",
        f"[{handle(third)} human, left the view 1970-01-01 00:01 in compaction {'f' * 16}]",
        "three",
    ]


@pytest.mark.parametrize("most", [60, 120, 300, 1_000])
@pytest.mark.parametrize("query", ["", "w7-5", "note w3-399"])
def test_an_answer_is_never_larger_than_it_may_be(most: int, query: str) -> None:
    """The answer stays within its tokens for any messages and any query."""
    for messages in ([long(0)], [long(n) for n in range(9)], [long(n, 3) for n in range(40)]):
        assert COUNTER.text(answer(found(*messages), query, max_tokens=most, counter=COUNTER)) <= most


def test_of_a_whole_compaction_many_beginnings_are_shown() -> None:
    """Without a query each message shows its beginning and its handle, and a line says how many did not fit."""
    messages = [long(n) for n in range(30)]
    shown = answer(found(*messages), "", max_tokens=1_000, counter=COUNTER)
    heads = [one for one in messages if f"[{handle(one)} human" in shown]
    assert len(heads) >= 8
    assert heads == messages[: len(heads)]
    assert all(f"note {n}: w{n}-0" in shown for n in range(len(heads)))
    assert shown.splitlines()[-1].startswith(f"[{30 - len(heads)} more messages")
    few = answer(found(*messages[:3]), "", max_tokens=1_000, counter=COUNTER)
    assert "more messages" not in few
    assert all(f"note {n}: w{n}-0" in few for n in range(3))
    assert "more messages" not in answer(found(long(0)), "", max_tokens=18, counter=COUNTER)
    assert answer([], "TUL-777", max_tokens=200, counter=COUNTER) == NOTHING


def test_a_mark_stands_where_lines_are_left_out() -> None:
    """Neighboring lines follow each other directly, and the first line of a message has no mark before it."""
    lines = [f"line {n} has nothing to say to anybody who reads it" for n in range(60)]
    for place in (0, 20, 21, 40):
        lines[place] = f"the zebra number {place} was painted and sent to the harbor of Antwerp"
    shown = answer(
        found(HumanMessage("\n".join(lines), id="a")), "zebra painted harbor Antwerp", max_tokens=125, counter=COUNTER
    )
    told = [line for line in shown.splitlines()[1:] if line.strip() and not line.startswith("line ")]
    assert told == [lines[0], GAP, lines[20], lines[21], GAP, lines[40]]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("when did TUL-777 arrive?", "[None of these messages contains TUL-777.]"),
        ("TUL-777 or TUL-888?", "[None of these messages contains TUL-777 or TUL-888.]"),
        ("TUL-777 or tul-003?", "[None of these messages contains TUL-777.]"),
        ("when did TUL-003 arrive?", ""),
        ("when did the tulips arrive?", ""),
        ("A-11 B-22 C-33 D-44", "[None of these messages contains A-11 or B-22 or C-33.]"),
    ],
)
def test_an_identifier_that_no_message_contains_is_named(query: str, named: str) -> None:
    """A search also finds a part of an identifier, and the reader has to know that it is another one."""
    messages = found(HumanMessage("TUL-003 came", id="a"), HumanMessage("tulips came", id="b"))
    shown = answer(messages, query, max_tokens=200, counter=COUNTER)
    begin = shown.splitlines()[0]
    assert begin == named if named else begin.startswith(f"[{messages[0].handle[:12]}")
    assert COUNTER.text(shown) <= 200


def test_a_part_is_found_by_the_singular_of_its_word() -> None:
    """As a message is."""
    text = "\n".join(
        [*(f"line {n} of nothing at all" for n in range(80)), "the reservations are ZK-4471", "end " * 90]
    )
    shown = answer(found(HumanMessage(text, id="a")), "reservation", max_tokens=120, counter=COUNTER)
    assert "ZK-4471" in shown
