"""When a choice of the strategy is small enough for none of the shorter ones to be tried."""

import pytest

from langgraph_compaction.nodes.runtime.engine import demand
from langgraph_compaction.nodes.selection.strategies.tool_blocks import tool_blocks
from tests.histories import numbered, text_rounds
from tests.nodes.runtime.test_engine import call


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
