"""What kind of work a conversation is."""

from collections.abc import Sequence

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes.config.strategy_settings import TaskType
from langgraph_compaction.nodes.selection.strategies.adaptive import task_type
from tests.histories import meta, result

LONG = " and" * 60
"""Makes what a person says no short input."""


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
        ([HumanMessage("修改文件" + LONG)], "code"),
        ([HumanMessage("please analyse the figures" + LONG)], "analysis"),
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
    assert task_type([HumanMessage(text + LONG)]) == "unknown"
    assert (
        task_type([calls("credit_target", "profile"), result("c0", "git code grep"), meta("git code")]) == "unknown"
    )


def test_only_the_languages_that_are_asked_for() -> None:
    """Without Chinese, its words say nothing."""
    assert task_type([HumanMessage("修改文件" + LONG)], ["en"]) == "unknown"
    assert task_type([HumanMessage("use git" + LONG)], ["zh"]) == "unknown"
