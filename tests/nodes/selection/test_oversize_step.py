from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
from langchain_core.messages import AIMessage, AnyMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.media import IMAGE_TOKENS
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import TextCounter, approximate_counter
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.selection.oversize_step import forced
from langgraph_compaction.nodes.selection.selector import Demand, Selection, Selector
from tests.histories import IMAGE, asks, numbered, pinned, result, user

COUNTER = TextCounter("words", lambda text: len(text.split()))
TIGHT = Demand(before=10**6, ceiling=200, aim=100, summary=20, least=20, must_fit=True)


def chosen(messages: Sequence[AnyMessage], demand: Demand = TIGHT) -> Selection | None:
    """Return the forced selection of a conversation."""
    return forced(Selector(Transcript(numbered(messages)), CompactionSettings(), Meter(COUNTER, 0)), demand)


def step(text: str = "", calls: int = 1) -> list[AnyMessage]:
    """A request, and a step of the model that it has not read the results of."""
    names = [f"c{n}" for n in range(calls)]
    said = AIMessage(text, tool_calls=asks(*names).tool_calls)
    return [user("u"), said, *(result(name) for name in names)]


@pytest.mark.parametrize("calls", [1, 80])
def test_nothing_is_forced_where_the_request_can_wait(calls: int) -> None:
    """Only a request that cannot be sent otherwise."""
    assert chosen(step("word " * 900, calls), replace(TIGHT, must_fit=False)) is None


def test_a_step_with_a_long_text_is_shortened_and_stays() -> None:
    """The text next to its calls is cut to what fits."""
    found = chosen(step("word " * 900))
    assert found is not None
    assert (found.drop, set(found.clip)) == (frozenset(), {1})
    assert found.tokens + TIGHT.least <= TIGHT.ceiling


def test_a_step_of_very_many_calls_leaves_whole() -> None:
    """Calls and results alike, as they cannot be shortened; the request of the user stays."""
    found = chosen(step(calls=80))
    assert found is not None
    assert found.drop == frozenset(range(1, 82))


@pytest.mark.parametrize(("words", "gone"), [(1, range(3, 84)), (900, range(1, 84))])
def test_the_thinking_of_a_turn_leaves_after_its_other_steps(words: int, gone: range) -> None:
    """Its model would refuse the others without it."""
    thought = {"type": "thinking", "thinking": "word " * words, "signature": "s"}
    told = {"model_name": "claude-sonnet-4-5"}
    opening = AIMessage([thought], tool_calls=asks("a").tool_calls, response_metadata=told)
    found = chosen([user("u"), opening, result("a"), *step(calls=80)[1:]])
    assert found is not None
    assert found.drop == frozenset(gone)


def test_an_input_whose_end_has_more_tokens_than_its_beginning_keeps_its_beginning() -> None:
    """The end has as many characters, which in another script are many more tokens."""
    messages = numbered([user("hello"), AIMessage("hi"), user("word " * 400 + "配置" * 400)])
    chooser = Selector(Transcript(messages), CompactionSettings(), Meter(approximate_counter(), 0))
    found = forced(chooser, replace(TIGHT, ceiling=60, aim=60))
    assert found is not None
    assert found.tokens + TIGHT.least <= 60
    assert found.clip[2].text.startswith("word")
    assert "配置" not in found.clip[2].text


@pytest.mark.parametrize(
    ("between", "listed"), [("Always use metric units.", "Rules:\n- Always use metric units.\n"), ("", "")]
)
def test_half_of_the_free_tokens_show_both_ends_of_an_input_and_the_rules_between_them(
    between: str, listed: str
) -> None:
    """The summary has 20 of 96 tokens, the message 4 and its marker 24, so that 24 of the other 48 are used.

    A quarter of them is the beginning, and the end has as many characters.
    """
    words = [*(f"a{number:02}" for number in range(60)), "end.", between, *(f"b{number:02}" for number in range(60))]
    text = " ".join(filter(None, words))
    found = chosen([user("hello"), AIMessage("hi"), user(text)], replace(TIGHT, ceiling=96, aim=96))
    assert found is not None
    assert found.drop == {0, 1}
    assert found.clip[2].text == (
        "a00 a01 a02 a03 a04 a05 \n…\n b54 b55 b56 b57 b58 b59\n"
        f"{listed}[TRUNCATED original~{len(text.split())} tokens]"
    )


@pytest.mark.parametrize(
    ("end", "shown"), [("x x x x xxxx", "wordy wordy \n…\nx x x x xxxx"), ("x x x x x xx", "wordy " * 8)]
)
def test_the_end_of_an_input_is_shown_if_it_fits_beside_the_beginning(end: str, shown: str) -> None:
    """Within eight tokens; if the end has one more, the beginning takes all of them."""
    text = "wordy " * 60 + end
    found = chosen([user("hello"), AIMessage("hi"), user(text)], replace(TIGHT, ceiling=64, aim=64))
    assert found is not None
    assert found.clip[2].text == f"{shown}\n[TRUNCATED original~{len(text.split())} tokens]"


@pytest.mark.parametrize(("text", "shown"), [("a b c d e f g bird", None), ("a b c d e f g h bird", "a b \n…\nbird")])
def test_an_input_of_eight_tokens_is_not_shortened(text: str, shown: str | None) -> None:
    """Even if the request does not fit; an input of nine tokens is shortened."""
    found = chosen([user(text)], replace(TIGHT, ceiling=11, aim=11))
    assert (None if found is None else found.clip[0].text) == (shown and f"{shown}\n[TRUNCATED original~9 tokens]")


@pytest.mark.parametrize("free", [80, 150, 260])
def test_the_text_beside_an_image_is_shortened_to_what_the_image_leaves(free: int) -> None:
    """An image in the input stays, and its tokens are not taken for those of text."""
    messages = numbered([user([{"type": "text", "text": "alpha " * 180}, IMAGE])])
    chooser = Selector(Transcript(messages), CompactionSettings(), Meter(approximate_counter(), 0))
    size = IMAGE_TOKENS + free
    found = forced(chooser, replace(TIGHT, ceiling=size, aim=size))
    assert found is not None
    assert found.tokens <= size
    assert found.clip[0].content[1] == IMAGE
    assert "alpha" in found.clip[0].text


@pytest.mark.parametrize(
    ("messages", "long_input", "shortened", "yields"),
    [
        ([user("u")], "summarize", {0}, set()),
        ([user("u"), asks("a"), result("a")], "summarize", set(), {0}),
        ([user("u"), asks("a"), result("a")], "keep", set(), set()),
        ([user("u")], "keep", set(), set()),
        ([pinned("u")], "summarize", set(), set()),
        ([user("u"), AIMessage("answer")], "summarize", set(), set()),
    ],
)
def test_an_input_may_be_shortened_until_it_is_read_and_leave_then(
    messages: list[AnyMessage], long_input: Literal["keep", "summarize"], shortened: set[int], yields: set[int]
) -> None:
    """It stays whole if the settings say so, or if it is pinned or answered."""
    chooser = Selector(Transcript(numbered(messages)), CompactionSettings(long_input=long_input), Meter(COUNTER, 0))
    assert (chooser.shortened_input, chooser.yielding_input) == (shortened, yields)
    assert chooser.shortens_input(Selection(floor=0, clip={0: messages[0]})) == bool(shortened)
    assert not chooser.shortens_input(Selection(floor=0))
