from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.request import Meter, render
from langgraph_compaction.nodes.conversation.tokens import approximate_counter, tiktoken_counter
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.events import Counts
from langgraph_compaction.nodes.selection.oversize_step import forced
from langgraph_compaction.nodes.selection.selector import Demand, Selection, Selector
from langgraph_compaction.nodes.selection.strategies.dialogue_rounds_floor import Plan
from langgraph_compaction.nodes.selection.strategies.tool_blocks import keeps, planned
from langgraph_compaction.nodes.selection.strategy_chain import choose
from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.histories import (
    applied,
    asks,
    histories,
    meta,
    numbered,
    pinned,
    result,
    text_rounds,
    tool_blocks,
    user,
)
from tests.invariants import check_request, pairs

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


def left(messages: Sequence[AnyMessage], found: Selection) -> list[AnyMessage]:
    """Return what is left of the numbered messages."""
    return applied(numbered(messages), found.drop, found.clip)


def test_a_blank_result_counts_as_the_little_that_a_request_holds_of_it() -> None:
    """To shorten it saves nothing, so that a selection is not taken for smaller than it is."""
    messages = numbered([user("u"), asks("a"), result("a", "\n \n " * 500), user("q")])
    clip = {2: messages[2].model_copy(update={"content": "short"})}
    found = selector(messages).selection(ANYTHING, frozenset(), clip, floor=0)
    assert found.tokens == Meter(COUNTER, 0).request(applied(messages, frozenset(), clip))


@pytest.mark.parametrize(("before", "after"), [("long " * 99, "short"), ("long " * 99, ""), (" ", "")])
def test_an_answer_that_a_choice_makes_blank_counts_for_nothing(before: str, after: str) -> None:
    """A request omits a blank answer, so the choice saves the whole size of the answer."""
    messages = numbered([user("u"), AIMessage(before), user("q")])
    clip = {1: messages[1].model_copy(update={"content": after})}
    found = selector(messages).selection(ANYTHING, frozenset(), clip, floor=0)
    assert found.tokens == Meter(COUNTER, 0).request(applied(messages, frozenset(), clip))


@pytest.mark.parametrize(("blocks", "dropped"), [(0, 0), (4, 0), (5, 0), (6, 1), (9, 4)])
def test_the_five_newest_blocks_are_kept(blocks: int, dropped: int) -> None:
    """Older ones leave, counted over the whole conversation and not by tool."""
    found = selected([user("u"), *tool_blocks(blocks), AIMessage("done")])
    assert found.drop == frozenset(range(1, 1 + 2 * dropped))
    assert found.counts == Counts(blocks_kept=blocks - dropped, blocks_dropped=dropped)


def test_an_older_block_leaves_whole() -> None:
    """Parallel calls and all their results, and nothing is put in their place."""
    block = [asks("a", "b"), result("b"), result("a")]
    messages = [user("u"), *block, *tool_blocks(5), AIMessage("done")]
    found = selected(messages)
    assert found.drop == {1, 2, 3}
    assert left(messages, found) == [numbered(messages)[0], *numbered(messages)[4:]]


@pytest.mark.parametrize(("rounds", "dropped"), [(1, 0), (12, 0), (13, 2), (20, 16)])
def test_the_dialogue_of_the_twelve_newest_rounds_is_kept(rounds: int, dropped: int) -> None:
    """What lies beyond leaves, where nothing more is asked to stay."""
    found = selected(text_rounds(rounds), dialogue_beyond_keep=0)
    assert found.drop == frozenset(range(dropped))


@pytest.mark.parametrize(("rounds", "dropped"), [(12, 0), (17, 0), (18, 2), (20, 6)])
def test_beyond_the_floor_five_of_each_type_are_kept(rounds: int, dropped: int) -> None:
    """Twelve rounds and the five newest user and assistant messages before them."""
    assert selected(text_rounds(rounds)).drop == frozenset(range(dropped))


def test_each_type_is_counted_by_itself() -> None:
    """Many answers in an old round cost no user message its place."""
    chatter: list[AnyMessage] = [AIMessage(f"more {n}") for n in range(9)]
    messages = [*text_rounds(2), *chatter, *text_rounds(12)]
    found = selected(messages)
    assert found.drop == {1, 3, 4, 5, 6, 7}


def test_a_meta_message_starts_no_round_and_is_kept_in_one() -> None:
    """Twelve rounds are twelve things that people said; a reminder in a kept round stays, an older one leaves."""
    messages = [meta("old"), *text_rounds(1), meta("between"), *text_rounds(11), meta("new")]
    assert selected(messages).drop == {0}
    assert selected(messages, dialogue_rounds_keep_min=11, dialogue_beyond_keep=0).drop == {0, 1, 2, 3}


def test_a_meta_message_inside_a_dropped_block_stays() -> None:
    """It lies in the block's range and is not part of it."""
    block = [asks("a"), meta("use tabs"), result("a")]
    assert selected([user("u"), *block, AIMessage("done")], tool_blocks_keep_recent=0).drop == {1, 3}


@pytest.mark.parametrize(("blocks", "rounds"), [(5, 12), (8, 15)])
def test_a_kept_block_before_the_floor_keeps_its_calls(blocks: int, rounds: int) -> None:
    """The seed's own numbers: one user message, the blocks, one text, then the rounds of the floor."""
    messages = [user("task"), *tool_blocks(blocks), AIMessage("found it"), *text_rounds(rounds)]
    for beyond in (5, 0):
        found = selected(
            messages,
            tool_blocks_keep_recent=blocks,
            dialogue_rounds_keep_min=rounds,
            dialogue_beyond_keep=beyond,
        )
        after = left(messages, found)
        assert len(pairs(after)[0]) == blocks
        assert pairs(after)[1] == []
        check_request(render(after))


def test_tool_blocks_inside_the_floor_may_leave() -> None:
    """The floor protects what is said, not what tools gave back."""
    messages = [user("u"), *tool_blocks(7), AIMessage("done")]
    assert selected(messages).drop == {1, 2, 3, 4}


def test_an_empty_turn_and_an_orphan_leave_nothing_behind() -> None:
    """A result of no call is no dialogue; an empty answer in a kept round is."""
    messages = [user("u"), AIMessage(""), result("nobody"), AIMessage("done")]
    assert selected(messages).drop == {2}


@pytest.mark.parametrize(
    ("messages", "kept"),
    [
        pytest.param([user("u"), AIMessage("a"), SystemMessage("s")], {2}, id="system"),
        pytest.param([pinned("p"), AIMessage("a")], {0}, id="pinned"),
        pytest.param([user("u"), AIMessage("a"), user("v"), meta("m")], {2}, id="unanswered"),
        pytest.param([user("u"), asks("a"), result("a")], {0, 1, 2}, id="unseen results"),
        pytest.param([user("u"), asks("a", "b"), result("a")], {0, 1, 2}, id="open call"),
        pytest.param([user("u"), asks("a"), user("v")], {1, 2}, id="interrupted"),
        pytest.param([asks("a"), user("v"), asks("b"), result("b")], {0, 1, 2, 3}, id="interrupted and not settled"),
        pytest.param([user("u"), asks("a"), user("v"), AIMessage("a")], set(), id="settled"),
    ],
)
def test_what_no_plan_drops(messages: list[AnyMessage], kept: set[int]) -> None:
    """With nothing asked to stay, this does."""
    assert keeps(selector(messages), Plan(0, 0, 0)) == kept


def test_a_pin_takes_its_whole_block_with_it() -> None:
    """A result is worth nothing without its call, nor a call without all of its results."""
    messages = [user("u"), asks("a", "b"), result("a"), result("b"), AIMessage("done")]
    for index in (1, 2, 3):
        assert selector(messages, pins=(f"m{index}",)).pinned == {1, 2, 3}
        assert keeps(selector(messages, pins=(f"m{index}",)), Plan(0, 0, 0)) == {1, 2, 3}
    assert selector(messages, pins=("m0", "elsewhere")).pinned == {0}


def test_only_fields_of_kept_blocks_are_clipped() -> None:
    """Call by call and result by result, as the events count them; long texts of people and model stay."""
    long = " one" * 700
    arguments = {"a": long, "b": "short", "c": long}
    parallel = AIMessage(long, tool_calls=[{"name": "read", "args": {"x": x}, "id": i} for i, x in arguments.items()])
    messages = [user(long), parallel, *(result(i, x) for i, x in arguments.items()), AIMessage(long)]
    found = selected(messages)
    assert set(found.clip) == {1, 2, 4}
    assert found.counts == Counts(blocks_kept=1, calls_clipped=2, results_clipped=2)
    assert found.clip[1].content == long


def test_a_pinned_block_is_not_clipped() -> None:
    """Pins are verbatim."""
    messages = [user("u"), asks("a"), result("a", " one" * 700), AIMessage("done")]
    chooser = selector(messages, pins=("m1",))
    assert chooser.clip(frozenset(range(4)), 500, 600, 200) == {}


def test_a_clip_that_saves_nothing_is_left_out() -> None:
    """A field just over a small threshold would grow by its marker."""
    messages = [user("u"), asks("a"), result("a", " one" * 11), AIMessage("done")]
    assert selector(messages).clip(frozenset(range(4)), 10, 10, 9) == {}
    assert set(selector(messages).clip(frozenset(range(4)), 10, 10, 1)) == set()


def test_a_summary_alone_is_nothing_to_summarize() -> None:
    """Where the earlier summary is all that would leave, it stays."""
    messages = [summary_message("earlier", "one"), *text_rounds(3)]
    assert selected(messages).drop == frozenset()


def test_an_earlier_summary_leaves_with_the_rest_and_is_owed() -> None:
    """It is absorbed by the next one: there must be a next one."""
    messages = [summary_message("earlier", "one"), *text_rounds(20)]
    found = selected(messages)
    assert {0, 1, 2} <= found.drop
    assert found.owes_summary


def test_a_summary_is_owed_where_no_user_message_is_left() -> None:
    """Providers want one; where one stays and no summary leaves nothing is owed."""
    messages = [*text_rounds(2), *tool_blocks(6), AIMessage("done")]
    assert not selected(messages).owes_summary
    assert selected(messages, dialogue_rounds_keep_min=0, dialogue_beyond_keep=0).owes_summary


@settings(max_examples=60, deadline=None)
@given(history=histories(), floor=st.integers(0, 12), beyond=st.integers(0, 5), blocks=st.integers(0, 5))
def test_every_plan_leaves_whole_blocks_and_all_that_is_protected(
    history: list[AnyMessage], floor: int, beyond: int, blocks: int
) -> None:
    """On random conversations: no block is torn, system messages stay, the request is valid."""
    chooser = Selector(Transcript(history), CompactionSettings(), Meter(approximate_counter(), 0))
    found = chooser.resolve(ANYTHING, planned(chooser, Plan(floor, beyond, blocks), ANYTHING))
    after = applied(history, found.drop, found.clip)
    assert found.tokens == chooser.meter.request(after)
    assert not found.drop & chooser.untouchable
    for block in chooser.view.blocks:
        assert set(block.indexes) <= found.drop or not set(block.indexes) & found.drop
    assert all(index not in found.drop for index, m in enumerate(history) if isinstance(m, SystemMessage))
    check_request(render(after))


def test_nothing_is_selected_from_nothing() -> None:
    """An empty conversation has nothing to drop, and is not owed a thing that would be written."""
    found = selected([])
    assert (found.drop, found.clip, found.tokens) == (frozenset(), {}, 0)
    assert selected([HumanMessage("u")]).drop == frozenset()


LONG_TASK = [user("task " * 80), *tool_blocks(2, "done"), *tool_blocks(1, "word " * 40, first=2)]
"""A long request that the model works on, and a result that it has not read."""


def test_an_input_that_was_read_leaves_where_the_settings_say_so_and_nothing_else_fits() -> None:
    """Last of all: with a larger ceiling it stays, and so it does with `keep`, where the step leaves instead."""
    tight = Demand(before=10**9, ceiling=100, aim=100, summary=10, least=10, must_fit=True)
    kept = forced(selector(LONG_TASK, long_input="keep"), tight)
    assert kept is not None
    assert kept.drop == frozenset(range(1, 7))
    found = forced(selector(LONG_TASK), tight)
    assert found is not None
    assert found.drop == frozenset(range(5))
    assert found.owes_summary
    assert found.clip == {}, "what the model waits for is whole where it fits"
    assert 0 not in selected(LONG_TASK, replace(tight, ceiling=200, aim=200)).drop


@pytest.mark.parametrize("messages", [LONG_TASK, [user("question"), AIMessage("hello"), user("task " * 80)]])
def test_an_input_stays_whole_as_long_as_the_request_can_be_sent(messages: list[AnyMessage]) -> None:
    """In the soft zone nothing is better than a question that the model cannot read."""
    tight = Demand(before=10**9, ceiling=80, aim=80, summary=10, least=10)
    for setting in ("keep", "summarize"):
        chooser = selector(messages, long_input=setting)
        assert choose(chooser, tight) is None
        assert forced(chooser, tight) is None


@pytest.mark.parametrize(
    ("messages", "pins"),
    [([AIMessage("hello"), user("task " * 80)], ()), (LONG_TASK, ("m0",))],
    ids=["not read yet", "pinned"],
)
def test_an_input_that_was_not_read_or_is_pinned_never_leaves(
    messages: list[AnyMessage], pins: tuple[str, ...]
) -> None:
    """The model has to see it once."""
    tight = Demand(before=10**9, ceiling=80, aim=80, summary=10, least=10, must_fit=True)
    found = forced(selector(messages, pins), tight)
    assert found is None or not found.drop & {0 if pins else 1}


@pytest.mark.parametrize(
    ("kind", "rules", "stays"),
    [
        ("subagent_strategy", {}, True),
        ("skill_strategy", {}, True),
        ("system_prompt", {"system_prompt": {"action": "none"}}, True),
        ("skill_strategy", {"skill_strategy": {"action": "drop"}}, False),
        ("memory", {}, False),
    ],
)
def test_what_defines_the_agent_stays_in_any_role(kind: str, rules: dict[str, Any], *, stays: bool) -> None:
    """A message of such a kind leaves only if a rule in `type_rules` removes it."""
    strategy = HumanMessage("Ask the other agent.", additional_kwargs={"compaction": {"kind": kind}})
    chooser = selector([user("u"), strategy, AIMessage("a")], type_rules=rules)
    assert chooser.pinned == ({1} if stays else set())


def test_a_pinned_result_is_measured_with_its_whole_block() -> None:
    """The block counts once, even if several of its messages are pinned; system messages are not counted."""
    messages = [SystemMessage("s"), pinned("u"), asks("a", "b"), result("a"), user("v"), result("b"), AIMessage("c")]
    chooser = selector(messages, pins=("m3", "m5"))
    assert chooser.pinned >= {1, 2, 3, 5}
    assert chooser.pinned_units == [(1,), (2, 3, 5)]
    held = [chooser.view.messages[index] for index in (1, 2, 3, 5)]
    assert chooser.pinned_tokens == sum(map(COUNTER.message, held))
