"""Counters of texts, and those of an application."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.nodes import compact_messages
from langgraph_compaction.nodes.conversation.tokens import CheckedCounter, TokenCounter, tiktoken_counter, total
from tests.fakes import chars
from tests.histories import IMAGE, asks, numbered, text_rounds


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
    assert chars(2).message(message) == tokens


@given(st.sampled_from([chars(2), chars(7), tiktoken_counter()]), st.text(max_size=80), st.integers(0, 40))
def test_a_head_holds_at_most_so_many_tokens(counter: TokenCounter, text: str, tokens: int) -> None:
    """And begins as the text does."""
    head = counter.head(text, tokens)
    assert text.startswith(head)
    assert counter.text(head) <= tokens
    by_tokens = counter.name.startswith("tiktoken")
    assert head == text or by_tokens or counter.text(text[: len(head) + 1]) > tokens


def test_a_list_is_measured_by_the_callers_counter() -> None:
    """Before and after."""
    messages = numbered(text_rounds(40, say="question " * 10))
    found = compact_messages(messages, max_tokens=900, token_counter=chars(2), return_result=True)
    assert found.original_token_count == total(chars(2), messages)
    assert found.new_token_count == total(chars(2), found.new_messages) <= 900


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
    checked = CheckedCounter(chars(2))
    assert (checked.name, checked.text("abcd"), checked.head("abcd", 1)) == ("chars/2", 2, "abc")


@pytest.mark.parametrize("answer", [-1, True, float("inf"), float("nan"), "7", None])
def test_what_is_no_number_of_tokens_is_replaced_by_an_approximate_count(answer: Any) -> None:
    """Four characters are a token; for a beginning that is none, as many characters as tokens stay."""
    counter = CheckedCounter(Answering(answer))
    assert counter.text("abcde") == 2
    assert counter.message(HumanMessage("abcde")) == 6
    assert counter.head("abcde", 3) == "abc"


def test_what_is_no_beginning_of_a_text_is_quoted_in_the_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Up to 40 characters of it, and once."""
    counter = CheckedCounter(Answering("x" * 50))
    assert [counter.head("abc", 1), counter.head("abc", 2)] == ["a", "ab"]
    assert [row.message.count("x" * 39) for row in caplog.records] == [1]
    assert "x" * 40 not in caplog.text
