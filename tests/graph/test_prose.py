"""The measures of plain statements and of rows without their subject, on contexts whose figures are known."""

import json

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.graph.lab.evaluation.policies import trimmed
from langgraph_compaction.graph.lab.evaluation.prose import (
    after_compactions,
    chats,
    half_of,
    kept_prose,
    label_key,
    planted_prose,
    rows_of,
)
from langgraph_compaction.graph.lab.evaluation.prose_facts import PHRASES, SPEAKERS
from langgraph_compaction.nodes.digest.rules_and_requests import rules_of
from langgraph_compaction.nodes.text.identifiers import identifiers

TALK: list[AnyMessage] = [
    HumanMessage("Good morning. Where is it?", id="u1"),
    AIMessage("It is on its way. Anything else?", id="a1"),
    HumanMessage("No. Thank you.", id="u2"),
    AIMessage("You are welcome.", id="a2"),
]
PASSENGERS = [{"first_name": "Ada", "dob": "1990-01-02"}, {"first_name": "Eli", "dob": "1991-03-04"}]


@pytest.mark.requirement("S3.23")
@pytest.mark.parametrize("language", PHRASES)
def test_statements_are_no_identifiers_and_hardly_ever_rules(language: str) -> None:
    """The statements are what the digest loses most easily: neither identifiers nor rules."""
    every = [sentence for speaker in SPEAKERS for sentence in PHRASES[language].of(speaker)]
    assert len(every) == len(set(every)) >= 46
    assert not any(identifiers(sentence) for sentence in every)
    assert sum(bool(rules_of(sentence)) for sentence in every) <= len(every) // 10


@pytest.mark.requirement("S3.23")
def test_planted_statements_are_counted_by_speaker() -> None:
    """A context without one speaker's messages holds the other's statements only."""
    planted = planted_prose("talk", TALK, "en")
    assert kept_prose(planted, planted.messages) == {"user": (5, 5), "assistant": (5, 5)}
    assert kept_prose(planted, planted.messages[::2]) == {"user": (5, 5), "assistant": (0, 5)}
    assert planted_prose("talk", TALK, "en") == planted


@pytest.mark.requirement("S3.23")
def test_the_context_is_compacted_once_for_each_number() -> None:
    """A policy that keeps the newest messages has lost the oldest statements after three compactions."""
    planted = planted_prose("talk", TALK * 6, "zh", within=2)
    seen = list(after_compactions(planted, trimmed, share=0.5, seen=(1, 3)))
    assert [number for number, _ in seen] == [1, 3]
    assert kept_prose(planted, seen[-1][1]) == {"user": (0, 5), "assistant": (0, 5)}


@pytest.mark.requirement("S3.23")
def test_chats_hold_no_calls_and_stay_in_one_half() -> None:
    """A chat is prose of runs of one half."""
    call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}])
    runs = [(f"run {number}", [*TALK, call, ToolMessage("{}", tool_call_id="1")]) for number in range(24)]
    found = list(chats(runs))
    assert {half_of(name) for name, _ in found} == {"tuning", "held_out"}
    assert all(message.text and not isinstance(message, ToolMessage) for _, chat in found for message in chat)


@pytest.mark.requirement("S3.23")
@pytest.mark.parametrize(
    ("line", "bare_and_shown"),
    [
        ("- passengers: dob 1990-01-02; 1991-03-04", (2, 2)),
        ("- id R-1; passengers: first_name Ada, dob 1990-01-02; dob 1991-03-04", (1, 2)),
        ("- passengers: first_name Ada, dob 1990-01-02; Eli, dob 1991-03-04", (0, 2)),
        ("- passengers: first_name Ada, dob 1990-01-02; Eli, 1991-03-04", (0, 2)),
        ("- passengers: dob 1980-12-31", (0, 0)),
    ],
)
def test_rows_without_their_subject_are_counted(line: str, bare_and_shown: tuple[int, int]) -> None:
    """A row counts as bare if its own label is not among the values that are shown of it."""
    result = ToolMessage(json.dumps({"id": "R-1", "passengers": PASSENGERS}), tool_call_id="1")
    assert rows_of([result]).shown([HumanMessage(f"Facts:\n{line}")]) == bare_and_shown


@pytest.mark.requirement("S3.23")
def test_the_arguments_of_a_call_are_no_row() -> None:
    """A digest shows them before the rows of a list without a path."""
    call = AIMessage("", tool_calls=[{"name": "search", "args": {"origin": "DEN"}, "id": "1"}])
    flights = ToolMessage(json.dumps([{"flight_number": "HAT1", "origin": "DEN", "price": 120}]), tool_call_id="1")
    shown = [HumanMessage("- origin DEN; flight_number HAT1; price 120")]
    assert rows_of([flights]).shown(shown) == (2, 3)
    assert rows_of([call, flights]).shown(shown) == (1, 2)


@pytest.mark.requirement("S3.23")
def test_an_id_names_a_row_before_a_name() -> None:
    """The label is an id, else a name, else nothing."""
    assert label_key({"name": "Ada", "price": 3, "flight_number": "F1"}) == "flight_number"
    assert label_key({"price": 3, "last_name": "Lee"}) == "last_name"
    assert not label_key({"price": 3})
