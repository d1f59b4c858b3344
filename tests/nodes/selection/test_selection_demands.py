from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter, total
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.selection.selector import Demand, Selection, Selector
from langgraph_compaction.nodes.selection.strategies.tool_blocks import Plan, plans
from langgraph_compaction.nodes.selection.strategy_chain import choose
from tests.histories import (
    asks,
    numbered,
    result,
    text_rounds,
    tool_blocks,
    user,
)

COUNTER = tiktoken_counter()
ANYTHING = Demand(before=10**9, ceiling=10**9, aim=10**9, summary=0)
"""A demand that the most generous plan meets."""


def selector(messages: Sequence[AnyMessage], pins: tuple[str, ...] = (), **chosen: Any) -> Selector:
    """Return the selector of a conversation with these settings."""
    view = Transcript(numbered(messages))
    return Selector(view, CompactionSettings.model_validate(chosen), Meter(COUNTER, 0), frozenset(pins))


def selected(messages: Sequence[AnyMessage], demand: Demand = ANYTHING, **chosen: Any) -> Selection:
    """Return what the selector chooses."""
    found = choose(selector(messages, **chosen), demand)
    assert found is not None
    return found


def demand(ceiling: int, aim: int | None = None, summary: int = 50) -> Demand:
    """Return a demand."""
    return Demand(before=10**6, ceiling=ceiling, aim=ceiling if aim is None else aim, summary=summary)


def test_the_plans_give_up_the_floor_last() -> None:
    """Five blocks and twelve rounds; then fewer blocks, then shorter fields, then fewer rounds, by halves."""
    found = list(plans(CompactionSettings(tool_blocks_keep_unread=False)))
    assert found[:5] == [Plan(12, 5, 5), Plan(12, 0, 5), Plan(12, 0, 2), Plan(12, 0, 1), Plan(12, 0, 1, tight=True)]
    assert list(dict.fromkeys(plan.floor for plan in found)) == [12, 6, 3, 1]
    assert found[-1] == Plan(1, 0, 1, tight=True)
    assert len(set(found)) == len(found)
    spared = list(plans(CompactionSettings()))
    assert spared == [Plan(12, 5, 5, spare=True), Plan(12, 0, 5, spare=True), *found]


def test_unread_results_stay_whole_where_they_fit() -> None:
    """The model has asked for them; where it is tight, they are clipped like all others."""
    messages = [*text_rounds(3), user("u"), asks("a"), result("a", " one" * 900)]
    size = total(COUNTER, numbered(messages))
    assert selected(messages, demand(size)).clip == {}
    assert set(selected(messages, demand(size - 1)).clip) == {8}
    assert set(selected(messages, demand(size), tool_blocks_keep_unread=False).clip) == {8}


@pytest.mark.parametrize(("floor", "floors"), [(0, [0]), (1, [1]), (2, [2, 1]), (7, [7, 3, 1])])
def test_a_smaller_floor_yields_by_halves_too(floor: int, floors: list[int]) -> None:
    """Down to one round, or none where none was asked for."""
    found = plans(CompactionSettings(dialogue_rounds_keep_min=floor))
    assert list(dict.fromkeys(plan.floor for plan in found)) == floors


def test_no_block_is_kept_where_none_is_asked_for() -> None:
    """Zero blocks stay zero in every plan."""
    assert {plan.blocks for plan in plans(CompactionSettings(tool_blocks_keep_recent=0))} == {0}


@pytest.mark.requirement("C9")
def test_the_scope_all_keeps_nothing_that_may_leave() -> None:
    """The literal reading of the seed: the summary stands for the whole conversation."""
    messages = [SystemMessage("s"), *text_rounds(3), *tool_blocks(2), AIMessage("done"), user("next")]
    found = selected(messages, summary_scope="all")
    assert found.drop == frozenset(range(1, 12))
    assert found.floor == 0


def test_blocks_go_before_rounds_do() -> None:
    """Where five blocks do not fit, fewer are kept, and all twelve rounds stay."""
    messages = [*text_rounds(11), user("u"), *tool_blocks(5, " one" * 500), AIMessage("done")]
    found = selected(messages, demand(1_700))
    assert found.floor == 12
    assert found.counts.blocks_kept == 2
    assert found.tokens + 50 <= 1_700


def test_fields_are_shortened_before_rounds_go() -> None:
    """A single block over the ceiling is cut to what is left."""
    messages = [*text_rounds(11), user("u"), asks("a"), result("a", " one" * 5_000)]
    found = selected(messages, demand(400))
    assert found.floor == 12
    assert set(found.clip) == {24}
    assert 300 < found.tokens <= 400


def test_the_floor_yields_by_halves_until_the_aim_is_reached() -> None:
    """Twelve rounds that do not fit become six; where those fit and miss the aim, three."""
    messages = text_rounds(12, say=" one" * 100)
    each = total(COUNTER, numbered(messages)) // 12
    assert selected(messages, demand(8 * each)).floor == 6
    assert selected(messages, demand(8 * each, aim=5 * each)).floor == 3
    assert selected(messages, demand(8 * each, aim=1)).floor == 6
    assert choose(selector(messages), demand(each)) is None


def test_a_tight_clip_cuts_just_as_much_as_needed() -> None:
    """The largest preview at which the goal is reached, and the smallest where none reaches it."""
    messages = [user("u"), asks("a"), result("a", " one" * 2_000)]
    chooser = selector(messages)
    everything = frozenset(range(3))
    for goal in (60, 100, 150):
        clip = chooser.tight_clip(everything, frozenset(), goal)
        assert goal - 1 <= chooser.tokens(frozenset(), clip) <= goal
    assert chooser.tokens(frozenset(), chooser.tight_clip(everything, frozenset(), 1)) < 60
