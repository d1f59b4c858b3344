import pytest

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.selection.strategies.dialogue_rounds_floor import Plan, plans


def test_the_plans_give_up_the_floor_last() -> None:
    """Five blocks and twelve rounds; then fewer blocks, then shorter fields, then fewer rounds, by halves."""
    found = list(plans(CompactionSettings(tool_blocks_keep_unread=False)))
    assert found[:5] == [Plan(12, 5, 5), Plan(12, 0, 5), Plan(12, 0, 2), Plan(12, 0, 1), Plan(12, 0, 1, tight=True)]
    assert list(dict.fromkeys(plan.floor for plan in found)) == [12, 6, 3, 1]
    assert found[-1] == Plan(1, 0, 1, tight=True)
    assert len(set(found)) == len(found)
    spared = list(plans(CompactionSettings()))
    assert spared == [Plan(12, 5, 5, spare=True), Plan(12, 0, 5, spare=True), *found]


@pytest.mark.parametrize(("floor", "floors"), [(0, [0]), (1, [1]), (2, [2, 1]), (7, [7, 3, 1])])
def test_a_smaller_floor_yields_by_halves_too(floor: int, floors: list[int]) -> None:
    """Down to one round, or none where none was asked for."""
    found = plans(CompactionSettings(dialogue_rounds_keep_min=floor))
    assert list(dict.fromkeys(plan.floor for plan in found)) == floors


def test_no_block_is_kept_where_none_is_asked_for() -> None:
    """Zero blocks stay zero in every plan."""
    assert {plan.blocks for plan in plans(CompactionSettings(tool_blocks_keep_recent=0))} == {0}


def test_a_summary_of_all_keeps_neither_rounds_nor_blocks() -> None:
    """With the scope `all`, the plans differ only in the results that the model has not read, and in cut fields."""
    found = list(plans(CompactionSettings(summary_scope="all")))
    assert found == [Plan(0, 0, 0, spare=True), Plan(0, 0, 0), Plan(0, 0, 0, tight=True)]
