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
from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.histories import asks, histories, meta, result, text_rounds, tool_blocks
from tests.nodes.selection.strategies.selecting import (
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


GOLDEN: list[tuple[AnyMessage, float, bool]] = [
    (HumanMessage("hi"), 4.5, True),
    (HumanMessage(LONG), 5.0, True),
    (AIMessage("ok"), 1.5, False),
    (AIMessage("ok" + LONG), 2.0, False),
    (AIMessage("I fixed the bug" + LONG), 5.0, True),
    (AIMessage("修复了错误"), 4.5, True),
    (AIMessage("<TOOL_CALL>read</TOOL_CALL>" + LONG), 4.5, True),
    (tool("plain output" + LONG), 2.0, False),
    (tool("执行失败: 错误" + LONG), 5.0, True),
    (AIMessage("任务完成 !!!COMPLETE!!!" + LONG), 5.0, True),
    (HumanMessage("<Pin> 必须保留" + LONG), 8.5, True),
    (SystemMessage("sys prompt" + LONG), 1.0, False),
    (AIMessage("计划采用方案A" + "x" * 120), 2.5, True),
]


@pytest.mark.parametrize(("message", "points", "key"), GOLDEN)
def test_the_golden_vectors(message: AnyMessage, points: float, key: bool) -> None:
    """Scores and key events as the original computes them; but a result begins with 2 points, and English counts."""
    assert (score(message), is_key(message)) == (points, key)


@pytest.mark.parametrize(
    ("message", "points"),
    [
        (tool("plain output" + LONG), 2.0),
        (tool("short"), 1.5),
        (tool("the build failed" + LONG), 4.5),
        (AIMessage("I fixed the bug" + LONG), 5.0),
        (AIMessage("Fixed it: the tests failed." + LONG), 5.0),
        (AIMessage("all done and completed" + LONG), 4.0),
        (AIMessage("this is important" + LONG), 5.5),
        (meta("a reminder" + LONG), 0.0),
        (meta("a short one"), 0.0),
        (AIMessage("修复 fix 修复 fix 修复" + LONG), 5.0),
        (HumanMessage("错误 失败 异常 bug 修复 完成 重要 tool_call !!!SUMMARY!!!" + LONG), 10.0),
    ],
)
def test_the_usual_scores(message: AnyMessage, points: float) -> None:
    """Results start from 2, words in English count too, and each different one once."""
    assert score(message) == points


@pytest.mark.parametrize(
    "text",
    ["prefixed terrors, unfixable", "debugger"[:3] + "accle", "the incompleteness", "mustard and unimportantly"],
)
def test_words_in_latin_letters_count_as_whole_words_only(text: str) -> None:
    """Not inside others."""
    assert score(AIMessage(text + LONG)) == 2.0


def test_words_stand_beside_chinese_without_a_blank() -> None:
    """There are none between words there."""
    assert score(AIMessage("改了error了" + LONG)) == 4.5


@pytest.mark.parametrize("text", ["<Pin> keep this", "!!!COMPLETE!!!", "!!!SUMMARY!!!"])
def test_markers_count_only_by_their_author(text: str) -> None:
    """What a tool says is neither a pin nor a marker."""
    assert score(tool(text + LONG)) == 2.0
    assert not is_key(tool(text + LONG))


def test_a_block_counts_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its best message: the call of a result that matters stays with it."""
    monkeypatch.setattr(importance, "KEEP_LOW", 0)
    plain, telling = [asks("a"), result("a", "plain" + LONG)], [asks("b"), result("b", "it failed" + LONG)]
    messages = [*plain, *telling, *talk(8)[1:]]
    assert dropped("importance", messages) == [0, 1, 5, 7, 9, 11]


def test_the_call_of_a_result_that_matters_is_none_of_the_newest_low_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call stays with its block, and does not count toward the newest ones."""
    monkeypatch.setattr(importance, "KEEP_LOW", 2)
    telling: list[AnyMessage] = [asks("b"), result("b", "it failed" + LONG)]
    messages = [*talk(8), *telling, HumanMessage("thanks"), AIMessage("ok")]
    assert dropped("importance", messages) == [2, 4, 6]


def test_an_earlier_summary_is_absorbed_and_never_counts_as_low() -> None:
    """Or there would be two; alone it is nothing to summarize."""
    earlier = summary_message("before", "c")
    messages: list[AnyMessage] = [earlier, *talk(20)[1:]]
    assert dropped("importance", messages)[0] == 0
    assert len(dropped("importance", messages)) == 1 + 5
    assert selected("importance", [earlier, *talk(10)[1:]]) is None


@pytest.mark.parametrize(
    ("message", "key"),
    [
        (HumanMessage("anything"), True),
        (meta("anything"), False),
        (asks("a"), True),
        (result("a", "plain"), False),
        (result("a", "✅"), True),
        (result("a", "Traceback: it failed"), True),
        (AIMessage("the work is finished"), True),
        (AIMessage("任务开始"), True),
        (AIMessage("we debugged it"), True),
        (AIMessage("that is crucial"), True),
        (AIMessage("the plan".ljust(100)), False),
        (AIMessage("the plan".ljust(101)), True),
        (AIMessage("the planet".ljust(200)), False),
    ],
)
def test_what_is_a_key_event(message: AnyMessage, key: bool) -> None:
    """A person's words, calls, completions, troubles, marks; a decision only in a text of over 100 characters."""
    assert is_key(message) is key


def calls(*names: str) -> AIMessage:
    """Return a message that calls these tools."""
    return AIMessage("", tool_calls=[{"name": name, "args": {}, "id": f"c{n}"} for n, name in enumerate(names)])


@pytest.mark.parametrize(
    ("messages", "kind"),
    [
        ([calls("edit_file")], "code"),
        ([calls("editFile"), calls("bash"), HumanMessage("go on")], "code"),
        ([calls("search_direct_flight")], "analysis"),
        ([calls("grep"), calls("web.search"), calls("write")], "analysis"),
        ([HumanMessage("hi"), AIMessage("hello"), HumanMessage("how are you?")], "conversation"),
        ([HumanMessage("x" * 199)], "conversation"),
        ([HumanMessage("修改文件" + AND)], "code"),
        ([HumanMessage("please analyse the figures" + AND)], "analysis"),
    ],
)
def test_the_kind_that_most_messages_speak_for(messages: Sequence[AnyMessage], kind: TaskType) -> None:
    """By the names of the tools that were called, by words, by the length of what a person says."""
    assert task_type(messages) == kind


@pytest.mark.parametrize(
    "messages",
    [
        [calls("edit"), calls("grep")],
        [calls("edit", "grep")],
        [calls("bash"), HumanMessage("go on")],
    ],
)
def test_mixed_where_several_kinds_are_equal(messages: Sequence[AnyMessage]) -> None:
    """A message counts once for each kind."""
    assert task_type(messages) == "mixed"
    assert task_type([*messages, calls("write", "edit")]) == "code"


@pytest.mark.parametrize(
    "messages", [[], [HumanMessage("x" * 200)], [calls("book_reservation")], [SystemMessage("git code grep")]]
)
def test_unknown_where_none_speaks(messages: Sequence[AnyMessage]) -> None:
    """A long input, and a tool of another kind, say nothing."""
    assert task_type(messages) == "unknown"


@pytest.mark.parametrize(
    "text", ["the target is digital", "a profile of findings", "they decode legitimate fdisk args"]
)
def test_no_word_is_found_inside_another(text: str) -> None:
    """Nor in a tool's name, nor in what a tool says, nor in a meta message."""
    assert task_type([HumanMessage(text + AND)]) == "unknown"
    assert (
        task_type([calls("credit_target", "profile"), result("c0", "git code grep"), meta("git code")]) == "unknown"
    )


@pytest.mark.parametrize(
    ("turns", "chunks"), [(40, []), (41, [2, 40]), (59, [38, 40]), (60, [40, 40]), (61, [2, 40, 40])]
)
def test_chunks_of_turns_are_full_from_the_end(turns: int, chunks: list[int]) -> None:
    """Twenty turns of two messages stay, whatever the number."""
    found = selected("incremental", text_rounds(turns))
    assert [len(part) for part in found.sections] == chunks if found else chunks == []


@pytest.mark.parametrize(("count", "compressed"), [(8, 0), (18, 0), (19, 0), (20, 11), (21, 11), (22, 13)])
def test_the_newest_nine_stay_from_nineteen_messages_on(count: int, compressed: int) -> None:
    """The golden vectors; neither system messages nor the question that a talk of an odd number ends with count."""
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
