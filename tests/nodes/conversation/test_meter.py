"""What a request weighs, whole and in parts."""

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AnyMessage, ToolMessage

from langgraph_compaction.nodes.conversation.request import Meter, calibration_factor, render
from langgraph_compaction.nodes.conversation.tokens import TextCounter, messages_counter
from langgraph_compaction.nodes.conversation.transcript import Transcript
from tests.histories import asks, histories, numbered, result, user

WORDS = TextCounter("words", lambda text: len(text.split()))
BY_NAME = messages_counter(lambda messages: sum(len(str(m.name or "")) + len(m.text) + 3 for m in messages))


@given(messages=histories(), data=st.data(), counter=st.sampled_from((WORDS, BY_NAME)))
def test_what_stays_weighs_what_its_own_request_would(
    messages: list[AnyMessage], data: st.DataObject, counter: TextCounter
) -> None:
    """Whatever blocks and single messages leave, the weights of the others are the tokens of what is then sent."""
    meter, view = Meter(counter, overhead=7, scale=1.3), Transcript(messages)
    leaving = data.draw(st.sets(st.integers(0, len(messages) - 1)))
    blocks = [set(view.block_of[i].indexes) for i in leaving if i in view.block_of]
    drop = (leaving - view.block_of.keys()).union(*blocks)
    kept = [message for index, message in enumerate(messages) if index not in drop]
    weight = sum(weight for index, weight in enumerate(meter.weights(view)) if index not in drop)
    assert meter.scaled(meter.overhead + weight) == meter.request(kept)


def test_an_interrupted_call_weighs_its_stand_in() -> None:
    """The weight stands where the block begins: its results and empty turns have none; another result has its own."""
    messages = numbered([user("u"), asks("a", "b"), result("a"), user("no"), result("x")])
    stand_in = next(m for m in render(messages) if isinstance(m, ToolMessage) and m.id is None)
    weights = Meter(WORDS, 0).weights(Transcript(messages))
    assert weights == [
        5,
        *[sum(map(WORDS.message, (*messages[1:3], stand_in)))],
        0,
        5,
        WORDS.message(render(messages)[-1]),
    ]


def test_a_provider_is_never_thought_to_count_less_than_we_do() -> None:
    """The factor learnt from its report stays within 1 and 3."""
    assert [calibration_factor(*figures) for figures in ((122, 100), (50, 100), (900, 100), (5, 0))] == [
        1.22,
        1.0,
        3.0,
        1.0,
    ]
