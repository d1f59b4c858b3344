"""Pins and facts: who may pin, what is carried on, and how much."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.nodes.conversation.message_marks import earlier_summary, is_summary, pinned_texts, pins_in
from langgraph_compaction.nodes.digest.digest import NO_FACTS, facts_of
from langgraph_compaction.nodes.runtime import engine
from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, SUMMARY, WORDS, agent, calm, standing, values, verdicts
from tests.histories import asks, meta, numbered, result, user

PINNED = "<Pin>keep this</Pin>"


def pins(*messages: AnyMessage, most: int = 100) -> tuple[str, ...]:
    """The pinned texts of a conversation."""
    return pinned_texts(messages, most, WORDS)


def known(text: str) -> list[AnyMessage]:
    """A conversation with one fact."""
    return numbered([user("Hello."), asks("a", reservation_id=text), result("a", f'{{"reservation_id": "{text}"}}')])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (PINNED, ["keep this"]),
        ("<pin>keep this</PIN>", ["keep this"]),
        ("<Pin>不要周一的航班</Pin>", ["不要周一的航班"]),
        ("a <Pin>first</Pin> b <Pin>second</Pin>", ["first", "second"]),
        ("<Pin>\n two\n lines \n</Pin>", ["two\n lines"]),
        ("<Pin>a <Pin>b</Pin>", ["a <Pin>b"]),
        ("<Pin> </Pin><Pin></Pin>", []),
        ("<Pin>not closed", ["not closed"]),
        ("<Pin>\nnot closed\nover lines", ["not closed\nover lines"]),
        ("<Pin>a</Pin> b <pin>c <Pin>d", ["a", "c <Pin>d"]),
        ("<Pin>", []),
        ("```\n<Pin>not closed\n```\nwords", []),
        ("> <Pin>not closed\n\nwords", []),
        ("what does `<Pin>` do?", []),
        ("not opened</Pin>", []),
        ("&lt;Pin&gt;escaped&lt;/Pin&gt;", []),
        (f"```\n{PINNED}\n```", []),
        (f"```xml\n{PINNED}", []),
        (f"> {PINNED}", []),
        (f"said:\r\n > {PINNED}\r\nthat", []),
        (f"```\ncode\n```\n{PINNED}", ["keep this"]),
        (f"> quoted\n\n{PINNED}", ["keep this"]),
        pytest.param(f"````\n```\n{PINNED}\n```\n````", []),
        pytest.param(f"~~~\n{PINNED}\n~~~", []),
        pytest.param(f"what does `{PINNED}` do?", []),
        pytest.param(f"they wrote:\r> {PINNED}", []),
    ],
)
def test_a_user_pins_in_their_own_words(text: str, found: list[str]) -> None:
    """Between the tags or from the tag on, in either case, over lines; not in code and not in quoted lines."""
    assert pins_in(user(text)) == found


@pytest.mark.parametrize(
    "message",
    [
        AIMessage(PINNED),
        ToolMessage(PINNED, tool_call_id="a"),
        ToolMessage("<Pin>not closed", tool_call_id="a"),
        AIMessage("<Pin>not closed"),
        SystemMessage(PINNED),
        meta(PINNED),
        asks("a", note=PINNED),
        summary_message(PINNED, "c"),
        summary_message("text", "c", {"v": 1, "note": PINNED}),
    ],
    ids=[
        "assistant",
        "tool",
        "tool, not closed",
        "assistant, not closed",
        "system",
        "meta",
        "call",
        "summary",
        "record",
    ],
)
def test_nobody_else_pins(message: AnyMessage) -> None:
    """Assistant, tools, system prompt, meta messages and the text of a summary pin nothing."""
    assert pins_in(message) == []


def test_an_earlier_summary_carries_its_pins_on() -> None:
    """They stand in its marks; a pin that is repeated is kept once, oldest first."""
    earlier = summary_message("text", "c", pins=["first", "second"])
    assert pins(earlier, user("<Pin>third</Pin> <Pin>first</Pin>")) == ("first", "second", "third")


def test_text_in_blocks_is_read_block_by_block() -> None:
    """A pin begins and ends inside what was said together, whatever stands between the blocks."""
    blocks: list[str | dict[str, Any]] = [
        {"type": "text", "text": "<Pin>in a block</Pin>"},
        {"type": "text", "text": "```\nopen"},
        {"type": "text", "text": "<Pin>in another</Pin>"},
    ]
    assert pins_in(HumanMessage(blocks)) == ["in a block", "in another"]


@pytest.mark.parametrize(
    ("most", "kept"),
    [
        (0, ()),
        (1, ("d",)),
        (2, ("a b",)),
        (3, ("a b", "d")),
        (6, ("a b", "c c c", "d")),
        (100, ("a b", "c c c", "d")),
    ],
)
def test_pins_are_bounded(most: int, kept: Sequence[str]) -> None:
    """What does not fit beside the older ones is no pin; a shorter one behind it may be."""
    assert pins(user("<Pin>a b</Pin><Pin>c c c</Pin>"), user("<Pin>d</Pin>"), most=most) == kept


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


@pytest.mark.parametrize("facts_beside_summary", [False, True])
@pytest.mark.parametrize("summarizer", ["digest", "model"])
def test_pins_and_facts_outlast_three_compactions(summarizer: str, *, facts_beside_summary: bool) -> None:
    """Beside every summary the pin stands verbatim; facts stand beside one in prose where they are asked for."""
    given = ScriptedModel(replies=[SUMMARY]) if summarizer == "model" else summarizer
    graph = agent(calm(), given, facts_beside_summary=facts_beside_summary, breaker_frequency_calls=0)
    for number in range(3):
        graph.invoke(pinning() if number == 0 else talk(number), CONFIG)
        CompactionThread(graph, CONFIG).compact()
    assert standing(graph)["epoch"] >= 3
    (summary,) = (message for message in values(graph)["messages"] if is_summary(message))
    assert summary.text.endswith("<pinned>\n- keep this\n</pinned>")
    assert ("<facts>" in summary.text) is (facts_beside_summary and summarizer == "model")
    assert ("FQ8APE" in summary.text) is (facts_beside_summary or summarizer == "digest")


@pytest.mark.parametrize(("lost", "verdict"), [("pins", "rejected_pin_lost"), ("facts", "rejected_facts_lost")])
def test_the_gate_requires_them(monkeypatch: pytest.MonkeyPatch, lost: str, verdict: str) -> None:
    """A renderer that forgets them is found out, and the conversation stays as it was."""

    def forgetful(*args: Any, **beside: Any) -> HumanMessage:
        return summary_message(*args, **{**beside, lost: None if lost == "facts" else ()})

    monkeypatch.setattr(engine, "summary_message", forgetful)
    graph = agent(calm(), ScriptedModel(replies=[SUMMARY]), facts_beside_summary=lost == "facts")
    graph.invoke(pinning(), CONFIG)
    assert verdicts(graph)[0] == verdict
    assert "first" in [message.id for message in values(graph)["messages"]]
