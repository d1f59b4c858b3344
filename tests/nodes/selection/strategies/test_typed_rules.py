from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from pydantic import ValidationError

from langgraph_compaction.nodes.config.settings import CompactionSettings, effective
from langgraph_compaction.nodes.config.strategy_settings import TYPE_RULES, TypeRule
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import approximate_counter, total
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.selection.selector import Choice, Demand, Selection, Selector
from langgraph_compaction.nodes.selection.strategies.typed_rules import typed_rules
from langgraph_compaction.nodes.selection.strategy_chain import choose
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
from tests.invariants import check_transition

COUNTER = approximate_counter()
NOTHING_FITS = Demand(before=10**9, ceiling=-1, aim=0, summary=0)


def kind(name: str, text: str = "text") -> HumanMessage:
    """A user-role message that says what it is."""
    return HumanMessage(text, additional_kwargs={"compaction": {"kind": name, "is_meta": True}})


def selector(messages: Sequence[AnyMessage], **chosen: Any) -> Selector:
    """Return the selector of a conversation under the preset."""
    view = Transcript(numbered(messages))
    return Selector(view, CompactionSettings(preset="typed_rules", **chosen), Meter(COUNTER, 0))


def drops(messages: Sequence[AnyMessage], **chosen: Any) -> list[frozenset[int]]:
    """What leaves after each type that takes something."""
    found = selector(messages, **chosen)
    return [found.resolve(NOTHING_FITS, choice).drop for choice in typed_rules(found, NOTHING_FITS)]


def left(messages: Sequence[AnyMessage], **chosen: Any) -> list[int]:
    """Indexes of what stands after all rules."""
    gone = (drops(messages, **chosen) or [frozenset[int]()])[-1]
    return [index for index in range(len(messages)) if index not in gone]


def fitted(messages: Sequence[AnyMessage], tokens: int, **chosen: Any) -> Selection:
    """What is chosen where the result may hold so many tokens."""
    goal = Demand(before=10**6, ceiling=tokens, aim=tokens, summary=0)
    found = choose(selector(messages, **chosen), goal)
    assert found is not None
    return found


@pytest.mark.parametrize(("blocks", "kept"), [(1, 1), (3, 3), (4, 3), (9, 3)])
def test_the_three_newest_results_stay(blocks: int, kept: int) -> None:
    """Earlier ones leave, each with its calls; fewer than three all stay."""
    messages = [user("u"), *tool_blocks(blocks), AIMessage("done")]
    gone = 2 * (blocks - kept)
    assert left(messages) == [0, *range(1 + gone, len(messages))]


@pytest.mark.parametrize(("answers", "kept"), [(4, 4), (5, 5), (6, 5), (20, 5)])
def test_the_five_newest_answers_stay(answers: int, kept: int) -> None:
    """Counted without those that call tools: they go with their results."""
    messages = [user("u"), *tool_blocks(1), *(AIMessage(f"answer {n}") for n in range(answers))]
    assert left(messages) == [0, 1, 2, *range(3 + answers - kept, 3 + answers)]


@pytest.mark.parametrize(("said", "kept"), [(4, 4), (5, 5), (6, 5), (20, 5)])
def test_the_five_newest_user_messages_stay(said: int, kept: int) -> None:
    """Whatever else there is."""
    messages = [*(user(f"said {n}") for n in range(said)), AIMessage("done")]
    assert left(messages) == list(range(said - kept, said + 1))


@pytest.mark.parametrize("name", ["skill_prompt", "skill_metadata"])
def test_every_skill_item_leaves(name: str) -> None:
    """The newest too, as long as the model has read it."""
    messages = [kind(name), user("u"), kind(name), AIMessage("done"), kind(name), AIMessage("well")]
    assert left(messages) == [1, 3, 5]


def test_what_the_model_has_not_read_yet_stays() -> None:
    """A skill's prompt that was loaded just now would be gone before anyone has seen it."""
    messages = [user("u"), kind("skill_prompt"), asks("a"), result("a"), kind("skill_prompt")]
    assert left(messages) == [0, 2, 3, 4]
    assert left([kind("skill_prompt"), user("u")]) == [0, 1]


@pytest.mark.parametrize(
    "message",
    [
        SystemMessage("sys"),
        kind("system_prompt"),
        kind("subagent_strategy"),
        kind("compaction_summary"),
        kind("system_reminder"),
        kind("of nobody's knowledge"),
    ],
    ids=lambda message: message.type + str(message.additional_kwargs),
)
def test_a_type_without_a_rule_is_left_alone(message: AnyMessage) -> None:
    """And so is one whose rule is none, however many there are."""
    assert left([*[message] * 9, user("u"), AIMessage("done")]) == list(range(11))


def test_three_types_have_the_rule_none() -> None:
    """So that it holds for them whatever becomes of types without a rule."""
    none = [name for name, rule in TYPE_RULES.items() if rule.action == "none"]
    assert none == ["system_prompt", "subagent_strategy", "compaction_summary"]


def test_a_rule_of_none_skips_its_type() -> None:
    """The other types keep their rules."""
    messages = [*text_rounds(8), kind("skill_prompt"), AIMessage("done")]
    rules = {"user_message": TypeRule(action="none"), "skill_prompt": TypeRule(action="none")}
    found = left(messages, type_rules=rules)
    assert found == [0, 2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]


def test_no_rule_reaches_a_system_message() -> None:
    """It stands in the header, wherever it stands, and whatever it says that it is."""
    marked = SystemMessage("skill", additional_kwargs={"compaction": {"kind": "skill_prompt"}})
    messages = [SystemMessage("one"), user("u"), marked, AIMessage("done"), SystemMessage("two")]
    rules = {name: TypeRule(action="drop") for name in ("system_prompt", "skill_prompt")}
    assert left(messages, type_rules=rules) == list(range(5))


ALL_TYPES = [
    *(kind(name) for name in ("user_message", "skill_metadata", "skill_prompt")),
    *tool_blocks(4),
    *(AIMessage(f"answer {n}") for n in range(6)),
    *(user(f"said {n}") for n in range(5)),
    AIMessage("done"),
]
"""Of each type with a rule of its own something that leaves: 0 to 2, the block 3 and 4, answers 11 and 12."""


def test_types_leave_from_the_lowest_priority_to_the_highest() -> None:
    """Results, skills' prompts, answers, skills' descriptions, user messages: each on top of those before."""
    found = drops(ALL_TYPES)
    steps = [now - before for before, now in zip([frozenset[int](), *found], found, strict=False)]
    assert steps == [{3, 4}, {2}, {11, 12}, {1}, {0}]


@pytest.mark.parametrize("spare", [0, 1])
def test_it_stops_after_the_first_type_that_is_enough(spare: int) -> None:
    """Where the request has come to what it may hold nothing more leaves, and no summary is written."""
    found = drops(ALL_TYPES)
    for index, gone in enumerate(found):
        size = total(COUNTER, applied(numbered(ALL_TYPES), gone, {}))
        chosen = fitted(ALL_TYPES, size - 1 + spare)
        if spare:
            assert chosen.drop == gone
            assert chosen.summarize is False
        else:
            assert len(chosen.drop) > len(gone)
            assert chosen.summarize is (index == len(found) - 1)


def test_where_the_rules_are_not_enough_everything_leaves_for_a_summary() -> None:
    """The header stays and what the turn still needs, here the unanswered message."""
    messages = [SystemMessage("sys"), *ALL_TYPES, user("and now?")]
    least = total(COUNTER, applied(numbered(messages), drops(messages)[-1], {}))
    chosen = fitted(messages, least - 1)
    assert chosen.drop == frozenset(range(1, len(messages) - 1))
    assert chosen.summarize is True


def test_a_block_stays_whole_where_one_of_its_results_is_among_the_newest() -> None:
    """Of four parallel results three are the newest three: the fourth stays with them."""
    parallel = [asks("a", "b", "c", "d"), *(result(name) for name in "abcd")]
    assert left([user("u"), *tool_blocks(1), *parallel, AIMessage("done")]) == [0, 3, 4, 5, 6, 7, 8]


def test_calls_leave_with_their_results_only() -> None:
    """They are no answers: dropping all answers takes none of them, and a call without a result stays."""
    messages = [user("u"), asks("x"), user("stop"), AIMessage("ok"), *tool_blocks(4), AIMessage("done")]
    rules = {"assistant_message": TypeRule(action="drop")}
    assert left(messages, type_rules=rules) == [0, 1, 2, 6, 7, 8, 9, 10, 11]
    assert left(messages, type_rules={**rules, "tool_result": TypeRule(action="drop")}) == [0, 1, 2]


def test_a_result_that_says_what_it_is_follows_the_rule_of_that_type() -> None:
    """A skill that a tool loaded leaves with its call, and is none of the three newest results."""
    loaded = result("s", additional_kwargs={"compaction": {"kind": "skill_prompt"}})
    messages = [user("u"), *tool_blocks(3), asks("s"), loaded, AIMessage("done")]
    assert left(messages) == [*range(7), 9]


def test_what_must_stay_stays() -> None:
    """Pins, and the user message that has no answer yet."""
    messages = [pinned("keep"), *(user(f"said {n}") for n in range(9)), AIMessage("done"), user("now?"), meta("m")]
    rules = {"user_message": TypeRule(action="drop")}
    assert left(messages, type_rules=rules) == [0, 10, 11, 12]


def test_rules_given_replace_those_of_their_types_only() -> None:
    """The others stay as they come, in a run's overrides too."""
    given_rule = TypeRule(action="truncate", keep_recent=1)
    chosen = CompactionSettings(preset="typed_rules", type_rules={"tool_result": given_rule})
    assert chosen.type_rules == {**TYPE_RULES, "tool_result": given_rule}
    changed = effective(CompactionSettings(), {"type_rules": {"user_message": {"action": "drop"}}})
    assert changed.type_rules == {**TYPE_RULES, "user_message": TypeRule(action="drop")}
    assert left([user("u"), *tool_blocks(4), AIMessage("done")], type_rules=chosen.type_rules) == [0, 7, 8, 9]


def test_a_rule_for_no_type_names_the_nearest() -> None:
    """A slip of the pen is not silently without effect."""
    with pytest.raises(ValidationError, match=r"tool_resutl.*tool_result"):
        CompactionSettings(type_rules={"tool_resutl": TypeRule(action="drop")})


def test_nothing_to_take_is_no_choice() -> None:
    """A conversation within every rule is left to the last resort."""
    assert list(typed_rules(selector([user("u"), *tool_blocks(3), AIMessage("done")]), NOTHING_FITS)) == []


@given(histories())
@settings(max_examples=60, deadline=None)
def test_no_history_is_broken(messages: list[AnyMessage]) -> None:
    """After every type: whole blocks, the order, pins, system messages and the unanswered user message stand."""
    found = selector(messages)
    for choice in typed_rules(found, NOTHING_FITS):
        closed = found.resolve(NOTHING_FITS, Choice(drop=choice.drop))
        after = applied(messages, closed.drop, {})
        if not closed.owes_summary:
            check_transition(messages, after)


@pytest.mark.parametrize(("space", "fits"), [(49, False), (50, True)])
def test_room_is_kept_for_a_summary_that_is_owed(space: int, fits: bool) -> None:
    """Where a pinned text leaves with its message, a summary has to carry it on, whatever the rules need."""
    messages = [user("<Pin>never on Sundays</Pin>"), *(user(f"said {n}") for n in range(5)), AIMessage("done")]
    (gone,) = drops(messages)
    size = total(COUNTER, applied(numbered(messages), gone, {})) + space
    found = choose(selector(messages), Demand(before=10**6, ceiling=size, aim=size, summary=50))
    assert found is not None
    assert (found.summarize is False) == fits
