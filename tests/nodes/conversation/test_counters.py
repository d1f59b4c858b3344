"""The counters that the setting `token_counter` names."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import ValidationError

from langgraph_compaction.nodes import CompactionSettings, compact_messages
from langgraph_compaction.nodes.conversation.tokens import (
    CheckedCounter,
    chars_counter,
    named_counter,
    tiktoken_counter,
    total,
)
from langgraph_compaction.nodes.errors import TokenCounterError
from tests.histories import IMAGE, asks, numbered, text_rounds


@pytest.mark.parametrize(
    ("name", "text", "tokens"),
    [
        ("chars/2", "Hello World", 5),
        ("chars/2", "你好世界", 2),
        ("chars/2", "", 0),
        ("chars/3", "Hello World", 3),
        ("chars/3", "ab", 0),
        ("chars/1", "ab", 2),
        ("chars/10", "x" * 99, 9),
    ],
)
def test_characters_are_divided_and_rounded_down(name: str, text: str, tokens: int) -> None:
    """The golden vectors, and any other divisor."""
    assert named_counter(name).text(text) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("你好世界", 6),
        ("你", 2),
        ("你好" * 5, 15),
        ("word", 2),
        ("one two three four five six seven eight nine ten", 13),
        ("用户 asked for 十 words", 9),
        ("internationalization", 3),
        ("x" * 120, 13),
        ("x" * 130, 15),
        ("12345", 2),
        ("1" * 30, 10),
        ("a.b", 4),
        ("_" * 20, 10),
        ("", 0),
    ],
)
def test_chinese_and_english_are_counted_apart(text: str, tokens: int) -> None:
    """A character 1.5, a word 1.3; very long ones, digits and marks are no words."""
    assert named_counter("cjk_aware").text(text) == tokens


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (HumanMessage("x" * 10), 4 + 5),
        (HumanMessage(""), 4),
        (HumanMessage([{"type": "text", "text": "x" * 10}, {"type": "text", "text": "x" * 6}]), 4 + 5 + 3),
        (AIMessage("x" * 10, tool_calls=asks("a").tool_calls), 4 + 5 + len("read({})") // 2),
        (HumanMessage([IMAGE]), 4 + 1_600),
    ],
)
def test_a_message_costs_four_more_and_every_block_of_text(message: Any, tokens: int) -> None:
    """And what its calls say, which the original left out."""
    assert named_counter("chars/2").message(message) == tokens


@given(st.sampled_from(["chars/2", "chars/7", "cjk_aware", "tiktoken"]), st.text(max_size=80), st.integers(0, 40))
def test_a_head_holds_at_most_so_many_tokens(name: str, text: str, tokens: int) -> None:
    """And begins as the text does."""
    counter = named_counter(name)
    head = counter.head(text, tokens)
    assert text.startswith(head)
    assert counter.text(head) <= tokens
    assert head == text or name == "tiktoken" or counter.text(text[: len(head) + 1]) > tokens


@pytest.mark.parametrize(("name", "model"), [("usage", "gpt-4o"), ("tiktoken", "gpt-4"), ("usage", None)])
def test_the_usual_counter_is_the_models_own(name: str, model: str | None) -> None:
    """By tiktoken's table."""
    assert named_counter(name, model).name == tiktoken_counter(model).name


@pytest.mark.parametrize("name", ["words", "chars/0", "chars", "chars/-2", "chars/2.5", ""])
def test_an_unknown_counter_is_an_error(name: str) -> None:
    """When it is set."""
    with pytest.raises(ValidationError, match="token_counter"):
        CompactionSettings(token_counter=name)


def test_a_list_is_measured_by_the_counter_of_its_settings() -> None:
    """A function of the caller's stands above it."""
    messages = numbered(text_rounds(40, say="question " * 10))
    by_chars = named_counter("chars/2")
    settings = CompactionSettings.model_validate({"token_counter": "chars/2"})
    found = compact_messages(messages, max_tokens=900, settings=settings, return_result=True)
    assert found.original_token_count == total(by_chars, messages)
    assert found.new_token_count == total(by_chars, found.new_messages) <= 900
    own = compact_messages(messages, max_tokens=40, settings=settings, token_counter=len, return_result=True)
    assert own.original_token_count == len(messages)


class Answering:
    """A counter of an application that returns the same value whatever it is asked."""

    name = "answering"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def text(self, text: str) -> Any:  # noqa: ARG002 - the protocol's arguments
        """Return the value."""
        return self.answer

    def message(self, message: Any) -> Any:  # noqa: ARG002 - the protocol's arguments
        """Return the value."""
        return self.answer

    def head(self, text: str, tokens: int) -> Any:  # noqa: ARG002 - the protocol's arguments
        """Return the value."""
        return self.answer


@pytest.mark.parametrize(("answer", "tokens"), [(0, 0), (7, 7), (2.1, 3)])
def test_what_an_applications_counter_counts_is_taken(answer: float, tokens: int) -> None:
    """Parts of a token are rounded up."""
    counter = CheckedCounter(Answering(answer))
    assert counter.text("abc") == counter.message(HumanMessage("abc")) == tokens
    checked = CheckedCounter(chars_counter(2))
    assert (checked.name, checked.text("abcd"), checked.head("abcd", 1)) == ("chars/2", 2, "abc")


@pytest.mark.parametrize("answer", [-1, True, float("inf"), float("nan"), "7", None])
def test_what_is_no_number_of_tokens_is_an_error_that_names_the_counter(answer: Any) -> None:
    """The error is the same if the counter returns no text for the beginning of a text."""
    counter = CheckedCounter(Answering(answer))
    for asked in (
        lambda: counter.text("abc"),
        lambda: counter.message(HumanMessage("abc")),
        lambda: counter.head("abc", 1),
    ):
        with pytest.raises(TokenCounterError, match="Answering"):
            asked()


def test_what_is_no_beginning_of_a_text_is_quoted_in_the_error() -> None:
    """Up to 40 characters of it."""
    counter = CheckedCounter(Answering("x" * 41))
    with pytest.raises(TokenCounterError, match=f"head returned '{'x' * 40}' for a text: return a beginning"):
        counter.head("abc", 1)
