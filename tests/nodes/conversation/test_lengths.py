"""The lengths of messages, and the outlines that are made of them."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.nodes.conversation.lengths import length_of, outlines


def _call(arguments: dict[str, Any]) -> AIMessage:
    return AIMessage("", id="a", tool_calls=[{"name": "write", "args": arguments, "id": "c"}])


def _invalid(arguments: str) -> AIMessage:
    call = {"type": "invalid_tool_call", "name": "write", "args": arguments, "id": "c", "error": "no JSON"}
    return AIMessage("", id="a", invalid_tool_calls=[call])


LENGTHS: dict[str, tuple[AnyMessage, int]] = {
    "no text": (HumanMessage(""), 0),
    "a text": (HumanMessage("hello"), 5),
    "blocks": (HumanMessage([{"type": "text", "text": "hello"}, "you"]), 4 + 5 + 3),
    "a call": (AIMessage("hi", tool_calls=_call({"text": "x" * 9}).tool_calls), 2 + 9),
    "arguments that are no JSON": (_invalid("{" * 9), 9),
    "numbers": (_call({"amount": 1_000, "rate": -2.5, "paid": True, "by": None}), 4 + 4 + 4),
    "bytes": (HumanMessage([{"type": "image", "data": b"0" * 5_000}]), 5 + 100),
    "more values than are read": (_call({"rows": [1] * 100_000}), 99_998),
}


@pytest.mark.parametrize("case", LENGTHS)
def test_the_length_is_that_of_the_texts_and_numbers(case: str) -> None:
    """The length of a message includes 100 characters for the message and for each value of another type."""
    message, length = LENGTHS[case]
    assert length_of(message) == 100 + length


REWRITTEN = {
    "a text": (_call({"text": "x"}), _call({"text": "x" * 99})),
    "in a list of lists": (_call({"rows": [["a"]]}), _call({"rows": [["a" * 99]]})),
    "arguments that are no JSON": (_invalid("{"), _invalid("{" * 99)),
}


@pytest.mark.parametrize("case", REWRITTEN)
def test_another_outline_tells_that_arguments_were_rewritten(case: str) -> None:
    """However deep the rewritten value is."""
    before, after = ([HumanMessage("hi", id="h"), message] for message in REWRITTEN[case])
    assert outlines(before, 1)[0] == outlines(after, 1)[0]
    assert outlines(before, 1)[1] != outlines(after, 1)[1]
