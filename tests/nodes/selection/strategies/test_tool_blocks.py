"""When a choice of the strategy is small enough for none of the shorter ones to be tried."""

import pytest
from langchain_core.messages import AIMessage

from langgraph_compaction.nodes.runtime.engine import demand
from langgraph_compaction.nodes.selection.strategies.tool_blocks import shrunk, tool_blocks
from tests.histories import numbered, text_rounds, user
from tests.histories import tool_blocks as blocks_of
from tests.nodes.runtime.test_engine import call
from tests.nodes.selection.strategies.selecting import ANYTHING, selector


@pytest.mark.requirement("S0.18")
def test_with_fewer_rounds_than_configured_the_aim_is_to_be_reached() -> None:
    """While all twelve rounds stay, a result some way below the ceiling is enough."""
    small = call()
    goal = demand(small, trigger="precheck", before=9_000, last=False)
    assert goal.aim < goal.roomy < goal.ceiling
    tried = [(choice.floor, choice.enough) for choice in tool_blocks(small.selector(numbered(text_rounds(20))), goal)]
    assert set(tried) == {(floor, goal.roomy if floor == 12 else goal.aim) for floor, _ in tried}
    assert [floor for floor, _ in tried] == sorted((floor for floor, _ in tried), reverse=True)
    assert tried[-1][0] < 12


@pytest.mark.requirement("S4.40")
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
