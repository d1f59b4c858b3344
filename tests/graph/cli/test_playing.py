"""How a recording is played: what counts as a valid request, and how the stand-in model counts."""

from types import MappingProxyType

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.checkpoint import Database, SQLAlchemySaver
from langgraph_compaction.graph.lab.recordings import Recording
from langgraph_compaction.graph.lab.replay.openai_json import to_openai
from langgraph_compaction.graph.lab.replay.recorded_model import USAGE_BIAS, Playback, RecordingEndedError, bias_of
from langgraph_compaction.graph.lab.replay.recorded_run import Options, Player, is_paired
from langgraph_compaction.nodes.conversation.tokens import TextCounter
from tests.histories import asks, result, text_rounds, user
from tests.recount import unpaired

WORDS = TextCounter("words", lambda text: len(text.split()))

REQUESTS: dict[str, tuple[list[AnyMessage], bool]] = {
    "no calls": ([user("u"), AIMessage("done")], True),
    "parallel calls, answered in another order": ([asks("a", "b"), result("b"), result("a")], True),
    "a reused id": ([asks("a"), result("a"), asks("a"), result("a")], True),
    "one id twice": ([asks("a", "a"), result("a"), result("a")], True),
    "an unanswered call": ([asks("a"), user("u")], False),
    "an unanswered call at the end": ([asks("a", "b"), result("a")], False),
    "a late result": ([asks("a"), user("u"), result("a")], False),
    "a result of no call": ([user("u"), result("a")], False),
    "a second result": ([asks("a"), result("a"), result("a")], False),
}


@pytest.mark.requirement("S3.23")
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_paired_by_position(name: str) -> None:
    """A request is valid where each call is answered directly behind its message; the recount agrees."""
    messages, valid = REQUESTS[name]
    assert is_paired(messages) == valid == (unpaired(to_openai(messages)) == [])


@pytest.mark.requirement("S3.23")
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({1: 120, 3: 152, 5: 184}, 2.0),
        ({1: 120, 3: 152}, USAGE_BIAS),
        ({}, USAGE_BIAS),
        ({1: 9, 3: 8, 5: 7}, USAGE_BIAS),
    ],
    ids=["a line through three answers", "too few answers", "no usage", "usage that falls"],
)
def test_the_bias_is_the_slope_of_the_recorded_usage(usage: dict[int, int], expected: float) -> None:
    """The provider's tokens over ours, whatever prompt and tools the recorded calls had besides."""
    said = tuple(text_rounds(3, say="a question of", reply="an answer of"))  # 8 tokens each
    recording = Recording(name="r", messages=said, usage=MappingProxyType(usage))
    assert bias_of(recording, WORDS) == pytest.approx(expected)


@pytest.mark.requirement("S3.23")
def test_an_answer_that_nobody_asks_for_is_said_all_the_same() -> None:
    """It is handed over with the results behind it, as copies; then the person speaks, and then nothing is left."""
    messages = (user("u"), asks("a"), result("a"), user("v"))
    playback = Playback(Recording(name="r", messages=messages))
    assert playback.inputs() == [messages[0]]
    said = playback.unasked()
    assert said == [messages[1], messages[2]]
    assert said[0] is not messages[1]
    assert playback.inputs() == [messages[3]]
    assert playback.over
    with pytest.raises(RecordingEndedError):
        playback.answer()


@pytest.mark.requirement("S3.23")
def test_what_a_graph_writes_on_its_input_stays_off_the_recording() -> None:
    """Inputs are copies: a recording can be played again."""
    messages = (HumanMessage("u"),)
    playback = Playback(Recording(name="r", messages=messages))
    playback.inputs()[0].id = "given"
    assert messages[0].id is None


@pytest.mark.requirement("S4.37")
def test_in_memory_a_replay_saves_one_checkpoint_a_turn() -> None:
    """A checkpoint for each step would take longer, and nobody can inspect a database in memory later."""
    recording = Recording(name="r", messages=tuple(text_rounds(3)))
    with Database.open("memory") as database:
        database.setup()
        player = Player(recording, Options(window="1000", database=database, counter=WORDS))
        assert player.play().turns == 3
        assert len(list(SQLAlchemySaver(database).list(player.config))) == 3
