"""How much a message matters, and what stays for it."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.selection.strategies.importance import score
from langgraph_compaction.nodes.selection.strategies.key_events import is_key
from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.histories import asks, meta, result
from tests.nodes.selection.strategies.selecting import LONG, dropped, selected, talk

LITERAL: dict[str, Any] = {"importance_tool_base_score": 0, "keyword_languages": ("zh",)}
"""As the original counts."""


def tool(text: str) -> ToolMessage:
    """A result of this text."""
    return ToolMessage(text, tool_call_id="c")


GOLDEN: list[tuple[AnyMessage, float, bool]] = [
    (HumanMessage("hi"), 4.5, True),
    (HumanMessage(LONG), 5.0, True),
    (AIMessage("ok"), 1.5, False),
    (AIMessage("ok" + LONG), 2.0, False),
    (AIMessage("I fixed the bug" + LONG), 4.5, True),
    (AIMessage("修复了错误"), 4.5, True),
    (AIMessage("<TOOL_CALL>read</TOOL_CALL>" + LONG), 4.5, True),
    (tool("plain output" + LONG), 0.0, False),
    (tool("执行失败: 错误" + LONG), 3.0, True),
    (AIMessage("任务完成 !!!COMPLETE!!!" + LONG), 5.0, True),
    (HumanMessage("<Pin> 必须保留" + LONG), 8.5, True),
    (SystemMessage("sys prompt" + LONG), 1.0, False),
    (AIMessage("计划采用方案A" + "x" * 120), 2.5, True),
]


@pytest.mark.parametrize(("message", "points", "key"), GOLDEN)
def test_the_golden_vectors(message: AnyMessage, points: float, key: bool) -> None:
    """Scores and key events as the original computes them."""
    settings = CompactionSettings.model_validate(LITERAL)
    assert (score(message, settings), is_key(message, settings)) == (points, key)


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
    assert score(message, CompactionSettings()) == points


@pytest.mark.parametrize(
    "text",
    ["prefixed terrors, unfixable", "debugger"[:3] + "accle", "the incompleteness", "mustard and unimportantly"],
)
def test_words_in_latin_letters_count_as_whole_words_only(text: str) -> None:
    """Not inside others."""
    assert score(AIMessage(text + LONG), CompactionSettings()) == 2.0


def test_words_stand_beside_chinese_without_a_blank() -> None:
    """There are none between words there."""
    assert score(AIMessage("修复了error了" + LONG), CompactionSettings(keyword_languages=("en",))) == 4.5


@pytest.mark.parametrize("text", ["<Pin> keep this", "!!!COMPLETE!!!", "!!!SUMMARY!!!"])
def test_markers_count_only_by_their_author(text: str) -> None:
    """What a tool says is neither a pin nor a marker."""
    settings = CompactionSettings()
    assert score(tool(text + LONG), settings) == 2.0
    assert not is_key(tool(text + LONG), settings)


@pytest.mark.parametrize(("threshold", "left"), [(2.0, 0), (2.1, 5)])
def test_the_threshold_is_inclusive(threshold: float, left: int) -> None:
    """An answer of 2.0 points stays at 2.0, and may leave at 2.1."""
    messages = talk(20, reply="answer" + LONG)
    found = dropped("importance", messages, importance_score_threshold=threshold)
    assert len(found) == left
    assert CompactionSettings().importance_score_threshold == 3.0


@pytest.mark.parametrize("keep", [0, 4, 5, 9])
def test_the_newest_low_ones_stay_too(keep: int) -> None:
    """Five by default; what stays is not summarized, and nothing changes its place."""
    messages = talk(20)
    low = [index for index in range(1, 21) if isinstance(messages[index], AIMessage)]
    found = selected("importance", messages, importance_keep_low=keep)
    assert found is not None
    assert (sorted(found.drop), found.summarize) == (low[: len(low) - keep], True)
    assert dropped("importance", messages) == low[:5]


@pytest.mark.parametrize(("count", "left"), [(9, 0), (10, 5)])
def test_not_in_a_short_talk(count: int, left: int) -> None:
    """Ten messages are the fewest."""
    assert len(dropped("importance", talk(count), importance_keep_low=0)) == left


def test_not_where_nothing_is_low() -> None:
    """Or no more than stay anyway."""
    assert selected("importance", talk(20, reply="修复错误")) is None
    assert selected("importance", talk(10)) is None


def test_a_block_counts_as_a_whole() -> None:
    """By its best message: the call of a result that matters stays with it."""
    plain, telling = [asks("a"), result("a", "plain" + LONG)], [asks("b"), result("b", "it failed" + LONG)]
    messages = [*plain, *telling, *talk(8)[1:]]
    assert dropped("importance", messages, importance_keep_low=0) == [0, 1, 5, 7, 9, 11]


def test_the_call_of_a_result_that_matters_is_none_of_the_newest_low_ones() -> None:
    """The call stays with its block, and does not count toward `importance_keep_low`."""
    telling: list[AnyMessage] = [asks("b"), result("b", "it failed" + LONG)]
    messages = [*talk(8), *telling, HumanMessage("thanks"), AIMessage("ok")]
    assert dropped("importance", messages, importance_keep_low=2) == [2, 4, 6]


def test_an_earlier_summary_is_absorbed_and_never_counts_as_low() -> None:
    """Or there would be two; alone it is nothing to summarize."""
    earlier = summary_message("before", "c")
    messages: list[AnyMessage] = [earlier, *talk(20)[1:]]
    assert dropped("importance", messages)[0] == 0
    assert len(dropped("importance", messages)) == 1 + 5
    assert selected("importance", [earlier, *talk(10)[1:]]) is None
