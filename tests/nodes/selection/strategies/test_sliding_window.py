"""The newest messages stay, the earlier ones become a summary."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.histories import asks, meta, numbered, result
from tests.nodes.selection.strategies.selecting import dropped, selected, selector, talk


@pytest.mark.parametrize(("count", "compressed"), [(8, 0), (18, 0), (19, 0), (20, 11), (21, 11), (22, 13)])
def test_the_newest_nine_stay_from_nineteen_messages_on(count: int, compressed: int) -> None:
    """The golden vectors; neither system messages nor the question that a talk of an odd number ends with count."""
    assert dropped("sliding_window", talk(count)) == list(range(1, compressed + 1))


def test_of_a_talk_that_ends_with_an_answer_four_and_five_stay() -> None:
    """Four of the person, five of the model."""
    messages = talk(20)
    left = [m for i, m in enumerate(messages) if i not in dropped("sliding_window", messages)]
    kinds = [type(message) for message in left]
    assert (kinds.count(HumanMessage), kinds.count(AIMessage), kinds.count(SystemMessage)) == (4, 5, 1)


QUOTA: list[tuple[Sequence[AnyMessage], dict[str, Any], list[int]]] = [
    (talk(18), {}, []),
    (talk(19), {}, []),
    (talk(20), {}, [*range(1, 12)]),
    (talk(21), {}, [*range(1, 12)]),
    (talk(8), {"sliding_window_size": 3}, [1, 2, 3, 4, 5]),
    (talk(9), {"sliding_window_size": 3}, [1, 2, 3, 4, 5]),
    (talk(10), {"sliding_window_size": 4}, [1, 2, 3, 4, 5, 6]),
    (talk(4), {"sliding_window_size": 1}, [1, 2, 3]),
    ([*talk(17), asks(*"abc"), *map(result, "abc"), HumanMessage("so")], {}, [*range(1, 10), 11, 13, 15]),
    ([*talk(17), asks(*"abcde"), *map(result, "abcde"), HumanMessage("so")], {}, [*range(1, 10), 11, 13, 15, 17]),
    ([summary_message("before", "c"), *[AIMessage("so")] * 19], {}, [*range(15)]),
]
"""What leaves by the quota: of nine, all but the newest five of the model and four of all others."""


@pytest.mark.parametrize(("messages", "options", "left"), QUOTA)
def test_by_the_quota_five_of_the_model_and_four_others_stay(
    messages: Sequence[AnyMessage], options: dict[str, Any], left: list[int]
) -> None:
    """However the talk ends; parallel results take the user's places, whole blocks stay, a summary is nobody's."""
    assert dropped("sliding_window", messages, sliding_window_quota=True, **options) == left


def test_what_leaves_is_summarized() -> None:
    """All of it, as one."""
    found = selected("sliding_window", talk(20))
    assert found is not None
    assert (found.summarize, found.sections) == (True, ())


@pytest.mark.parametrize(
    ("size", "count", "compressed"), [(3, 6, 0), (3, 7, 0), (3, 8, 5), (1, 2, 0), (1, 3, 0), (1, 4, 3)]
)
def test_another_window(size: int, count: int, compressed: int) -> None:
    """Not for up to twice the window."""
    assert len(dropped("sliding_window", talk(count), sliding_window_size=size)) == compressed


def test_a_block_at_the_edge_stays_whole() -> None:
    """With its call and all of its results."""
    block = [asks("a", "b", "c"), result("a"), result("b"), result("c")]
    messages = [*talk(12)[1:], *block, *talk(8)[1:]]
    assert dropped("sliding_window", messages) == list(range(12))
    messages = [*talk(12)[1:], *block, *talk(10)[1:]]
    assert dropped("sliding_window", messages) == list(range(17))


def test_system_messages_stay_wherever_they_stand() -> None:
    """And the newest user message, while it is unanswered."""
    messages = [*talk(12)[1:], SystemMessage("rules"), *talk(9)]
    assert dropped("sliding_window", messages) == list(range(11))
    waiting = [*talk(10)[1:], HumanMessage("the question"), *[asks("a"), result("a")] * 6]
    assert 10 not in dropped("sliding_window", numbered(waiting))


def test_a_message_between_a_call_and_its_result_is_no_part_of_the_block() -> None:
    """It leaves by its own age."""
    messages = [*talk(12)[1:], asks("a"), meta("note"), result("a"), *talk(8)[1:]]
    found = dropped("sliding_window", messages)
    assert found == [*range(12), 13]
    assert selector(messages).view.blocks[0].indexes == (12, 14)
