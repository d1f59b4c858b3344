"""The measures of the benchmarks see what they are there to see, on conversations whose figures are known."""

from collections.abc import Sequence
from typing import Any

import pytest
from fault_histories import calls
from fault_histories import result as fault_result
from fault_model import MOST_CALLS, TooManyCallsError, flaw
from fault_runs import measured as fault_measured
from fault_scenarios import SCENARIOS
from fault_systems import Setup, System, state_of
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from online_threads import played_threads
from planted import PLACES, plant, planted, survives
from planted import measured as planted_measured
from sentences import CONSTRAINTS

from langgraph_compaction.graph.lab.evaluation.online import READ, WRITE, Run, turn_by_turn, uncompacted
from langgraph_compaction.graph.lab.evaluation.policies import count
from langgraph_compaction.graph.lab.evaluation.survival import cut
from tests.histories import asks

ASKED = HumanMessage("Question 1?")
BLOCK = [calls("a", "b"), fault_result(2, "b"), fault_result(1, "a")]


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([AIMessage("hello")], "no user message"),
        ([ASKED, calls("a", "b"), fault_result(1, "a")], "'call-2'"),
        ([ASKED, calls("a", "b"), fault_result(1, "a"), ASKED, fault_result(2, "b")], "messages.3"),
        ([ASKED, fault_result(1, "a")], "messages.1"),
        ([ASKED, calls("a"), fault_result(1, "a"), fault_result(1, "a")], "messages.3"),
        ([ASKED, AIMessage(" \n")], "messages.1: it is empty"),
        ([ASKED, *BLOCK, AIMessage("Answer 1."), *BLOCK], None),
    ],
)
def test_the_model_refuses_what_a_provider_refuses(messages: list[BaseMessage], found: str | None) -> None:
    """A request whose calls and results do not pair, or that says nothing, is a flaw that is named; others pass."""
    said = flaw(messages)
    assert said is None if found is None else found in (said or "")


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
BY_INDEX = _system(lambda messages, _: messages[64:])
GHOSTLY = _system(_with_ghost)
LOOPING = _system(lambda *_: [ASKED], ("model", "model"))


@pytest.mark.parametrize(
    ("system", "scenario", "expected"),
    [
        (BARE, "three windows of history", {"answered": 0, "needles": 0, "over_window": 5, "retrievable": 8}),
        (BARE, "the user speaks between", {"answered": 0, "needles": 0, "invalid_requests": 5}),
        (BARE, "resumed (F9)", {"answered": 5, "needles": 8, "note": "1 x ModelAPIError"}),
        (BY_INDEX, "the user deletes", {"answered": 5, "needles": 6}),
        (FORGETFUL, "nothing fails", {"answered": 5, "needles": 0, "retrievable": 8, "over_window": 0}),
        (GHOSTLY, "what is streamed", {"answered": 0, "note": "5 x another answer"}),
        (LOOPING, "nothing fails", {"answered": 0, "note": f"5 x {TooManyCallsError.__name__}"}),
    ],
)
def test_the_harness_sees_what_a_system_does_wrong(system: System, scenario: str, expected: dict[str, Any]) -> None:
    """What a graph forgets, sends in vain, shows beside the answer or calls without end is measured as such."""
    row = fault_measured(next(one for one in SCENARIOS if scenario in one.name), system)
    assert {name: getattr(row, name) for name in expected} == expected


def newest(old: Sequence[AnyMessage], _cap: int) -> list[AnyMessage]:
    """Return only the last message."""
    return [old[-1]]


def test_the_figures_of_threads_are_those_counted_by_hand() -> None:
    """The figures of two threads that are played three times equal figures that are computed by hand.

    The first thread has requests of 10, 20 and 30 tokens, and the second thread has requests of 10 and 20 tokens.
    With a limit of 20 tokens, two of the three plays compact the third request of the first thread to 10 tokens.
    These plays lose one of the two identifiers that the last call needs.
    """
    told = [SystemMessage("be"), *(m for n in range(101, 104) for m in (HumanMessage(f"{n}"), AIMessage("ok")))]
    one = Run("a", [*told[:-1], asks("a", of=["101", "103"])])
    two = Run("b", [*told[:4], asks("b", of="102")])
    threads = [(one, ["", "x", "x", "y", "y", "x", "x"]), (two, ["", "z", "z", "z", "z"])]
    policies = {"lossy": (turn_by_turn(newest),) * 2 + (uncompacted,), "whole": (uncompacted,) * 3}
    shared = {
        "limit": 20,
        "threads": 2,
        "runs": 2,
        "tokens": round((count(one.messages) + count(two.messages)) / 2),
        "quoted": 0.0,
        "quoted_tokens": 0,
    }
    assert list(played_threads(threads, policies, [20], {"whole": "lossy"})) == [
        {
            **shared,
            "policy": "lossy",
            "compactions": round(2 / 6, 1),
            "tokens_over_limit": round((2 * 40 + 60 + 3 * 30) / (15 * 20), 4),
            "over_limit": round(1 / 15, 4),
            "cost": round((2 * (25 * WRITE + 15 * READ) + 90 * WRITE + 60 * READ) / (150 * WRITE + 120 * READ), 4),
            "available": round((4 + 3) / (6 + 3), 4),
            "ci95": [round(4 / 6, 4), 1.0],
        },
        {
            **shared,
            "policy": "whole",
            "compactions": 0.0,
            "tokens_over_limit": round((3 * 60 + 3 * 30) / (15 * 20), 4),
            "over_limit": round(3 / 15, 4),
            "cost": 1.0,
            "available": 1.0,
            "ci95": [1.0, 1.0],
            "gain": round(2 / 9, 4),
            "gain_ci95": [0.0, round(2 / 6, 4)],
        },
    ]


@pytest.mark.parametrize(
    ("between", "around", "survived"),
    [(58, (0, 0), True), (59, (0, 0), False), (58, (1, 1), True), (59, (9, 9), False)],
)
def test_half_of_a_rules_words_survive_together(between: int, around: tuple[int, int], survived: bool) -> None:
    """A rule survives if 60 consecutive words of the context contain at least half of the rule's words."""
    before, after = around
    context = " ".join([*["fog"] * before, "alpha", *["fog"] * between, "beta", *["fog"] * after])
    assert survives(context, "alpha beta gamma delta") is survived
    assert not survives(context, "alpha beta gamma delta omega")


def test_sentences_are_counted_by_the_place_at_which_they_were_planted() -> None:
    """At the first, the middle and the last message of the user; no sentence passes for another."""
    users: list[AnyMessage] = [HumanMessage(f"message {number}", id=f"{number}") for number in range(5)]
    for at, index in ((0.0, 0), (0.5, 2), (1.0, 4)):
        said = [*users[:index], HumanMessage(f"Hush. message {index}", id=f"{index}"), *users[index + 1 :]]
        assert planted(users, "Hush.", at, before=True) == said
    for sentence in CONSTRAINTS:
        assert [other for other in CONSTRAINTS if survives(sentence, other)] == [sentence]
    runs = [plant(cut("talk", [*users, asks("a", of="X-1")], 0.9), 1)]
    policies = {"all": (lambda old, _: old,), "none": (lambda _old, _cap: [],)}
    every, none = planted_measured(runs, policies, [1.0])
    assert every["rules"] == dict.fromkeys(PLACES, 1.0)
    assert none["rules"] == dict.fromkeys(PLACES, 0.0)
