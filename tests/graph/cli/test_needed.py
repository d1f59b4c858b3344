"""What calls needed of what was said before, and whether it was still there."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.graph.lab.replay.needed_values import Needed


def calls(*values: str) -> AIMessage:
    """A message with a call that has these arguments."""
    args = {f"a{number}": {"value": [value]} for number, value in enumerate(values)}
    return AIMessage("", tool_calls=[{"name": "book", "args": args, "id": "c"}])


SAID: list[AnyMessage] = [
    SystemMessage("The desk is DESK-1."),
    HumanMessage("Book flight HAT-042 for user-77."),
    calls("HAT-042", "user-77", "DESK-1", "NEW-9", "please"),
    ToolMessage("reserved as RES-500", tool_call_id="c"),
    calls("RES-500", "HAT-042"),
]


def test_identifiers_that_were_said_and_are_in_a_call_are_needed() -> None:
    """Neither what the system prompt says, nor what the call itself brings, nor a word."""
    seen = Needed(SAID)
    seen.look(SAID[:2], 2)
    assert (seen.needed, seen.kept) == (2, 2)
    seen.look(SAID[:4], 4)
    assert (seen.needed, seen.kept) == (4, 4)


@pytest.mark.parametrize(
    ("request_text", "kept"),
    [("RES-500 and HAT-042", 2), ("RES-500", 1), ("RES-5001, XHAT-042", 0), ("", 0)],
)
def test_what_the_request_has_no_longer_is_not_kept(request_text: str, kept: int) -> None:
    """An identifier counts whole."""
    seen = Needed(SAID)
    seen.look([HumanMessage(request_text)], 4)
    assert (seen.needed, seen.kept) == (2, kept)


def test_an_answer_without_calls_needs_nothing() -> None:
    """And neither does a turn that nobody answered."""
    seen = Needed([HumanMessage("HAT-042?"), AIMessage("HAT-042.")])
    seen.look([], 1)
    seen.look([], 2)
    assert (seen.needed, seen.kept) == (0, 0)
