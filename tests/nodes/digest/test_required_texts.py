"""Pins and facts: what is carried on, and how much."""

from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.nodes.conversation.message_marks import earlier_summary, is_summary
from langgraph_compaction.nodes.digest.digest import BESIDE_SUMMARY, NO_DIGEST, digest
from langgraph_compaction.nodes.summary.summary_message import SummaryParts
from tests.fakes import ScriptedModel, summary_message
from tests.graph.harness import CONFIG, SUMMARY, WORDS, agent, calm, standing, values, verdicts
from tests.histories import asks, numbered, result, user

PINNED = "<Pin>keep this</Pin>"


def known(text: str) -> list[AnyMessage]:
    """A conversation with one fact."""
    return numbered([user("Hello."), asks("a", reservation_id=text), result("a", f'{{"reservation_id": "{text}"}}')])


@pytest.mark.parametrize("budget", [0, 3, 6, 12, 40])
def test_facts_hold_to_their_budget(budget: int) -> None:
    """Whatever the budget, the text fits."""
    old = numbered([m for n in range(20) for m in known(f"FQ8AP{n}X")])
    facts = digest(old, budget=budget, counter=WORDS, sections=BESIDE_SUMMARY)
    assert WORDS.text(facts.text) <= budget
    assert bool(facts.text) == (budget > 3)


def test_facts_are_carried_over_three_summaries() -> None:
    """The record beside a summary in prose is what the next facts absorb."""
    facts = NO_DIGEST
    for number in range(3):
        earlier = earlier_summary([summary_message("prose", f"c{number}", facts=facts)])
        messages = known(f"FQ8AP{number}")
        facts = digest(messages, budget=60, counter=WORDS, previous=earlier.facts, sections=BESIDE_SUMMARY)
    assert [f"FQ8AP{number}" in facts.text for number in range(3)] == [True] * 3


def talk(turn: int) -> dict[str, Any]:
    """Long answers without a fact, and a question."""
    long = (AIMessage("and so on " * 50, id=f"long-{turn}-{n}") for n in range(6))
    return {"messages": [*long, HumanMessage("And the rest of it?", id=f"asked-{turn}")]}


def pinning() -> dict[str, Any]:
    """An input over the trigger that begins with a pin and a fact."""
    first = HumanMessage(f"I want to fly with FQ8APE. {PINNED}", id="first")
    return {"messages": [first, AIMessage("I see.", id="seen"), *talk(0)["messages"]]}


@pytest.mark.usefixtures("unbraked")
@pytest.mark.parametrize("facts_beside_summary", [False, True])
@pytest.mark.parametrize("summarizer", ["digest", "model"])
def test_pins_and_facts_outlast_three_compactions(summarizer: str, *, facts_beside_summary: bool) -> None:
    """Beside every summary the pin stands verbatim; facts stand beside one in prose where they are asked for."""
    given = ScriptedModel(replies=[SUMMARY]) if summarizer == "model" else summarizer
    graph = agent(calm(), given, facts_beside_summary=facts_beside_summary)
    for number in range(3):
        graph.invoke(pinning() if number == 0 else talk(number), CONFIG)
        CompactionThread(graph, CONFIG).compact()
    assert standing(graph)["epoch"] >= 3
    (summary,) = (message for message in values(graph)["messages"] if is_summary(message))
    assert summary.text.endswith("<pinned>\n- keep this\n</pinned>")
    assert ("<facts>" in summary.text) is (facts_beside_summary and summarizer == "model")
    assert ("FQ8APE" in summary.text) is (facts_beside_summary or summarizer == "digest")


def test_the_gate_requires_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renderer that forgets them is found out, and the conversation stays as it was."""
    whole = SummaryParts.message

    def forgetful(parts: SummaryParts, *args: Any) -> HumanMessage:
        return whole(replace(parts, pins=()), *args)

    monkeypatch.setattr(SummaryParts, "message", forgetful)
    graph = agent(calm(), ScriptedModel(replies=[SUMMARY]), facts_beside_summary=False)
    graph.invoke(pinning(), CONFIG)
    assert verdicts(graph)[0] == "rejected_pin_lost"
    assert "first" in [message.id for message in values(graph)["messages"]]
