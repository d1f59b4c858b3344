"""Scores, key events and kinds of tasks by messages; and what holds of every strategy, whatever the conversation."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.nodes.config.policies import TaskType
from langgraph_compaction.nodes.selection.selector import Demand
from langgraph_compaction.nodes.selection.strategies import importance
from langgraph_compaction.nodes.selection.strategies.adaptive import task_type
from langgraph_compaction.nodes.selection.strategies.importance import score
from langgraph_compaction.nodes.selection.strategies.key_events import is_key
from langgraph_compaction.nodes.selection.strategies.registry import BUILT_IN
from tests.fakes import summary_message
from tests.histories import asks, histories, meta, result, text_rounds, tool_blocks, user
from tests.nodes.selection.strategies.selecting import (
    ANYTHING,
    LONG,
    choices,
    dropped,
    selected,
    selector,
    taken,
    talk,
)

AND = " and" * 60
"""Makes what a person says no short input."""


def tool(text: str) -> ToolMessage:
    """A result of this text."""
    return ToolMessage(text, tool_call_id="c")


@pytest.mark.parametrize(
    ("message", "points", "key"),
    [
        (HumanMessage("hi"), 4.5, True),
        (HumanMessage(LONG), 5.0, True),
        (HumanMessage("<Pin> 必须保留" + LONG), 8.5, True),
        (HumanMessage("错误 失败 异常 bug 修复 完成 重要 tool_call !!!SUMMARY!!!" + LONG), 10.0, True),
        (SystemMessage("sys prompt" + LONG), 1.0, False),
        (meta("a reminder" + LONG), 0.0, False),
        (AIMessage("ok"), 1.5, False),
        (AIMessage("ok" + LONG), 2.0, False),
        (AIMessage("I fixed the bug" + LONG), 5.0, True),
        (AIMessage("fixing the fix of a fixed bug" + LONG), 5.0, True),
        (AIMessage("修复了错误"), 4.5, True),
        (AIMessage("改了error了" + LONG), 4.5, True),
        (AIMessage("<TOOL_CALL>read</TOOL_CALL>" + LONG), 4.5, True),
        (AIMessage("任务完成 !!!COMPLETE!!!" + LONG), 5.0, True),
        (AIMessage("this is important" + LONG), 5.5, True),
        (AIMessage("计划采用方案A" + "x" * 120), 2.5, True),
        (AIMessage("the planet".ljust(200)), 2.0, False),
        (AIMessage("the plan".ljust(100)), 2.5, False),
        (AIMessage("the plan".ljust(101)), 2.5, True),
        (AIMessage("prefixed terrors, unfixable, debaccle" + LONG), 2.0, False),
        (AIMessage("the incompleteness of mustard, unimportantly" + LONG), 2.0, False),
        (asks("a"), 1.5, True),
        (tool("plain output" + LONG), 2.0, False),
        (tool("the build failed" + LONG), 4.5, True),
        (tool("✅" + LONG), 2.0, True),
        *((tool(mark + LONG), 2.0, False) for mark in ("<Pin> keep this", "!!!COMPLETE!!!", "!!!SUMMARY!!!")),
    ],
)
def test_scores_and_key_events(message: AnyMessage, points: float, key: bool) -> None:
    """As the original computes them; but a result begins with 2 points, and English counts, in whole words only.

    Markers count only by their author: what a tool says is neither a pin nor a marker.
    """
    assert (score(message), is_key(message)) == (points, key)


@pytest.mark.parametrize(("low", "left"), [(0, [0, 1, 5, 7, 9, 11]), (2, [0, 1, 5, 7])])
def test_a_block_counts_as_a_whole(low: int, left: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """By its best message: the call of a result that matters stays with it, and is none of the newest low ones."""
    monkeypatch.setattr(importance, "KEEP_LOW", low)
    plain, telling = [asks("a"), result("a", "plain" + LONG)], [asks("b"), result("b", "it failed" + LONG)]
    assert dropped("importance", [*plain, *telling, *talk(8)[1:]]) == left


def test_an_earlier_summary_is_absorbed_and_never_counts_as_low() -> None:
    """Or there would be two; alone it is nothing to summarize."""
    earlier = summary_message("before", "c")
    assert dropped("importance", [earlier, *talk(20)[1:]])[0] == 0
    assert len(dropped("importance", [earlier, *talk(20)[1:]])) == 1 + 5
    assert selected("importance", [earlier, *talk(10)[1:]]) is None


def calls(*names: str) -> AIMessage:
    """Return a message that calls these tools."""
    return AIMessage("", tool_calls=[{"name": name, "args": {}, "id": f"c{n}"} for n, name in enumerate(names)])


@pytest.mark.parametrize(
    ("messages", "kind"),
    [
        ([calls("edit_file")], "code"),
        ([calls("editFile"), calls("bash"), HumanMessage("go on")], "code"),
        ([calls("grep"), calls("web.search"), calls("write")], "analysis"),
        ([HumanMessage("hi"), AIMessage("hello"), HumanMessage("how are you?")], "conversation"),
        ([HumanMessage("x" * 199)], "conversation"),
        ([HumanMessage("修改文件" + AND)], "code"),
        ([HumanMessage("please analyse the figures" + AND)], "analysis"),
        ([calls("edit"), calls("grep")], "mixed"),
        ([calls("edit", "grep")], "mixed"),
        ([calls("edit", "grep"), calls("write", "edit")], "code"),
        ([], "unknown"),
        ([HumanMessage("x" * 200)], "unknown"),
        ([SystemMessage("git code grep"), result("c0", "git code grep"), meta("git code")], "unknown"),
        ([HumanMessage("the target is digital, a profile of findings" + AND), calls("credit_target")], "unknown"),
    ],
)
def test_the_kind_that_most_messages_speak_for(messages: Sequence[AnyMessage], kind: TaskType) -> None:
    """By the names of the tools that were called, by whole words, by the length of what a person says.

    A message counts once for each kind; mixed where several are equal, unknown where none speaks.
    """
    assert task_type(messages) == kind


@pytest.mark.parametrize(("turns", "chunks"), [(40, []), (41, [2, 40]), (60, [40, 40]), (61, [2, 40, 40])])
def test_chunks_of_turns_are_full_from_the_end(turns: int, chunks: list[int]) -> None:
    """Twenty turns of two messages stay, whatever the number."""
    found = selected("incremental", text_rounds(turns))
    assert [len(part) for part in found.sections] == chunks if found else chunks == []


@pytest.mark.parametrize(("count", "compressed"), [(18, 0), (19, 0), (20, 11), (21, 11), (22, 13)])
def test_the_newest_nine_stay_from_nineteen_messages_on(count: int, compressed: int) -> None:
    """Neither system messages nor the question that a talk of an odd number ends with count."""
    assert dropped("sliding_window", talk(count)) == list(range(1, compressed + 1))


def test_of_a_round_that_is_too_large_less_is_kept() -> None:
    """Fewer of its blocks, and the question that waits."""
    messages = [HumanMessage("now?"), *tool_blocks(9, content="word " * 100)]
    demand = Demand(before=10**9, ceiling=700, aim=700, summary=0)
    assert taken(messages, demand, preset="recent_rounds").drop == frozenset(range(1, 9))


def test_a_skill_that_the_model_has_not_read_yet_stays() -> None:
    """Whatever the rule of its type says."""
    skill = HumanMessage("text", additional_kwargs={"compaction": {"kind": "skill_prompt", "is_meta": True}})
    messages: list[AnyMessage] = [HumanMessage("u"), skill, asks("a"), result("a"), skill]
    left = [choice.drop for choice in choices("typed_rules", messages, preset="typed_rules")]
    assert left == [frozenset({1})]


HUNDRED = "w " * 96
"""Makes a message of a hundred tokens."""


@pytest.mark.parametrize(("keep", "kept"), [(1, 1), (100, 1), (101, 2), (201, 3), (9_999, 20)])
def test_so_many_tokens_of_the_newest_messages_stay(keep: int, kept: int) -> None:
    """The cut is at a user message or within a turn, at an assistant's."""
    hundreds = [m for _ in range(10) for m in (user(HUNDRED), AIMessage(HUNDRED))]
    found = taken(hundreds, ANYTHING, preset="reserve_tokens", recent_tokens_keep=keep)
    assert (found.drop, found.floor) == (frozenset(range(20 - kept)), kept // 2)


def test_less_is_kept_where_one_large_message_takes_the_room() -> None:
    """A half, a quarter, and then what must stay."""
    large = Demand(before=3_000, ceiling=600, aim=500, summary=50)
    messages = [*text_rounds(3), user("w " * 900), *text_rounds(3)]
    assert taken(messages, large, preset="reserve_tokens").drop == frozenset(range(7))
    waiting = [*text_rounds(3), user("now?"), asks("a"), result("a", "w " * 900)]
    found = taken(waiting, large, preset="reserve_tokens", tool_blocks_keep_unread=False)
    assert (found.drop, set(found.clip)) == (frozenset(range(6)), {8})


@given(histories())
def test_what_is_kept_of_the_newest_tokens_begins_with_no_result(messages: list[AnyMessage]) -> None:
    """The cut moves behind it; a block whose result would stay leaves whole or not at all."""
    made = selector(messages, preset="reserve_tokens", recent_tokens_keep=200)
    found = taken(messages, ANYTHING, preset="reserve_tokens", recent_tokens_keep=200)
    left = [i for i in range(len(messages)) if i not in found.drop and i not in made.untouchable]
    assert not left or left[0] in made.view.orphans or not isinstance(messages[left[0]], ToolMessage)


SMALL: dict[str, Any] = {
    "sliding_window_size": 3,
    "incremental_summary_chunk_size": 1,
}
DEMAND = Demand(before=10**6, ceiling=0, aim=0, summary=0)


@given(messages=histories())
def test_no_strategy_breaks_a_block_or_takes_what_must_stay(messages: list[AnyMessage]) -> None:
    """And the parts that are summarized one by one are what leaves, each once and in order."""
    seen = selector(messages, **SMALL)
    blocks = [block.indexes for block in seen.view.blocks]
    for strategy in BUILT_IN.values():
        for choice in strategy(seen, DEMAND):
            closed = seen.resolve(DEMAND, choice)
            assert not closed.drop & seen.untouchable
            assert all(closed.drop.issuperset(block) or closed.drop.isdisjoint(block) for block in blocks)
            parts = [index for part in closed.sections for index in sorted(part)]
            assert parts == (sorted(closed.drop) if choice.sections else [])
