"""The last chunk stays, each earlier one is summarized by itself."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.histories import asks, result, text_rounds
from tests.nodes.selection.strategies.selecting import dropped, selected, talk

LITERAL: dict[str, Any] = {"incremental_chunk_unit": "message", "incremental_chunk_from": "start"}


def sizes(messages: list[AnyMessage], **chosen: Any) -> list[int]:
    """Return how many messages each section holds."""
    found = selected("incremental", messages, **chosen)
    return [] if found is None else [len(part) for part in found.sections]


@pytest.mark.parametrize(
    ("count", "chunks", "left"), [(40, [], 40), (41, [20, 20], 1), (60, [20, 20], 20), (61, [20, 20, 20], 1)]
)
def test_the_golden_vectors(count: int, chunks: list[int], left: int) -> None:
    """Chunks of 20 messages from the start."""
    messages = talk(count)
    assert sizes(messages, **LITERAL) == chunks
    assert count - len(dropped("incremental", messages, **LITERAL)) == left


@pytest.mark.parametrize(
    ("turns", "chunks"), [(40, []), (41, [2, 40]), (59, [38, 40]), (60, [40, 40]), (61, [2, 40, 40])]
)
def test_turns_from_the_end_leave_a_full_chunk(turns: int, chunks: list[int]) -> None:
    """Twenty turns of two messages stay, whatever the number."""
    messages = text_rounds(turns)
    assert sizes(messages) == chunks
    assert len(messages) - len(dropped("incremental", messages)) == (40 if chunks else 2 * turns)


def test_other_chunks() -> None:
    """Of two turns, whatever a turn holds; what stands before the first user message belongs to the first."""
    turn = [HumanMessage("q"), asks("a", "b"), result("a"), result("b"), AIMessage("so")]
    messages: list[AnyMessage] = [SystemMessage("s"), AIMessage("hello"), *turn * 5]
    assert sizes(messages, incremental_summary_chunk_size=2) == [6, 10]
    assert dropped("incremental", messages, incremental_summary_chunk_size=2) == list(range(1, 17))
    assert sizes(messages, incremental_summary_chunk_size=3) == []


def test_the_sections_are_what_leaves_in_order() -> None:
    """The earlier summary is in the first; a block over an edge stays whole."""
    messages: list[AnyMessage] = [summary_message("before", "c"), *text_rounds(1), *text_rounds(6)]
    found = selected("incremental", messages, incremental_summary_chunk_size=2)
    assert found is not None
    assert found.summarize is True
    assert [sorted(part) for part in found.sections] == [[0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10]]
    messages = [*talk(3)[1:], asks("a"), result("a"), *talk(3)[1:]]
    literal = {**LITERAL, "incremental_summary_chunk_size": 2}
    assert dropped("incremental", messages, **literal) == [0, 1, 2, 3, 4, 5]
    assert sizes(messages, **literal) == [2, 2, 2]
    messages = [*talk(4)[1:], AIMessage("so"), asks("a"), result("a")]
    assert dropped("incremental", messages, **{**literal, "incremental_summary_chunk_size": 3}) == [0, 1, 2, 3, 4]
