"""`summary_input_guard`: a summarizer is shown only the beginning and the end of a very long conversation."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AnyMessage, HumanMessage
from pydantic import ValidationError

from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.config.prompts import InputGuard
from langgraph_compaction.nodes.conversation.tokens import approximate_counter
from langgraph_compaction.nodes.runtime.summarize_chunks import seen_of
from langgraph_compaction.nodes.summary.chunks import Chunk, chunks, quoted
from tests.histories import histories, numbered, user

COUNTER = approximate_counter()
FRAME = len(quoted(user("")))
GUARD = InputGuard()


def of_length(*lengths: int, **marked: Any) -> list[AnyMessage]:
    """Return messages whose quotations have the given lengths, each filled with its own letter."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return numbered([HumanMessage(letters[n] * (size - FRAME), **marked) for n, size in enumerate(lengths)])


def shown(messages: Sequence[AnyMessage], guard: InputGuard | None = GUARD, budget: int = 10**9) -> list[Chunk]:
    """Return the chunks that the model is shown, one per call."""
    return chunks(messages, budget, COUNTER, guard)


@pytest.mark.parametrize(
    ("characters", "hidden"),
    [
        (0, range(0)),
        (200_000, range(0)),
        (200_001, range(40_000, 140_001)),
        (300_000, range(40_000, 240_000)),
        (1_000_000, range(40_000, 940_000)),
    ],
)
def test_shares_are_of_the_limit_and_not_of_the_text(characters: int, hidden: range) -> None:
    """The golden vectors: at 200,000 all is shown, beyond that 40,000 and 60,000; a million loses 900,000."""
    assert GUARD.hidden(characters) == hidden


def test_at_the_limit_nothing_changes() -> None:
    """With and without the guard the request is the same."""
    messages = of_length(100_000, 99_999)
    assert len("\n".join(map(quoted, messages))) == 200_000
    assert shown(messages) == shown(messages, None)


def test_one_character_more_leaves_the_middle_out() -> None:
    """A line says how many characters were left out, and the message is recorded as cut."""
    messages = of_length(100_000, 100_000)
    whole = "\n".join(map(quoted, messages))
    (chunk,) = shown(messages)
    assert chunk.text.startswith(f"{whole[:40_000]}\n[... 100001 characters left out; extracted from")
    assert chunk.text.endswith(f"...]\n{whole[-60_000:]}")
    tokens = COUNTER.text(quoted(messages[0]))
    assert seen_of([chunk]) == {"full": [], "cut": {"m0": [10_000, tokens], "m1": [15_000, tokens]}}


def test_whole_messages_of_the_middle_are_not_shown_at_all() -> None:
    """Messages that lie wholly before or after the cut are shown whole; a digest stands for the others."""
    secret = user(f"The order is FQ8APE-77. {'y' * 400_000}")
    messages = numbered([*of_length(40_000), *of_length(300_000), secret, *of_length(60_000)])
    (chunk,) = shown(messages)
    seen = seen_of([chunk])
    assert seen["full"] == ["m0", "m3"]
    assert [cut[0] for cut in seen["cut"].values()] == [0, 0]
    assert set(seen["cut"]) == {"m1", "m2"}
    assert "FQ8APE-77" in chunk.text
    assert len(chunk.text) < 110_000


def test_one_message_can_have_its_beginning_and_its_end_shown() -> None:
    """A single long message is shown by its beginning and its end, with one cut between them."""
    (message,) = of_length(500_000)
    (chunk,) = shown([message])
    whole = quoted(message)
    assert chunk.text.startswith(whole[:40_000])
    assert chunk.text.endswith(whole[-60_000:])
    assert seen_of([chunk])["cut"] == {"m0": [25_000, COUNTER.text(whole)]}


def test_what_the_guard_lets_pass_is_still_shown_in_parts() -> None:
    """The text that the guard leaves is divided into calls of at most the allowed tokens."""
    found = shown(of_length(*[9_000] * 26), budget=3_000)
    assert len(found) > 8
    assert all(chunk.tokens(COUNTER) <= 3_000 for chunk in found)
    assert sum("characters left out" in chunk.text for chunk in found) == 1


@given(histories(), st.integers(1, 3_000), st.integers(30, 3_000))
def test_every_message_is_seen_in_full_or_known_to_be_cut(messages: list[AnyMessage], most: int, budget: int) -> None:
    """The shown parts together, without the digest, are no longer than the guard allows."""
    guard = InputGuard(max_chars=most)
    found = shown(messages, guard, budget)
    seen = seen_of(found)
    assert sorted([*seen["full"], *seen["cut"]]) == sorted(str(message.id) for message in messages)
    assert all(has <= of for has, of in seen["cut"].values())
    characters = len("\n".join(map(quoted, messages)))
    assert ("characters left out" in "".join(chunk.text for chunk in found)) == (characters > most)


def test_a_message_is_cut_only_where_that_makes_it_shorter() -> None:
    """A message is shown whole if, under a tiny budget, beginning, digest and end would take more tokens than it."""
    for length in range(FRAME, 400):
        seen = seen_of(shown(of_length(length), None, budget=30))
        assert all(has < of for has, of in seen["cut"].values()), length


def test_head_and_tail_are_parts_of_the_whole() -> None:
    """The shares of beginning and end may add up to 1 at most."""
    with pytest.raises(ValidationError, match="more than max_chars"):
        InputGuard(head=0.6, tail=0.5)
    assert InputGuard(head=0.5, tail=0.5).hidden(200_001) == range(100_000, 100_001)


def test_one_preset_alone_has_the_guard() -> None:
    """Presets without a guard show everything, in as many calls as needed."""
    assert CompactionSettings(preset="layered_defence").summary_input_guard == GUARD
    for preset in ("selective", "typed_rules", "progressive", "recent_rounds", "reserve_tokens"):
        assert CompactionSettings.model_validate({"preset": preset}).summary_input_guard is None
