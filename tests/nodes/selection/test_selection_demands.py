from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage

from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter, total
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.selection.selector import Choice, Demand, Selection, Selector
from langgraph_compaction.nodes.selection.strategy_chain import choices, choose, shortened
from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.histories import (
    asks,
    numbered,
    result,
    text_rounds,
    tool_blocks,
    user,
)
from tests.settings import settings as chosen_of

COUNTER = tiktoken_counter()
ANYTHING = Demand(before=10**9, ceiling=10**9, aim=10**9, summary=0)
"""A demand that the most generous plan meets."""


def selector(messages: Sequence[AnyMessage], pins: tuple[str, ...] = (), **chosen: Any) -> Selector:
    """Return the selector of a conversation with these settings."""
    view = Transcript(numbered(messages))
    return Selector(view, chosen_of(**chosen), Meter(COUNTER, 0), frozenset(pins))


def selected(messages: Sequence[AnyMessage], demand: Demand = ANYTHING, **chosen: Any) -> Selection:
    """Return what the selector chooses."""
    found = choose(selector(messages, **chosen), demand)
    assert found is not None
    return found


def demand(ceiling: int, aim: int | None = None, summary: int = 50) -> Demand:
    """Return a demand."""
    return Demand(before=10**6, ceiling=ceiling, aim=ceiling if aim is None else aim, summary=summary)


def test_unread_results_stay_whole_where_they_fit() -> None:
    """The model has asked for them: older rounds leave first."""
    messages = [*text_rounds(20), user("u"), asks("a"), result("a", " one" * 900)]
    size = total(COUNTER, numbered(messages))
    assert selected(messages, demand(size)).clip == {}
    found = selected(messages, demand(size - 1))
    assert (bool(found.drop), found.clip) == (True, {})


@pytest.mark.parametrize("room", [500, 900, 1_900])
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


def test_unread_results_that_do_not_fit_in_any_length_are_not_shortened() -> None:
    """Their step then has to leave."""
    blocks = [asks(*map(str, range(90))), *(result(str(n), " one" * 99) for n in range(90))]
    chooser = selector([user("u"), *blocks])
    assert shortened(chooser, replace(demand(900), must_fit=True)) is None
    assert shortened(selector(text_rounds(3)), replace(demand(900), must_fit=True)) is None


def test_a_strategy_chooses_among_the_messages_that_the_earlier_ones_kept() -> None:
    """Its choice is added to theirs, with the indexes of the whole conversation."""
    seen = list[list[str | None]]()

    def oldest(held: Selector, _: Demand) -> Iterator[Choice]:
        seen.append([message.id for message in held.view.messages])
        yield Choice(drop=frozenset({0, 1}))

    chosen = selector(text_rounds(3), strategies=["skills", "recent_rounds"])
    tried = list(choices(chosen, ANYTHING, {"skills": oldest, "recent_rounds": oldest}))
    assert seen == [["m0", "m1", "m2", "m3", "m4", "m5"], ["m2", "m3", "m4", "m5"]]
    assert [(choice.name, set(choice.drop)) for choice in tried[:2]] == [
        ("skills", {0, 1}),
        ("skills>recent_rounds", {0, 1, 2, 3}),
    ]


def test_the_strategy_full_keeps_nothing_that_may_leave() -> None:
    """The literal reading of the seed: the summary stands for the whole conversation."""
    messages = [SystemMessage("s"), *text_rounds(3), *tool_blocks(2), AIMessage("done"), user("next")]
    found = selected(messages, strategies=("full",))
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
    messages = [*text_rounds(11), user("u"), asks("a"), result("a", " one" * 5_000), AIMessage("done")]
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
    chooser = selector(messages, tool_blocks_keep_unread=False)
    everything = frozenset(range(3))
    for goal in (60, 100, 150):
        clip = chooser.tight_clip(everything, frozenset(), goal)
        assert goal - 1 <= chooser.tokens(frozenset(), clip) <= goal
    assert chooser.tokens(frozenset(), chooser.tight_clip(everything, frozenset(), 1)) < 60


def test_a_result_with_all_rounds_must_leave_a_third_of_the_way_to_the_aim() -> None:
    """A result nearer to the ceiling would make the next turn compact again."""
    assert [demand(ceiling, aim).roomy for ceiling, aim in ((900, 600), (901, 600), (600, 600))] == [800, 801, 600]


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
    choice = Choice(drop=frozenset({1, 2}), summarize=summarize)
    found = chooser.resolve(demand(10**6, aim), choice)
    assert found.drop == ({0, 1, 2} if summary_leaves else {1, 2})
    assert found.summarize is summarize


@pytest.mark.parametrize(("by_model", "leaves"), [(True, True), (False, False)])
def test_shortened_messages_are_summarized_by_a_model_only(*, by_model: bool, leaves: bool) -> None:
    """A model's new summary replaces the earlier one; without a model, nothing is summarized."""
    given = [summary_message("s", "c"), user("u"), asks("a"), result("a", " one" * 900), user("v")]
    chooser = selector(given, tool_blocks_keep_unread=False)
    clip = chooser.clip(frozenset({2, 3}), 100, 100, 50)
    wanted = Demand(before=10**6, ceiling=10**6, aim=10**6, summary=50, by_model=by_model)
    assert set(clip) == {3}
    assert (chooser.resolve(wanted, Choice(clip=clip)).drop == {0}) is leaves


def test_a_summary_alone_is_not_worth_a_new_one() -> None:
    """An earlier summary is replaced alone only if the request does not fit otherwise."""
    chooser = selector([summary_message("s" * 99, "c"), *text_rounds(3)])
    choice = Choice(drop=frozenset({0}))
    size = chooser.tokens(frozenset(), {})
    assert chooser.resolve(demand(size), choice).drop == frozenset()
    assert chooser.resolve(demand(size - 1), choice).drop == {0}


def test_a_message_that_leaves_in_no_part_joins_the_next_part() -> None:
    """A message after the last part joins the last part; kept messages and empty parts are left out."""
    parts = (frozenset({0, 1}), frozenset(), frozenset({3}))
    choice = Choice(drop=frozenset({0, 1, 2, 3, 5}), sections=parts)
    chooser = selector(text_rounds(4))
    assert chooser.resolve(demand(10**6), choice).sections == ({0, 1}, {2, 3, 5})
    assert chooser.resolve(demand(10**6), Choice(drop=choice.drop)).sections == ()


@pytest.mark.parametrize(
    ("messages", "drop", "owes"),
    [
        (text_rounds(3), {0}, True),
        (text_rounds(3), {2}, False),
        (text_rounds(3), {1}, False),
        ([summary_message("s", "c"), *text_rounds(3)], {1}, False),
        ([AIMessage("hello"), user("u"), AIMessage("a")], {0}, False),
    ],
)
def test_a_summary_is_owed_where_the_goal_leaves(messages: list[AnyMessage], drop: set[int], *, owes: bool) -> None:
    """The goal is the user's first message; an earlier summary already contains it."""
    for settings, owed in (({}, False), ({"key_information": ("goal",)}, owes)):
        found = selector(messages, **settings).selection(demand(10**6), frozenset(drop), {}, floor=0)
        assert found.owes_summary is owed
