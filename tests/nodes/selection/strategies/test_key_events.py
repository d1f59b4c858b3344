"""What tells of something that happened stays word for word."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.selection.strategies.key_events import is_key
from tests.histories import asks, meta, result
from tests.nodes.selection.strategies.selecting import LONG, dropped, selected, talk


@pytest.mark.parametrize(
    ("message", "key"),
    [
        (HumanMessage("anything"), True),
        (meta("anything"), False),
        (asks("a"), True),
        (result("a", "plain"), False),
        (result("a", "✅"), True),
        (result("a", "Traceback: it failed"), True),
        (AIMessage("the work is finished"), True),
        (AIMessage("任务开始"), True),
        (AIMessage("we debugged it"), True),
        (AIMessage("that is crucial"), True),
        (AIMessage("the plan".ljust(100)), False),
        (AIMessage("the plan".ljust(101)), True),
        (AIMessage("the planet".ljust(200)), False),
    ],
)
def test_what_is_a_key_event(message: AnyMessage, key: bool) -> None:
    """A person's words, calls, completions, troubles, marks; a decision only in a text of over 100 characters."""
    assert is_key(message, CompactionSettings()) is key


@pytest.mark.parametrize(("keep", "left"), [(0, 10), (4, 6), (5, 5), (10, 0)])
def test_the_rest_leaves_but_for_its_newest(keep: int, left: int) -> None:
    """Five of them stay by default."""
    messages = talk(20)
    found = dropped("key_events", messages, key_events_keep_other=keep)
    assert found == [index for index in range(1, 21) if isinstance(messages[index], AIMessage)][:left]
    assert len(dropped("key_events", messages)) == 5


def test_it_is_summarized() -> None:
    """And nothing that stays is."""
    found = selected("key_events", talk(20))
    assert found is not None
    assert found.summarize is True


def test_the_results_of_a_call_stay_with_it() -> None:
    """A plain result is no event by itself."""
    messages = [*talk(8)[1:], asks("a", "b"), result("a", "plain" + LONG), result("b"), AIMessage("so")]
    assert dropped("key_events", messages, key_events_keep_other=0) == [1, 3, 5, 7, 11]


@pytest.mark.parametrize(("count", "left"), [(9, 0), (10, 5)])
def test_not_in_a_short_talk(count: int, left: int) -> None:
    """Ten messages are the fewest."""
    assert len(dropped("key_events", talk(count), key_events_keep_other=0)) == left
