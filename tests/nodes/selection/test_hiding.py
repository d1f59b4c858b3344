from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.request import Meter, render
from langgraph_compaction.nodes.conversation.tokens import approximate_counter, tiktoken_counter
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.events import Counts
from langgraph_compaction.nodes.selection.hiding import hide_oldest
from langgraph_compaction.nodes.selection.selector import Demand, Selection, Selector
from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.histories import IMAGE, applied, asks, histories, numbered, pinned, result, text_rounds, user
from tests.invariants import check_request

LONG = " one" * 100


def selector(messages: Sequence[AnyMessage], scale: float = 1.0) -> Selector:
    """Return the selector of a conversation."""
    return Selector(Transcript(numbered(messages)), CompactionSettings(), Meter(tiktoken_counter(), 0, scale))


def hidden(messages: Sequence[AnyMessage], aim: int, summary: int = 0, scale: float = 1.0) -> Selection:
    """Return what is hidden to reach an aim."""
    return hide_oldest(
        selector(messages, scale), Demand(before=10**6, ceiling=aim, aim=aim, summary=summary, must_fit=True)
    )


@pytest.mark.parametrize("scale", [1.0, 1.7])
@pytest.mark.parametrize("rounds", [0, 1, 3, 11])
def test_the_oldest_leave_until_the_rest_fits(rounds: int, scale: float) -> None:
    """Not one message more than needed, and the floor does not hold."""
    messages = text_rounds(12, say=LONG)
    chooser = selector(messages, scale)
    aim = chooser.tokens(frozenset(range(2 * rounds)), {})
    assert hidden(messages, aim, scale=scale).drop == frozenset(range(2 * rounds))
    assert hidden(messages, aim - 1, scale=scale).drop == frozenset(range(2 * rounds + 1))
    assert hidden(messages, aim, scale=scale).floor == 0


def test_room_is_left_for_the_notice() -> None:
    """What the summary needs counts against the aim."""
    messages = text_rounds(12, say=LONG)
    assert len(hidden(messages, 800, summary=200).drop) > len(hidden(messages, 800).drop)


def test_blocks_leave_whole() -> None:
    """One block is one step, whatever lies between its messages."""
    messages = [user("u"), asks("a", "b"), result("a", LONG), user("stop"), result("b", LONG), *text_rounds(1)]
    found = hidden(messages, 60)
    assert found.drop == {0, 1, 2, 4}
    assert found.counts == Counts(blocks_dropped=1)


def test_of_the_pictures_that_stay_the_oldest_leave_first() -> None:
    """As many as there is room for once their texts fit."""
    blocks = [
        m for n in range(4) for m in (asks(f"c{n}"), result(f"c{n}", [{"type": "text", "text": "seen"}, IMAGE]))
    ]
    found = hidden([user("u"), *blocks, AIMessage("answer")], 3_600)
    assert found.drop == set()
    assert sorted(found.clip) == [2, 4]


def test_what_is_protected_stays() -> None:
    """System messages, pins, the unanswered user message and the results the model waits for."""
    messages = [
        *text_rounds(2),
        SystemMessage("s"),
        pinned("p"),
        AIMessage("a"),
        user("newest"),
        asks("a"),
        result("a"),
    ]
    assert hidden(messages, 0).drop == {0, 1, 2, 3, 6}


def test_what_stays_is_cut_where_it_does_not_fit() -> None:
    """First by the thresholds, then as short as the aim asks for."""
    messages = [user("u"), asks("a"), result("a", " one" * 5_000)]
    assert hidden(messages, 300).tokens <= 300
    assert hidden(messages, 300).drop == frozenset()
    assert "[TRUNCATED original~5000 tokens]" in str(hidden(messages, 300).clip[2].content)
    assert 70 < hidden(messages, 100).tokens <= 100


@pytest.mark.parametrize("must_fit", [True, False])
@pytest.mark.parametrize("pin", [True, False])
def test_a_step_leaves_only_where_the_request_must_fit(must_fit: bool, pin: bool) -> None:
    """One of very many calls, which cannot be cut; a pinned one never leaves."""
    names = [f"c{n}" for n in range(50)]
    step = asks(*names)
    if pin:
        step.additional_kwargs["compaction"] = {"pinned": True}
    messages = [user("u"), step, *(result(name) for name in names)]
    wanted = Demand(before=10**6, ceiling=200, aim=100, summary=20, least=20, must_fit=must_fit)
    found = hide_oldest(selector(messages), wanted)
    leaves = must_fit and not pin
    assert found.drop == (frozenset(range(1, 52)) if leaves else frozenset())
    assert found.owes_summary == leaves
    assert selector(messages).steps == (frozenset() if pin else frozenset(range(1, 52)))


def test_clipping_alone_may_be_enough() -> None:
    """Then nothing leaves and nothing is owed."""
    found = hidden([user("u"), asks("a"), result("a", " one" * 5_000), AIMessage("done")], 300)
    assert (found.drop, found.owes_summary) == (frozenset(), False)


def test_the_earlier_summary_leaves_with_the_first() -> None:
    """Wherever it stands: the notice takes it up, and two summaries would never pass the gate."""
    messages = [*text_rounds(3, say=LONG), summary_message("earlier", "one"), *text_rounds(3, say=LONG)]
    found = hidden(messages, 600)
    assert found.drop == {0, 6}
    assert found.owes_summary
    assert hidden(messages, 10**6).drop == frozenset()


@pytest.mark.parametrize("costless", [result("nobody", LONG * 50), AIMessage("", tool_calls=[])])
def test_what_is_never_sent_saves_nothing(costless: Any) -> None:
    """A result of no call is dropped on the way, and the rest still has to fit."""
    messages = [costless, *text_rounds(12, say=LONG)]
    assert hidden(messages, 400).tokens <= 400


@settings(max_examples=60, deadline=None)
@given(history=histories(), share=st.floats(0, 1))
def test_it_always_ends_with_a_valid_request(history: list[AnyMessage], share: float) -> None:
    """It reaches the aim, or nothing but the protected is left."""
    chooser = Selector(Transcript(history), CompactionSettings(), Meter(approximate_counter(), 0))
    aim = int(share * chooser.meter.request(history))
    found = hide_oldest(chooser, Demand(before=10**6, ceiling=aim, aim=aim, summary=0))
    assert not found.drop & chooser.untouchable
    assert found.tokens <= aim or found.drop == frozenset(range(len(history))) - chooser.untouchable
    assert not set(found.clip) & found.drop
    check_request(render(applied(history, found.drop, found.clip)))
