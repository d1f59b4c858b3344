"""The checkers find what they are there to find."""

from collections.abc import Callable

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from tests.histories import asks, numbered, pinned, result, user
from tests.invariants import check_request, check_transition, pairs, unanswered

BEFORE: list[AnyMessage] = numbered(
    [
        SystemMessage("rules"),
        user("old"),
        asks("a"),
        result("a"),
        AIMessage("answer"),
        pinned("pinned"),
        AIMessage("noted"),
        user("newest"),
    ]
)
SUMMARY = HumanMessage("s", id="s", additional_kwargs={"compaction": {"kind": "compaction_summary", "is_meta": True}})


def without(*places: int) -> list[AnyMessage]:
    """Return the conversation without some messages."""
    return [message for index, message in enumerate(BEFORE) if index not in places]


def with_text(place: int, text: str) -> list[AnyMessage]:
    """Return the conversation with another text in one message."""
    return [m.model_copy(update={"content": text}) if i == place else m for i, m in enumerate(BEFORE)]


def with_call(call_id: str, name: str) -> list[AnyMessage]:
    """Return the conversation with another call in the place of its own."""
    calls = [{"name": name, "args": {}, "id": call_id, "type": "tool_call"}]
    return [m.model_copy(update={"tool_calls": calls}) if i == 2 else m for i, m in enumerate(BEFORE)]


@pytest.mark.parametrize(
    "after",
    [BEFORE, without(1), without(2, 3), [BEFORE[0], SUMMARY, *BEFORE[5:]], with_text(3, "cut")],
    ids=["nothing", "a message", "a block", "a summary", "a clip"],
)
def test_a_sound_step_passes(after: list[AnyMessage]) -> None:
    """What a compaction may do."""
    check_transition(BEFORE, after)
    check_request(after)


BREACHES: dict[str, tuple[Callable[[], list[AnyMessage]], str]] = {
    "an id is missing": (lambda: [*BEFORE, user("new")], "a message has no id"),
    "an id comes twice": (lambda: [*BEFORE, BEFORE[1]], "two messages have one id"),
    "order": (lambda: [BEFORE[0], BEFORE[5], *BEFORE[1:5], *BEFORE[6:]], "order has changed"),
    "a foreign message": (lambda: [*BEFORE, user("new", id="n")], "new and no summary"),
    "two summaries": (lambda: [SUMMARY, SUMMARY.model_copy(update={"id": "t"}), *BEFORE], "more than one summary"),
    "a system message": (lambda: without(0), "m0 was protected"),
    "a pin": (lambda: without(5), "m5 was protected"),
    "the question": (lambda: without(7), "m7 was protected"),
    "half a block": (lambda: without(3), "torn or paired anew"),
    "a result without its call": (lambda: without(2), "lost its call"),
    "a changed answer": (lambda: with_text(4, "another"), "m4 was changed"),
    "another call": (lambda: with_call("a", "write"), "m2 makes other calls"),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_found(breach: str) -> None:
    """By the assertion that is about it."""
    propose, words = BREACHES[breach]
    with pytest.raises(AssertionError, match=words):
        check_transition(BEFORE, propose())


def test_breaches_by_the_figures_are_found() -> None:
    """Pins by id, the tokens before, the ceiling, the earlier summary, the last user message."""
    with pytest.raises(AssertionError, match="m1 was protected"):
        check_transition(BEFORE, without(1), pins=["m1"])
    with pytest.raises(AssertionError, match="not fewer tokens"):
        check_transition(BEFORE, without(1), count=lambda _: 5)
    with pytest.raises(AssertionError, match="7 tokens, at most 6"):
        check_transition(BEFORE, without(1), count=len, ceiling=6)
    check_transition(BEFORE, without(1), count=len, ceiling=7)
    with pytest.raises(AssertionError, match="earlier summary is lost"):
        check_transition([SUMMARY, *BEFORE], without(1))
    with pytest.raises(AssertionError, match="no user message"):
        check_transition(BEFORE[1:5], BEFORE[2:5])


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ([result("a")], "answers no call"),
        ([asks("a")], "end: the calls"),
        ([asks("a"), user("u"), result("a")], "before it have no result"),
        ([asks("a"), result("b")], "out of order"),
        ([user("u"), AIMessage("")], "is empty"),
    ],
)
def test_an_invalid_request_is_found(request_: list[AnyMessage], words: str) -> None:
    """Whatever no provider would take."""
    with pytest.raises(AssertionError, match=words):
        check_request(request_)


def test_pairs_and_questions_are_read_by_position() -> None:
    """The nearest call before a result; the newest question without a full answer."""
    assert pairs([asks("a"), asks("a"), result("a"), result("x")]) == ([(0, (None,)), (1, (2,))], [3])
    assert unanswered(BEFORE) == 7
    assert unanswered(BEFORE[:5]) is None
    assert unanswered(BEFORE[:4]) == 1
    assert unanswered([SUMMARY]) is None
