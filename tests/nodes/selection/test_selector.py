"""What leaves a conversation, what must stay or is shortened, and what yields where nothing fits."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage

from langgraph_compaction.nodes.conversation.request import Meter, render
from langgraph_compaction.nodes.conversation.tokens import approximate_counter, tiktoken_counter, total
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.selection.hiding import hide_oldest
from langgraph_compaction.nodes.selection.oversize_step import forced
from langgraph_compaction.nodes.selection.selector import Choice, Demand, Selection, Selector
from langgraph_compaction.nodes.selection.strategies.tool_blocks import Plan, keeps, planned
from langgraph_compaction.nodes.selection.strategy_chain import choose, shortened
from tests.fakes import summary_message
from tests.histories import (
    IMAGE,
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
from tests.invariants import check_request
from tests.settings import settings as chosen_of

COUNTER = tiktoken_counter()
ANYTHING = Demand(before=10**9, ceiling=10**9, aim=10**9, summary=0)
"""A demand that the most generous plan meets."""
LONG = " one" * 100


def selector(
    messages: Sequence[AnyMessage], pins: tuple[str, ...] = (), scale: float = 1.0, **chosen: Any
) -> Selector:
    """Return the selector of a conversation with these settings."""
    view = Transcript(numbered(messages))
    return Selector(view, chosen_of(**chosen), Meter(COUNTER, 0, scale), frozenset(pins))


def selected(messages: Sequence[AnyMessage], demand: Demand = ANYTHING, **chosen: Any) -> Selection:
    """Return what the selector chooses."""
    found = choose(selector(messages, **chosen), demand)
    assert found is not None
    return found


def demand(ceiling: int, aim: int | None = None, summary: int = 50, *, must_fit: bool = False) -> Demand:
    """Return a demand."""
    aim = ceiling if aim is None else aim
    return Demand(before=10**6, ceiling=ceiling, aim=aim, summary=summary, must_fit=must_fit)


CHATTER: list[AnyMessage] = [AIMessage(f"more {n}") for n in range(9)]
STEERED = [asks("a"), meta("use tabs"), result("a")]


@pytest.mark.parametrize(
    ("messages", "chosen", "dropped"),
    [
        ([user("u"), asks("a", "b"), result("b"), result("a"), *tool_blocks(5), AIMessage("done")], {}, [1, 2, 3]),
        ([user("u"), *tool_blocks(5), AIMessage("done")], {}, []),
        (text_rounds(12), {"dialogue_beyond_keep": 0}, []),
        (text_rounds(13), {"dialogue_beyond_keep": 0}, [0, 1]),
        (text_rounds(17), {}, []),
        (text_rounds(18), {}, [0, 1]),
        ([*text_rounds(2), *CHATTER, *text_rounds(12)], {}, [1, 3, 4, 5, 6, 7]),
        ([meta("old"), *text_rounds(1), meta("between"), *text_rounds(11), meta("new")], {}, [0]),
        ([user("u"), *STEERED, AIMessage("done")], {"tool_blocks_keep_recent": 0}, [1, 3]),
        ([user("u"), AIMessage(""), result("nobody"), AIMessage("done")], {}, [2]),
        ([SystemMessage("s"), *text_rounds(2), user("next")], {"strategies": ("full",)}, [1, 2, 3, 4]),
        ([summary_message("earlier", "one"), *text_rounds(3)], {}, []),
        ([summary_message("earlier", "one"), *text_rounds(18)], {}, [0, 1, 2]),
        ([], {}, []),
    ],
)
def test_what_the_figures_of_the_settings_leave(
    messages: list[AnyMessage], chosen: dict[str, Any], dropped: list[int]
) -> None:
    """Five blocks, twelve rounds, and five messages of each type beyond; an earlier summary never leaves alone."""
    assert sorted(selected(messages, **chosen).drop) == dropped


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
    """With nothing asked to stay, this does; nor does it leave where the oldest are hidden."""
    assert keeps(selector(messages), Plan(0, 0, 0)) == kept
    assert hide_oldest(selector(messages), demand(0, summary=0)).drop == set(range(len(messages))) - kept


def test_a_pin_takes_its_whole_block_with_it() -> None:
    """A result is worth nothing without its call, nor a call without all of its results; no pin is clipped."""
    messages = [user("u"), asks("a", "b"), result("a", LONG * 7), result("b"), AIMessage("done")]
    for index in (1, 2, 3):
        chooser = selector(messages, pins=(f"m{index}",))
        assert chooser.pinned == {1, 2, 3}
        assert chooser.pinned_units == [(1, 2, 3)]
        assert keeps(chooser, Plan(0, 0, 0)) == {1, 2, 3}
        assert chooser.clip(frozenset(range(5)), 500, 600, 200) == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [(AIMessage("long " * 99), "short"), (AIMessage("long " * 99), ""), (result("a", "\n \n " * 500), "short")],
)
def test_a_shortened_message_counts_as_the_request_holds_it(before: AnyMessage, after: str) -> None:
    """A blank answer is in no request, and of a blank result little is."""
    messages = numbered([user("u"), *([] if before.type == "ai" else [asks("a")]), before, user("q")])
    clip = {len(messages) - 2: messages[-2].model_copy(update={"content": after})}
    found = selector(messages).selection(ANYTHING, frozenset(), clip, floor=0)
    assert found.tokens == Meter(COUNTER, 0).request(applied(messages, frozenset(), clip))


@settings(max_examples=60, deadline=None)
@given(history=histories(), floor=st.integers(0, 12), blocks=st.integers(0, 5), share=st.floats(0, 1))
def test_every_plan_leaves_whole_blocks_and_all_that_is_protected(
    history: list[AnyMessage], floor: int, blocks: int, share: float
) -> None:
    """On random conversations, also where the oldest are hidden: then the aim is reached, or nothing else is left."""
    chooser = Selector(Transcript(history), chosen_of(), Meter(approximate_counter(), 0))
    aim = int(share * chooser.meter.request(history))
    by_plan = chooser.resolve(ANYTHING, planned(chooser, Plan(floor, floor // 2, blocks), ANYTHING))
    hidden = hide_oldest(chooser, demand(aim, summary=0))
    for found in (by_plan, hidden):
        after = applied(history, found.drop, found.clip)
        assert found.tokens == chooser.meter.request(after)
        assert not found.drop & chooser.untouchable
        assert not set(found.clip) & found.drop
        for block in chooser.view.blocks:
            assert set(block.indexes) <= found.drop or not set(block.indexes) & found.drop
        check_request(render(after))
    assert hidden.tokens <= aim or hidden.drop == frozenset(range(len(history))) - chooser.untouchable


def test_of_what_does_not_fit_blocks_go_first_then_rounds_by_halves() -> None:
    """Blocks and fields before rounds; a result with all rounds stays a third of the way below the ceiling."""
    blocks = [*text_rounds(11), user("u"), *tool_blocks(5, " one" * 500), AIMessage("done")]
    found = selected(blocks, demand(1_700))
    assert (found.floor, found.counts["blocks_kept"]) == (12, 2)
    single = [*text_rounds(11), user("u"), asks("a"), result("a", " one" * 5_000), AIMessage("done")]
    found = selected(single, demand(400))
    assert (found.floor, set(found.clip)) == (12, {24})
    assert 300 < found.tokens <= 400
    rounds = text_rounds(12, say=LONG)
    each = total(COUNTER, numbered(rounds)) // 12
    for aim, floor in ((8, 6), (5, 3), (0, 6)):
        assert selected(rounds, demand(8 * each, aim=aim * each)).floor == floor
    assert choose(selector(rounds), demand(each)) is None
    assert [demand(ceiling, aim).roomy for ceiling, aim in ((900, 600), (600, 600))] == [800, 600]


def test_unread_results_stay_whole_where_they_fit() -> None:
    """The model has asked for them: older rounds leave first."""
    messages = [*text_rounds(20), user("u"), asks("a"), result("a", " one" * 900)]
    size = total(COUNTER, numbered(messages))
    assert selected(messages, demand(size)).clip == {}
    found = selected(messages, demand(size - 1))
    assert (bool(found.drop), found.clip) == (True, {})


@pytest.mark.parametrize("room", [500, 1_900])
def test_unread_results_are_shortened_to_the_room_that_is_left(room: int) -> None:
    """To their beginnings and ends, where the request cannot be sent otherwise; a short result stays whole."""
    texts = [" ".join(f"{tag}{n}" for n in range(700)) for tag in "xy"]
    blocks = [asks("a", "b", "c"), result("a", texts[0]), result("b", "short"), result("c", texts[1])]
    chooser, wanted = selector([*text_rounds(20), user("u"), *blocks]), demand(room, aim=room // 2)
    assert choose(chooser, wanted) is None
    assert shortened(chooser, wanted) is None
    found = shortened(chooser, replace(wanted, must_fit=True))
    assert found is not None
    assert room - 5 * wanted.summary < found.tokens <= room - wanted.summary
    assert set(found.clip) == {42, 44}
    for index, tag in ((42, "x"), (44, "y")):
        text = str(found.clip[index].content)
        assert text.startswith(f"{tag}0 {tag}1 ")
        assert f"{tag}699\n[TRUNCATED original~" in text


@pytest.mark.parametrize(
    ("mode", "aim", "summarize", "summary_leaves"),
    [
        ("always", 10**6, None, True),
        ("if_needed", 10**6, None, False),
        ("if_needed", 1, None, True),
        ("if_needed", 10**6, True, True),
        ("always", 1, False, False),
    ],
)
def test_an_earlier_summary_leaves_where_a_new_one_is_written(
    mode: str, aim: int, *, summarize: bool | None, summary_leaves: bool
) -> None:
    """The new summary contains the earlier one; without a new summary, the earlier one stays."""
    chooser = selector([summary_message("s", "c"), *text_rounds(3)], summary_mode=mode)
    found = chooser.resolve(demand(10**6, aim), Choice(drop=frozenset({1, 2}), summarize=summarize))
    assert found.drop == ({0, 1, 2} if summary_leaves else {1, 2})


def test_a_message_that_leaves_in_no_part_joins_the_next_part() -> None:
    """A message after the last part joins the last part; kept messages and empty parts are left out."""
    parts = (frozenset({0, 1}), frozenset(), frozenset({3}))
    chooser = selector(text_rounds(4))
    found = chooser.resolve(demand(10**6), Choice(drop=frozenset({0, 1, 2, 3, 5}), sections=parts))
    assert found.sections == ({0, 1}, {2, 3, 5})


def test_a_field_that_would_grow_by_its_marker_stays() -> None:
    """A clip that saves nothing is left out."""
    chooser = selector([user("u"), asks("a"), result("a", " one" * 11), AIMessage("done")])
    assert chooser.clip(frozenset(range(4)), 10, 10, 9) == {}


@pytest.mark.parametrize(
    ("messages", "chosen", "drop", "owes"),
    [
        (text_rounds(3), {"key_information": ("goal",)}, {0}, True),
        (text_rounds(3), {"key_information": ("goal",)}, {1, 2}, False),
        (text_rounds(3), {}, {0}, False),
        ([summary_message("s", "c"), *text_rounds(3)], {"key_information": ("goal",)}, {1}, False),
        ([summary_message("s", "c"), *text_rounds(3)], {}, {0, 1}, True),
        ([user("<Pin>this</Pin>"), *text_rounds(3)], {}, {0}, True),
        ([user("u"), AIMessage("a")], {}, {0}, True),
    ],
)
def test_a_summary_is_owed_where_what_only_it_can_say_leaves(
    messages: list[AnyMessage], chosen: dict[str, Any], drop: set[int], *, owes: bool
) -> None:
    """The goal, an earlier summary, a pinned text, or the last user message, which providers want."""
    found = selector(messages, **chosen).selection(demand(10**6), frozenset(drop), {}, floor=0)
    assert found.owes_summary is owes


LONG_TASK = [user("task " * 80), *tool_blocks(2, "done"), *tool_blocks(1, "word " * 40, first=2)]
"""A long request that the model works on, and a result that it has not read."""


def test_an_input_that_was_read_leaves_where_the_settings_say_so_and_nothing_else_fits() -> None:
    """Last of all: with a larger ceiling it stays, and so it does with `keep`, where the step leaves instead."""
    tight = replace(demand(100, summary=10, must_fit=True), least=10)
    kept = forced(selector(LONG_TASK, long_input="keep"), tight)
    assert kept is not None
    assert kept.drop == frozenset(range(1, 7))
    found = forced(selector(LONG_TASK), tight)
    assert found is not None
    assert found.drop == frozenset(range(5))
    assert found.owes_summary
    assert found.clip == {}, "what the model waits for is whole where it fits"
    assert 0 not in selected(LONG_TASK, replace(tight, ceiling=200, aim=200)).drop


@pytest.mark.parametrize("scale", [1.0, 1.7])
@pytest.mark.parametrize("rounds", [0, 1, 11])
def test_the_oldest_are_hidden_until_the_rest_fits(rounds: int, scale: float) -> None:
    """Not one message more than needed, the floor does not hold, and room is left for the notice."""
    messages = text_rounds(12, say=LONG)
    chooser = selector(messages, scale=scale)
    aim = chooser.tokens(frozenset(range(2 * rounds)), {})
    found = hide_oldest(chooser, demand(aim, summary=0))
    assert (found.drop, found.floor) == (frozenset(range(2 * rounds)), 0)
    for less in (demand(aim - 1, summary=0), demand(aim, summary=1)):
        assert hide_oldest(chooser, less).drop == frozenset(range(2 * rounds + 1))


def test_of_the_pictures_that_stay_the_oldest_leave_first() -> None:
    """As many as there is room for once their texts fit."""
    seen = [{"type": "text", "text": "seen"}, IMAGE]
    blocks = [m for n in range(4) for m in (asks(f"c{n}"), result(f"c{n}", seen))]
    found = hide_oldest(selector([user("u"), *blocks, AIMessage("answer")]), demand(3_600, summary=0))
    assert (found.drop, sorted(found.clip)) == (set(), [2, 4])


@pytest.mark.parametrize(
    ("messages", "pins"),
    [([AIMessage("hello"), user("task " * 80)], ()), (LONG_TASK, ("m0",))],
    ids=["not read yet", "pinned"],
)
def test_an_input_that_was_not_read_or_is_pinned_never_leaves(
    messages: list[AnyMessage], pins: tuple[str, ...]
) -> None:
    """The model has to see it once; in the soft zone no input leaves at all."""
    tight = replace(demand(80, summary=10, must_fit=True), least=10)
    found = forced(selector(messages, pins), tight)
    assert found is None or not found.drop & {0 if pins else 1}
    assert forced(selector(messages, pins), replace(tight, must_fit=False)) is None


@pytest.mark.parametrize("must_fit", [True, False])
@pytest.mark.parametrize("pin", [True, False])
def test_a_step_leaves_only_where_the_request_must_fit(must_fit: bool, pin: bool) -> None:
    """One of very many calls, which cannot be cut; a pinned one never leaves."""
    names = [f"c{n}" for n in range(50)]
    messages = [user("u"), asks(*names), *(result(name) for name in names)]
    wanted = replace(demand(200, aim=100, summary=20, must_fit=must_fit), least=20)
    found = hide_oldest(selector(messages, ("m1",) if pin else ()), wanted)
    leaves = must_fit and not pin
    assert found.drop == (frozenset(range(1, 52)) if leaves else frozenset())
    assert found.owes_summary == leaves
    choice = Choice(drop=frozenset(range(1, 52)), takes_steps=True)
    assert bool(selector(messages, ("m1",) if pin else ()).resolve(wanted, choice).drop) == leaves
