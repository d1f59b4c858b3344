"""When a choice of the strategy is small enough for none of the shorter ones to be tried."""

from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, AnyMessage

from langgraph_compaction.nodes.runtime.engine import demand
from langgraph_compaction.nodes.selection.strategies.tool_blocks import shrunk, tool_blocks
from tests.histories import asks, numbered, result, text_rounds, user
from tests.histories import tool_blocks as blocks_of
from tests.nodes.runtime.test_engine import call
from tests.nodes.selection.strategies.selecting import ANYTHING, selector


def test_with_fewer_rounds_than_configured_the_aim_is_to_be_reached() -> None:
    """While all twelve rounds stay, a result some way below the ceiling is enough."""
    small = call()
    goal = demand(small, trigger="precheck", before=9_000, last=False)
    assert goal.aim < goal.roomy < goal.ceiling
    tried = [(choice.floor, choice.enough) for choice in tool_blocks(small.selector(numbered(text_rounds(20))), goal)]
    assert set(tried) == {(floor, goal.roomy if floor == 12 else goal.aim) for floor, _ in tried}
    assert [floor for floor, _ in tried] == sorted((floor for floor, _ in tried), reverse=True)
    assert tried[-1][0] < 12


@pytest.mark.parametrize(
    ("blocks", "kept"), [(5, [5, 2, 1, 1, 0]), (2, [2, 1, 1, 0]), (1, [1, 1, 0]), (0, [0, 0, 0])]
)
def test_a_round_that_does_not_fit_keeps_ever_fewer_blocks(blocks: int, kept: list[int]) -> None:
    """The newest round's question and answer stay until nothing but what must stay is left."""
    chooser = selector(
        [*text_rounds(2), user("go"), *blocks_of(6), AIMessage("done")], tool_blocks_keep_recent=blocks
    )
    found = [chooser.resolve(ANYTHING, choice) for choice in shrunk(chooser, ANYTHING)]
    assert [one.counts.blocks_kept for one in found] == kept
    assert [one.floor for one in found] == [1] * (len(kept) - 1) + [0]
    assert [{4, 17} <= one.drop for one in found] == [False] * (len(kept) - 1) + [True]


def test_fields_are_cut_to_the_aim_before_the_newest_round_goes() -> None:
    """The first choices keep the newest block. The last choice keeps only the results that the model has not read."""
    goal = replace(ANYTHING, aim=100)
    read: list[AnyMessage] = [user("go"), asks("a"), result("a", "w " * 900), AIMessage("done")]
    chooser = selector([*text_rounds(2), *read])
    *_, large, cut, rest = (chooser.resolve(goal, choice) for choice in shrunk(chooser, goal))
    assert (large.drop, cut.drop) == (frozenset(range(4)), frozenset(range(4)))
    assert large.tokens > cut.tokens == 100
    assert rest.drop == frozenset(range(8))
    chooser = selector([*text_rounds(2), *read[:3], AIMessage("say " * 100), asks("b"), result("b", "w " * 900)])
    *_, rest = (chooser.resolve(goal, choice) for choice in shrunk(chooser, goal))
    assert (rest.drop, rest.tokens) == (frozenset(range(8)), 100)
