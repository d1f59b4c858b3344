"""Pins and facts: what is carried on, and how much."""

from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.types import Command

from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.nodes.conversation.message_marks import earlier_summary, is_summary
from langgraph_compaction.nodes.digest.digest import NO_FACTS, facts_of
from langgraph_compaction.nodes.summary.summary_message import SummaryParts
from tests.fakes import ScriptedModel, summary_message
from tests.graph.harness import CONFIG, SUMMARY, WORDS, agent, calm, standing, values, verdicts
from tests.histories import asks, numbered, result, user

PINNED = "<Pin>keep this</Pin>"


def known(text: str) -> list[AnyMessage]:
    """A conversation with one fact."""
    return numbered([user("Hello."), asks("a", reservation_id=text), result("a", f'{{"reservation_id": "{text}"}}')])


def test_facts_say_what_the_request_must_hold() -> None:
    """Each fact is named by its value and by the words beside it, as they stand in the text."""
    facts = facts_of(known("FQ8APE"), None, budget=100, counter=WORDS)
    assert ("FQ8APE", "reservation_id") in facts.needed
    assert all(word in facts.text for words in facts.needed for word in words)


@pytest.mark.parametrize("budget", [0, 3, 6, 12, 40])
def test_facts_hold_to_their_budget(budget: int) -> None:
    """Whatever the budget, the text fits, and only what it shows is required."""
    old = numbered([m for n in range(20) for m in known(f"FQ8AP{n}X")])
    facts = facts_of(old, None, budget=budget, counter=WORDS)
    assert WORDS.text(facts.text) <= budget
    assert all(word in facts.text for words in facts.needed for word in words)
    assert bool(facts.text) == bool(facts.needed) == (budget > 3)


def test_facts_are_carried_over_three_summaries() -> None:
    """The record beside a summary in prose is what the next facts absorb."""
    facts = NO_FACTS
    for number in range(3):
        earlier = earlier_summary([summary_message("prose", f"c{number}", facts=facts)])
        facts = facts_of(known(f"FQ8AP{number}"), earlier.facts, budget=60, counter=WORDS)
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


def forget(monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    """Let the messages of summaries lack their pins or their facts."""
    whole, nothing = SummaryParts.message, {"pins": (), "facts": NO_FACTS}[lost]

    def forgetful(parts: SummaryParts, *args: Any) -> HumanMessage:
        return whole(replace(parts, **{lost: nothing}), *args)

    monkeypatch.setattr(SummaryParts, "message", forgetful)


@pytest.mark.parametrize(("lost", "verdict"), [("pins", "rejected_pin_lost"), ("facts", "rejected_facts_lost")])
def test_the_gate_requires_them(monkeypatch: pytest.MonkeyPatch, lost: str, verdict: str) -> None:
    """A renderer that forgets them is found out, and the conversation stays as it was."""
    forget(monkeypatch, lost)
    graph = agent(calm(), ScriptedModel(replies=[SUMMARY]), facts_beside_summary=lost == "facts")
    graph.invoke(pinning(), CONFIG)
    assert verdicts(graph)[0] == verdict
    assert "first" in [message.id for message in values(graph)["messages"]]


def test_the_last_level_owes_no_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a person has the oldest messages dropped, no fact that is lost keeps the turn from going on."""
    forget(monkeypatch, "facts")
    model = ScriptedModel(replies=[SUMMARY])
    graph = agent(calm(), model, facts_beside_summary=True, require_confirmation=True)
    facts = [HumanMessage(f"Book FQ8APE{n} for order ZK-44{n}1.", id=f"fact-{n}") for n in range(8)]
    graph.invoke({"messages": [*facts, *pinning()["messages"]]}, CONFIG)
    graph.invoke(Command(resume="drop_oldest"), CONFIG)
    assert verdicts(graph) == ["degraded_deterministic"]
    assert "FQ8APE0" not in "".join(message.text for message in values(graph)["messages"])
