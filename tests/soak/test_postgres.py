"""The judge of the soak on PostgreSQL sees each defect that it looks for."""

from typing import Any

import pytest

from benchmarks.acknowledged_inputs import answer, given
from tests.soak.postgres import judge

NAMES = [f"t1.0-{at}" for at in (10, 20, 30)]
DONE = dict(zip(NAMES, (15, 25, 35), strict=True))


def turn(name: str) -> list[Any]:
    """Return an input and its answer."""
    messages = given(name)["messages"]
    return [*messages, answer(messages)]


FIRST, SECOND, THIRD = map(turn, NAMES)
DEFECTS: dict[str, tuple[list[Any], dict[str, int]]] = {
    "whole": ([*FIRST, *SECOND, *THIRD], {}),
    "one that was not acknowledged": ([*FIRST, *SECOND, *THIRD, *turn("t1.1-40")[:1]], {}),
    "dropped": ([*FIRST, *THIRD], {"lost": 1}),
    "dropped, and not replicated": ([*FIRST, *SECOND], {"not replicated": 1}),
    "without its answer": ([*FIRST, SECOND[0], *THIRD], {"unanswered": 1}),
    "in another order": ([*SECOND, *FIRST, *THIRD], {"out of order": 1}),
    "of another conversation": ([*FIRST, *turn("t2.0-17"), *SECOND, *THIRD], {"mixed": 2}),
    "twice": ([*FIRST, *SECOND, *THIRD, *THIRD], {"mixed": 1}),
    "with the text of another": (
        [*FIRST, *SECOND, THIRD[0].model_copy(update={"content": SECOND[0].content}), THIRD[1]],
        {"mixed": 1},
    ),
}


@pytest.mark.parametrize("case", DEFECTS)
def test_the_judge_sees(case: str) -> None:
    """What is missing, moved, foreign or there twice; what was written between 30 and 40 was not replicated."""
    messages, wrong = DEFECTS[case]
    assert +judge("t1", messages, DONE, [(30, 40)]) == wrong
