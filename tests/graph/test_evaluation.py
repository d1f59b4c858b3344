"""What the figures of a policy say: of one that keeps all, of one that keeps nothing, and of what lies between."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.graph.lab.evaluation.policies import BASELINES, Policy, count
from langgraph_compaction.graph.lab.evaluation.ratios import interval
from langgraph_compaction.graph.lab.evaluation.scores import PLACES, measured, task
from langgraph_compaction.graph.lab.evaluation.sentences import CONSTRAINTS, REMARKS
from langgraph_compaction.graph.lab.evaluation.survival import cut, planted, survives, text_of
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.digest.digest import digest
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
    (found,) = measured([task(cut("talk", talk, 0.6), 1)], {"it": (policy,)}, [budget])
    return found


@pytest.mark.requirement("S3.23")
def test_a_later_call_needs_what_was_seen_before_and_nobody_said_again() -> None:
    """Neither what the prompt says nor what a result behind the cut gives."""
    run = cut("talk", TALK, 0.6)
    assert run.identifiers == {"PX-1138", "FQ8APE"}
    assert run.needed == [frozenset({"PX-1138", "FQ8APE"})]
    assert text_of(run.old).startswith("Please look up")


@pytest.mark.requirement("S3.23")
def test_to_keep_all_is_everything_and_to_keep_nothing_is_none() -> None:
    """The two ends of each figure."""
    every, none = row(lambda old, _: old), row(lambda _old, _cap: [])
    for name in ("recall", "bound", "calls"):
        assert (every[name], none[name]) == (1.0, 0.0)
        assert (every["ci95"][name], none["ci95"][name]) == ([1.0, 1.0], [0.0, 0.0])
    assert set(every["rules"].values()) == {1.0}
    assert set(none["rules"].values()) == {0.0}
    assert (every["tokens_over_cap"], every["within_cap"], none["tokens_over_cap"]) == (1.0, 1.0, 0.0)
    assert (every["runs"], every["identifiers"], every["later_calls"]) == (1, 2, 1)


@pytest.mark.requirement("S3.23")
def test_a_bag_of_identifiers_is_recalled_and_not_bound() -> None:
    """Words that gave them meaning must stand near."""
    found = row(lambda _old, _cap: [HumanMessage("PX-1138 FQ8APE")])
    assert (found["recall"], found["bound"], found["calls"]) == (1.0, 0.0, 1.0)


@pytest.mark.requirement("S3.23")
def test_one_lost_identifier_loses_the_call() -> None:
    """Half of the recall, and no call."""
    found = row(lambda _old, _cap: [HumanMessage("carrier north, parcel PX-1138")])
    assert (found["recall"], found["bound"], found["calls"]) == (0.5, 0.5, 0.0)


@pytest.mark.requirement("S3.23")
def test_what_is_over_the_cap_and_what_breaks_a_pair_is_counted() -> None:
    """Three contexts, one for each place of a constraint, each without the call of its result."""

    def without_calls(old: Sequence[AnyMessage], _cap: int) -> list[BaseMessage]:
        return [message for message in old if not getattr(message, "tool_calls", None)]

    found = row(without_calls, 0.25)
    assert found["broken_pairs"] == len(PLACES)
    assert found["within_cap"] == 0.0
    assert found["most_over_cap"] >= found["tokens_over_cap"] > 1


@pytest.mark.requirement("S3.23")
def test_a_defect_of_the_recording_is_not_the_policys() -> None:
    """A result of no call that was there before."""
    broken = [*TALK[:3], ToolMessage("lost", tool_call_id="nobody"), *TALK[3:]]
    assert row(lambda old, _: old, talk=broken)["broken_pairs"] == 0


@pytest.mark.requirement("S3.23")
def test_rules_are_precise_where_remarks_are_none() -> None:
    """A digest that lists every sentence as a rule is half right; ours does better."""

    def everything(old: Sequence[AnyMessage], _cap: int) -> list[BaseMessage]:
        lines = [f"- {message.text}" for message in old if isinstance(message, HumanMessage)]
        return [HumanMessage("\nRules:\n" + "\n".join(lines))]

    def ours(old: Sequence[AnyMessage], cap: int) -> list[BaseMessage]:
        return [HumanMessage("\n" + digest(old, budget=cap, counter=tiktoken_counter(), sections=("Rules",)).text)]

    assert row(everything)["precision"] == 0.5
    assert row(ours)["precision"] > 0.7
    assert row(lambda old, _: old)["precision"] is None


@pytest.mark.requirement("S3.23")
def test_sentences_stand_where_they_are_put_and_are_told_apart() -> None:
    """At the first, the middle and the last message of the user; no sentence passes for another."""
    users = [HumanMessage(f"message {number}") for number in range(5)]
    for at, index in ((0.0, 0), (0.5, 2), (1.0, 4)):
        assert planted(users, CONSTRAINTS[0], at, before=True)[index].text.startswith(CONSTRAINTS[0])
    for sentence in (*CONSTRAINTS, *REMARKS):
        assert [other for other in (*CONSTRAINTS, *REMARKS) if survives(sentence, other)] == [sentence]


@pytest.mark.requirement("S3.23")
def test_a_run_without_a_user_has_no_rules() -> None:
    """And is measured all the same."""
    found = row(lambda old, _: old, talk=[m for m in TALK if not isinstance(m, HumanMessage)])
    assert (found["rules"], found["recall"]) == ({}, 1.0)


@pytest.mark.requirement("S3.23")
@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("budget", [0.3, 0.6])
def test_the_baselines_stay_within_the_cap(name: str, budget: float) -> None:
    """And take what they can of it."""
    old = list(cut("talk", TALK, 0.6).old)
    for policy in BASELINES[name]:
        assert count(policy(old, int(budget * count(old)))) <= budget * count(old)
    assert any(policy(old, int(budget * count(old))) for policy in BASELINES[name])
    assert all(policy(old, count(old)) == old for policy in BASELINES[name]), "what fits exactly is kept"


@pytest.mark.requirement("S3.23")
def test_the_interval_is_of_the_runs_and_always_the_same() -> None:
    """Wide for few runs that differ, and nothing for one."""
    assert interval([(1, 1)]) == (1.0, 1.0)
    low, high = interval([(0, 4), (4, 4), (2, 4), (4, 4)])
    assert low < 0.6 < high
    assert interval([(0, 4), (4, 4), (2, 4), (4, 4)]) == (low, high)
