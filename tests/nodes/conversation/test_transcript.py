"""A conversation read by position: its blocks, its rounds, and what of it waits for whom."""

import pytest
from hypothesis import given
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes.conversation.message_marks import marks
from langgraph_compaction.nodes.conversation.transcript import Transcript
from tests.fakes import summary_message
from tests.histories import asks, histories, meta, numbered, result, user
from tests.invariants import pairs, unanswered


def view(*messages: AnyMessage) -> Transcript:
    """Return the view of a conversation."""
    return Transcript(numbered(messages))


BROKEN = AIMessage(
    "",
    tool_calls=[{"name": "read", "args": {}, "id": "a"}],
    invalid_tool_calls=[{"name": "read", "args": "{", "id": "b", "error": "no JSON"}],
)


@given(histories())
def test_blocks_and_the_open_question_are_found_as_an_independent_reading_finds_them(
    history: list[AnyMessage],
) -> None:
    """A result answers the nearest call before it that waits for its id; only a text without calls answers a user."""
    transcript = Transcript(history)
    blocks = [(block.start, block.results) for block in transcript.blocks]
    assert (blocks, sorted(transcript.orphans)) == pairs(history)
    assert transcript.pending_user == unanswered(history)
    assert transcript.header == {n for n, message in enumerate(history) if isinstance(message, SystemMessage)}
    for block in transcript.blocks:
        members = sorted({block.start, *(index for index in block.results if index is not None)})
        assert list(block.indexes) == members
        assert all(transcript.block_of[index] is block for index in members)


def test_rounds_start_at_what_people_say() -> None:
    """Neither a meta message nor a summary starts a round; what an application keeps under our key is no mark."""
    mine = HumanMessage("u1", additional_kwargs={"compaction": "mine"})
    summary = summary_message("body", "one")
    assert view(AIMessage("hello"), summary, user("u0"), meta("m"), AIMessage("a"), mine).round_starts == (2, 5)
    assert marks(mine) == {}


@pytest.mark.parametrize(
    ("messages", "states", "is_settled", "unseen"),
    [
        ([asks("a")], ["open"], False, {0}),
        ([asks("a"), result("a")], ["answered"], True, {0, 1}),
        ([asks("a", "b"), result("a")], ["answered", "open"], False, {0, 1}),
        ([asks("a", "b"), result("a"), user("u")], ["answered", "interrupted"], False, {0, 1}),
        ([asks("a", "b"), result("a"), user("u"), result("b")], ["answered", "answered_late"], True, {0, 1, 3}),
        ([asks("a"), AIMessage("answer")], ["interrupted"], True, set()),
        ([asks("a"), user("u"), asks("b"), result("b")], ["interrupted"], False, {2, 3}),
        ([asks("a", "b"), AIMessage("answer"), result("a")], ["answered_late", "interrupted"], False, {0, 2}),
        ([asks("a"), result("a"), AIMessage("")], ["answered"], True, set()),
        ([asks("a"), user("u"), AIMessage("answer"), result("a")], ["answered_late"], True, {0, 3}),
        ([BROKEN], ["open", "interrupted"], False, {0}),
    ],
)
def test_a_call_is_open_interrupted_or_answered(
    messages: list[AnyMessage], states: list[str], *, is_settled: bool, unseen: set[int]
) -> None:
    """What follows the call decides: an interrupted block is settled by a full answer, and a result by any answer."""
    transcript = view(*messages)
    block = transcript.blocks[0]
    assert [transcript.call_state(block, position) for position in range(len(states))] == states
    assert transcript.is_settled(block) is is_settled
    assert transcript.unseen == unseen
    assert transcript.has_open_call == ("open" in states)


@pytest.mark.parametrize(
    ("mark", "awaits"), [({}, True), ({"compaction": {"refused": True}}, False), ({"compaction": {"x": 1}}, True)]
)
def test_a_refused_message_waits_for_no_answer(mark: dict[str, object], *, awaits: bool) -> None:
    """A refused message is still the newest message of the user."""
    transcript = view(user("u"), AIMessage("answer"), HumanMessage("v", additional_kwargs=mark))
    assert (transcript.pending_user, transcript.awaits_answer) == (2, awaits)
    assert not view(user("u"), AIMessage("answer")).awaits_answer
