from typing import Any

import pytest
from fault_histories import FACTS, calls, result
from fault_model import MOST_CALLS, Request, TooManyCallsError, flaw
from fault_runs import Row, measured
from fault_scenarios import SCENARIOS, Scenario
from fault_systems import OURS, Setup, System, state_of
from fault_writers import SERVER_ERROR, fails
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

ASKED = HumanMessage("Question 1?")
MALFORMED: dict[str, tuple[list[BaseMessage], str]] = {
    "no user": ([AIMessage("hello")], "no user message"),
    "a call is not answered": ([ASKED, calls("a", "b"), result(1, "a")], "'call-2'"),
    "a word between the results": ([ASKED, calls("a", "b"), result(1, "a"), ASKED, result(2, "b")], "messages.3"),
    "a result of no call": ([ASKED, result(1, "a")], "messages.1"),
    "a result given twice": ([ASKED, calls("a"), result(1, "a"), result(1, "a")], "messages.3"),
    "nothing said": ([ASKED, AIMessage(" \n")], "messages.1: it is empty"),
}


def _named(word: str) -> Scenario:
    return next(scenario for scenario in SCENARIOS if word in scenario.name)


def _system(shown: Any, *edges: tuple[str, str]) -> System:
    """A graph that calls the model on what `shown` leaves of the conversation, and compacts nothing."""

    def build(setup: Setup) -> Any:
        builder = StateGraph(MessagesState)
        builder.add_node("model", lambda state: {"messages": [setup.model.invoke(shown(state["messages"], setup))]})
        for edge in ((START, "model"), *edges):
            builder.add_edge(*edge)
        return builder.compile(checkpointer=InMemorySaver()).with_config(recursion_limit=10 * MOST_CALLS)

    return System("test", build, state_of)


def _with_ghost(messages: list[AnyMessage], setup: Setup) -> list[AnyMessage]:
    """All of the conversation, after a summary of it that the user sees being written."""
    setup.summarizer.invoke(messages)
    return messages


BARE = _system(lambda messages, _: messages)
FORGETFUL = _system(lambda messages, _: messages[-3:])
STUCK = _system(lambda messages, _: messages[:1])
BY_INDEX = _system(lambda messages, _: messages[64:])
GHOSTLY = _system(_with_ghost)
LOOPING = _system(lambda *_: [ASKED], ("model", "model"))


@pytest.mark.parametrize(("messages", "found"), MALFORMED.values(), ids=MALFORMED)
def test_the_model_refuses_what_a_provider_refuses(messages: list[BaseMessage], found: str) -> None:
    """A request whose calls and results do not pair, or that says nothing, is a flaw that is named."""
    assert found in (flaw(messages) or "")


def test_the_model_takes_a_request_in_order() -> None:
    """Parallel results may come in any order, and under ids that were used before."""
    block = [calls("a", "b"), result(2, "b"), result(1, "a")]
    assert flaw([ASKED, *block, AIMessage("Answer 1."), *block]) is None


@pytest.mark.parametrize(
    ("system", "scenario", "expected"),
    [
        (BARE, "three windows of history", {"answered": 0, "needles": 0, "over_window": 5, "retrievable": 8}),
        (BARE, "the user speaks between", {"answered": 0, "needles": 0, "invalid_requests": 5}),
        (BARE, "resumed (F9)", {"answered": 5, "needles": 8, "note": "1 x ModelAPIError"}),
        (BARE, "the user deletes", {"answered": 5, "needles": 8}),
        (BY_INDEX, "the user deletes", {"answered": 5, "needles": 6}),
        (FORGETFUL, "nothing fails", {"answered": 5, "needles": 0, "retrievable": 8, "over_window": 0}),
        (STUCK, "nothing fails", {"answered": 0, "note": "5 x another answer"}),
        (GHOSTLY, "nothing fails", {"answered": 5, "summary_calls": 5}),
        (GHOSTLY, "what is streamed", {"answered": 0, "note": "5 x another answer"}),
        (LOOPING, "nothing fails", {"answered": 0, "note": f"5 x {TooManyCallsError.__name__}"}),
    ],
)
def test_the_harness_sees_what_a_system_does_wrong(system: System, scenario: str, expected: dict[str, Any]) -> None:
    """What a graph forgets, sends in vain, shows beside the answer or calls without end is measured as such."""
    row = measured(_named(scenario), system)
    assert {name: getattr(row, name) for name in expected} == expected


def test_a_summarizer_fails_so_many_times_and_then_works() -> None:
    """One that fails for ever is never heard; one that fails once is heard the second time."""
    request = Request([ASKED], 0, None, is_over=False)
    once, ever = (fails(SERVER_ERROR, **times)(FACTS) for times in ({"times": 1}, {}))
    for reply in (once, ever, ever):
        with pytest.raises(type(SERVER_ERROR)):
            reply(request)
    assert "Question 1" in once(request).text


def _ours(scenario: str) -> Row:
    return measured(_named(scenario), OURS)


@pytest.mark.parametrize(
    "scenario",
    ["raises, every time (F1)", "already over the window", "the summary is empty", "longer than all it replaces"],
)
def test_a_summary_that_fails_costs_no_turn_and_no_history(scenario: str) -> None:
    """Where no summary can be had, every question is answered and all that was said can be found (F1, F2, F3)."""
    row = _ours(scenario)
    assert (row.answered, row.retrievable, row.invalid_requests) == (5, 8, 0)
    assert row.needles >= 4  # those that hold an identifier


def test_a_good_summary_is_all_that_is_needed() -> None:
    """Where nothing fails, every fact stands in the last request, after one compaction."""
    row = _ours("nothing fails")
    assert (row.answered, row.needles, row.over_window) == (5, 8, 0)
    assert 1 <= row.summary_calls <= 2


def test_a_window_that_is_not_known_is_no_turn_lost() -> None:
    """A system that refuses to be built says why, and is not counted (F20)."""
    row = _ours("the window is not known")
    assert (row.turns, row.note) == (0, "not built: UnknownWindowError")
