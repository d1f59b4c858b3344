"""What the figures of a policy say: of one that keeps all, of one that keeps nothing, and of what lies between."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.graph.lab.evaluation.policies import Policy
from langgraph_compaction.graph.lab.evaluation.scores import measured
from langgraph_compaction.graph.lab.evaluation.survival import bound, cut, identifiers, text_of
from tests.histories import asks, result

PROMPT = "Orders begin with ORD-7."
TALK: list[AnyMessage] = [
    SystemMessage(PROMPT),
    HumanMessage("Please look up my order FQ8APE, it was a present."),
    asks("a", order="FQ8APE"),
    result("a", '{"order": "FQ8APE", "carrier": "north", "parcel": "PX-1138", "weight": "heavy"}'),
    AIMessage("It is on its way."),
    HumanMessage("Then change the parcel."),
    asks("b", parcel="PX-1138", order="FQ8APE", prefix="ORD-7"),
    result("b", '{"ok": "ZZ-9"}'),
    asks("c", code="ZZ-9"),
    result("c", "done"),
]


def row(policy: Policy, budget: float = 1.0, talk: Sequence[AnyMessage] = TALK) -> dict[str, Any]:
    """Return the figures of a policy on one run."""
    (found,) = measured([cut("talk", talk, 0.6)], {"it": (policy,)}, [budget])
    return found


def test_a_later_call_needs_what_was_seen_before_and_nobody_said_again() -> None:
    """Neither what the prompt says nor what a result behind the cut gives."""
    run = cut("talk", TALK, 0.6)
    assert run.identifiers == {"PX-1138", "FQ8APE"}
    assert run.needed == [frozenset({"PX-1138", "FQ8APE"})]
    assert text_of(run.old).startswith("Please look up")


def test_a_cut_stands_behind_all_results_of_a_call() -> None:
    """A cut never separates a call from one of its results, whatever the share is.

    A message without an id gets an id from its position in the run.
    """
    said: list[AnyMessage] = [SystemMessage("be"), HumanMessage("hi", id="own"), asks("a", "b")]
    said += [result("a"), result("b")]
    talk = [*said, AIMessage("ok"), HumanMessage("go")]
    assert [talk.index(cut("talk", talk, (n + 0.5) / 7).later[0]) for n in range(7)] == [0, 1, 2, 5, 5, 5, 6]
    assert cut("talk", talk, 1.0).later == cut("talk", said, 0.7).later == []
    assert [message.id for message in cut("talk", talk, 0.5).old] == ["own", "message-2", "message-3", "message-4"]


def test_identifiers_have_a_digit_a_joiner_or_capitals_only() -> None:
    """An identifier has at least three characters."""
    text = "Call ABC about fq8ape, Abc and PX-1138.\nFiles: src/a.py, a-b (x1, PX, 12) 123 order_id ABC, at me@x.org!"
    assert identifiers(text) == {"ABC", "fq8ape", "PX-1138", "src/a.py", "a-b", "123", "order_id", "me@x.org"}


@pytest.mark.parametrize(
    ("context", "is_bound"),
    [
        ("fox PX-1 hen", True),
        ("PX-1: Hen, FOX", True),
        ("fox fox PX-1 of", False),
        ("fox hen PX-12", False),
        (f"fox {'.' * 76}PX-1 hen", True),
        (f"fox {'.' * 77}PX-1 hen", False),
        (f"fox PX-1{'.' * 77}hen", True),
        (f"fox PX-1{'.' * 78}hen", False),
        (f"fox PX-1 {'.' * 99} PX-1 hen", False),
        ("PX-1 owl yak", False),
    ],
)
def test_an_identifier_is_bound_to_two_words_near_it(context: str, is_bound: bool) -> None:
    """A word of three or more letters is near an identifier if the word is within 80 characters on either side."""
    assert bound(context, f"owl {'.' * 80} of fox PX-1 hen {'.' * 80} yak", "PX-1") is is_bound


def test_to_keep_all_is_everything_and_to_keep_nothing_is_none() -> None:
    """The two ends of each figure."""
    every, none = row(lambda old, _: old), row(lambda _old, _cap: [])
    for name in ("recall", "bound", "calls"):
        assert (every[name], none[name]) == (1.0, 0.0)
        assert (every["ci95"][name], none["ci95"][name]) == ([1.0, 1.0], [0.0, 0.0])
    assert (every["tokens_over_cap"], every["within_cap"], none["tokens_over_cap"]) == (1.0, 1.0, 0.0)
    assert (every["runs"], every["identifiers"], every["later_calls"]) == (1, 2, 1)
