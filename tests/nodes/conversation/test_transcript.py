import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes.conversation.message_marks import is_real_user, is_summary, marks
from langgraph_compaction.nodes.conversation.transcript import ToolBlock, Transcript, message_id
from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.histories import asks, meta, numbered, result, user


def view(*messages: AnyMessage) -> Transcript:
    """Return the view of a conversation."""
    return Transcript(numbered(messages))


def pairs(transcript: Transcript) -> list[tuple[int, tuple[int | None, ...]]]:
    """Return start and results of every block."""
    return [(block.start, block.results) for block in transcript.blocks]


BROKEN = AIMessage(
    "",
    tool_calls=[{"name": "read", "args": {}, "id": "a"}],
    invalid_tool_calls=[{"name": "read", "args": "{", "id": "b", "error": "no JSON"}],
)


@pytest.mark.parametrize(
    ("messages", "blocks"),
    [
        pytest.param([user("u"), asks("a"), result("a")], [(1, (2,))], id="one call"),
        pytest.param([asks("a", "b"), result("a"), result("b")], [(0, (1, 2))], id="parallel calls"),
        pytest.param([asks("a", "b"), result("b"), result("a")], [(0, (2, 1))], id="results in another order"),
        pytest.param([asks("a", "a"), result("a"), result("a")], [(0, (1, 2))], id="one id twice in a message"),
        pytest.param([asks("a", "b", "c"), result("a"), result("b")], [(0, (1, 2, None))], id="one result of three"),
        pytest.param([asks("a", "a"), result("a")], [(0, (1, None))], id="one id twice, one result"),
        pytest.param([asks("a"), result("a"), asks("a"), result("a")], [(0, (1,)), (2, (3,))], id="reused id"),
        pytest.param([asks("a"), user("u"), asks("a"), result("a")], [(0, (None,)), (2, (3,))], id="reused, late"),
        pytest.param(
            [asks("a"), asks("a"), result("a"), result("a")], [(0, (3,)), (1, (2,))], id="newest call first"
        ),
        pytest.param([asks("a"), user("u"), result("a")], [(0, (2,))], id="late result"),
        pytest.param([asks("a", "b"), result("a"), user("u"), result("b")], [(0, (1, 3))], id="interjection"),
        pytest.param([asks("a"), meta("m"), result("a")], [(0, (2,))], id="meta message between"),
        pytest.param([asks("a")], [(0, (None,))], id="open call"),
        pytest.param([BROKEN, result("b")], [(0, (None, 1))], id="malformed calls are calls"),
        pytest.param([user("u"), AIMessage("no calls"), result("a")], [], id="a result of no call"),
        pytest.param([result("a"), asks("a")], [(1, (None,))], id="a result before its call is none"),
    ],
)
def test_blocks_are_found_by_position(
    messages: list[AnyMessage], blocks: list[tuple[int, tuple[int | None]]]
) -> None:
    """A result answers the latest call before it that still waits for its id; the newest messages tell open calls."""
    transcript = view(*messages)
    assert pairs(transcript) == blocks
    assert transcript.has_open_call == any(map(transcript.is_open, transcript.blocks[-1:]))


def test_what_lies_between_call_and_result_is_not_part_of_the_block() -> None:
    """A meta message inside a block's range keeps its own fate."""
    transcript = view(asks("a", "b"), result("b"), meta("steer"), result("a"))
    assert transcript.blocks[0].indexes == (0, 1, 3)
    assert transcript.blocks[0].end == 3
    assert transcript.block_of == {0: transcript.blocks[0], 1: transcript.blocks[0], 3: transcript.blocks[0]}


def test_orphans_are_results_that_no_call_waits_for() -> None:
    """A second result for an answered call is an orphan, and so is one without any call."""
    transcript = view(result("x"), asks("a"), result("a"), result("a"), user("u"), result("y"))
    assert transcript.orphans == {0, 3, 5}


def test_rounds_start_at_what_people_say() -> None:
    """Neither a meta message nor a summary starts a round."""
    summary = summary_message("body", "one")
    transcript = view(AIMessage("hello"), summary, user("u0"), meta("m"), AIMessage("a"), user("u1"))
    assert transcript.round_starts == (2, 5)
    assert not is_real_user(summary)
    assert is_summary(summary)
    assert not is_real_user(AIMessage("a"))


def test_marks_of_another_shape_are_no_marks() -> None:
    """An application's own value under our key is left alone."""
    assert marks(HumanMessage("u", additional_kwargs={"compaction": "mine"})) == {}
    assert is_real_user(HumanMessage("u", additional_kwargs={"compaction": "mine"}))


def test_system_messages_are_the_header_wherever_they_stand() -> None:
    """Their place does not matter."""
    assert view(SystemMessage("s"), user("u"), SystemMessage("s"), AIMessage("a")).header == {0, 2}


@pytest.mark.parametrize(
    ("messages", "pending"),
    [
        ([], None),
        ([AIMessage("a")], None),
        ([user("u")], 0),
        ([user("u"), AIMessage("answer")], None),
        ([user("u"), AIMessage("")], 0),
        ([user("u"), AIMessage(" \n")], 0),
        ([user("u"), asks("a", text="let me look"), result("a")], 0),
        ([user("u"), asks("a"), result("a"), AIMessage("answer")], None),
        ([user("u"), AIMessage("answer"), user("v"), meta("m")], 2),
        ([user("u"), user("v")], 1),
        ([user("u"), AIMessage([{"type": "thinking", "thinking": "hm"}])], 0),
    ],
)
def test_a_user_message_is_pending_until_a_full_answer(messages: list[AnyMessage], pending: int | None) -> None:
    """Only text without calls answers; a call, a thought or an empty turn does not."""
    assert view(*messages).pending_user == pending


@pytest.mark.parametrize(
    ("messages", "states"),
    [
        ([asks("a")], ["open"]),
        ([asks("a", "b"), result("a")], ["answered", "open"]),
        ([asks("a", "b"), result("a"), result("b")], ["answered", "answered"]),
        ([asks("a", "b"), result("a"), user("u")], ["answered", "interrupted"]),
        ([asks("a", "b"), result("a"), user("u"), result("b")], ["answered", "answered_late"]),
        ([asks("a"), AIMessage("answer")], ["interrupted"]),
        ([BROKEN], ["open", "interrupted"]),
        ([BROKEN, result("a")], ["answered", "interrupted"]),
    ],
)
def test_a_call_is_open_interrupted_or_answered(messages: list[AnyMessage], states: list[str]) -> None:
    """What follows the call decides, its siblings' results aside."""
    transcript = view(*messages)
    block = transcript.blocks[0]
    assert [transcript.call_state(block, position) for position in range(len(states))] == states
    assert transcript.has_open_call == ("open" in states)


def test_only_the_last_block_can_be_open() -> None:
    """An unanswered call in the past is interrupted; without any call nothing is open."""
    assert not view(asks("a"), user("u"), asks("b"), result("b")).has_open_call
    assert view(asks("a"), user("u"), asks("b")).has_open_call
    assert not view(user("u")).has_open_call


@pytest.mark.parametrize(
    ("messages", "settled"),
    [
        ([asks("a"), result("a")], True),
        ([asks("a")], False),
        ([asks("a"), user("u")], False),
        ([asks("a"), user("u"), asks("b"), result("b")], False),
        ([asks("a"), user("u"), AIMessage("answer")], True),
        ([asks("a", "b"), AIMessage("answer"), result("a")], False),
    ],
)
def test_an_interrupted_block_is_settled_by_a_full_answer(messages: list[AnyMessage], *, settled: bool) -> None:
    """Until one follows, its missing result may still come and the block stays."""
    transcript = view(*messages)
    assert transcript.is_settled(transcript.blocks[0]) is settled


@pytest.mark.parametrize(
    ("messages", "unseen"),
    [
        ([user("u")], set()),
        ([user("u"), asks("a"), result("a")], {1, 2}),
        ([asks("a"), result("a"), AIMessage("")], set()),
        ([asks("a"), result("a"), asks("b", "c"), result("b"), result("c")], {2, 3, 4}),
        ([asks("a"), result("a"), user("u")], {0, 1}),
        ([asks("a"), user("u"), AIMessage("answer"), result("a")], {0, 3}),
        ([user("u"), asks("a")], {1}),
    ],
)
def test_results_are_unseen_until_an_assistant_message_follows(messages: list[AnyMessage], unseen: set[int]) -> None:
    """The model waits for them, a late one as well, so their blocks may not leave."""
    assert view(*messages).unseen == unseen


def test_a_block_names_its_messages_in_order() -> None:
    """Indexes ascend even where results came in another order than the calls."""
    assert ToolBlock(2, (5, None, 3)).indexes == (2, 3, 5)
    assert ToolBlock(2, (None,)).end == 2


@pytest.mark.parametrize(
    ("messages", "step"),
    [
        ([user("u"), AIMessage("a")], None),
        ([asks("a", "b"), result("b")], (2, 1)),
        ([asks("a"), result("a"), AIMessage("seen"), asks("b", "c"), result("b"), result("c")], (2, 2)),
        ([asks("a", "b", "c")], (3, 0)),
        ([asks("a"), result("a"), AIMessage("seen")], None),
    ],
)
def test_the_last_step_is_counted_in_calls_and_results(
    messages: list[AnyMessage], step: tuple[int, int] | None
) -> None:
    """The step contains only messages that the model has not read and that are among the given indexes."""
    transcript = view(*messages)
    assert transcript.last_step(range(len(messages))) == step
    assert transcript.last_step([]) is None


@pytest.mark.parametrize(
    ("mark", "awaits"), [({}, True), ({"compaction": {"refused": True}}, False), ({"compaction": {"x": 1}}, True)]
)
def test_a_refused_message_waits_for_no_answer(mark: dict[str, object], *, awaits: bool) -> None:
    """A refused message is still the newest message of the user."""
    transcript = view(user("u"), AIMessage("answer"), HumanMessage("v", additional_kwargs=mark))
    assert (transcript.pending_user, transcript.awaits_answer) == (2, awaits)
    assert not view(user("u"), AIMessage("answer")).awaits_answer


def test_a_result_knows_the_place_of_its_call() -> None:
    """A call without a result has none."""
    assert view(asks("a", "b", "c"), result("c"), result("a")).blocks[0].position_of == {2: 0, 1: 2}


def test_a_message_without_an_id_is_an_error() -> None:
    """Ids are assigned before messages are chosen."""
    assert message_id(user("u", id="m1")) == "m1"
    with pytest.raises(ValueError, match="without an id"):
        message_id(user("u"))
