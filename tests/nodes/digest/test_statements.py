"""Statements of users and of the assistant: those with the most rare words come first, from both sides."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.nodes.conversation.tokens import approximate_counter
from langgraph_compaction.nodes.digest.digest import digest
from langgraph_compaction.nodes.digest.statements import rare_words, statements

COUNTER = approximate_counter()
DECISIONS = {
    "en": "The orchard becomes a meadow since the frost ruined the fence.",
    "zh": "果园变成草地，因为霜冻毁了灰泥。",
    "ru": "Вместо сада будет луг, потому что мороз испортил забор.",
    "ja": "霜で漆喰が傷んだので、果樹園は草地になります。",
    "th": "สวนผลไม้จะกลายเป็นทุ่งหญ้าเพราะน้ำค้างแข็ง",
}


def _talk(said: str, answer: str) -> list[AnyMessage]:
    talk: list[AnyMessage] = []
    for number in range(12):
        talk.append(HumanMessage(f"Where is the parcel now? {said if number == 2 else ''}"))
        talk.append(AIMessage(f"The parcel is still on its way to you. {answer if number == 4 else ''}"))
    return talk


@pytest.mark.requirement("S3.23")
@pytest.mark.parametrize("language", ["en", "zh", "ru", "ja"])
def test_what_only_one_sentence_says_stays_from_both_sides(language: str) -> None:
    """In each language a user's and the assistant's statement are worth more than what is said again and again."""
    decision = DECISIONS[language]
    found = statements(_talk("", decision), 0)
    best = max((entry for entry in found if entry.section == "Answers"), key=lambda entry: entry.worth)
    assert best.value == decision
    made = digest(_talk("My aunt repairs antique clocks in the cellar.", decision), budget=120, counter=COUNTER)
    assert decision in made.text.partition("Answers:")[2]
    assert "antique clocks" in made.text


@pytest.mark.requirement("S3.23")
def test_a_statement_outlives_further_digests() -> None:
    """The record carries both sides' statements through eight digests of other talk."""
    made = digest(
        _talk("My aunt repairs antique clocks in the cellar.", DECISIONS["en"]), budget=120, counter=COUNTER
    )
    for _ in range(8):
        made = digest(_talk("", ""), budget=120, counter=COUNTER, previous=made.record)
    assert DECISIONS["en"] in made.text
    assert "antique clocks" in made.text


@pytest.mark.requirement("S3.23")
def test_statements_do_not_displace_rules() -> None:
    """The assistant's words never take the place of a user's rule, however rare they are."""
    rule = "Never send the invoices before Friday."
    answers = [AIMessage(f"{DECISIONS['en']} {word} sculptures adorn hallways.") for word in ("Bronze", "Marble")]
    made = digest([HumanMessage("Hello there."), HumanMessage(rule), *answers], budget=24, counter=COUNTER)
    assert rule in made.text


def test_sentences_with_identifiers_and_questions_of_the_assistant_are_left_out() -> None:
    """Identifiers are facts, and a question of the assistant states nothing."""
    messages = [
        AIMessage("The order ORD-4411 was packed by our colleagues. Shall our courier deliver tomorrow evening?")
    ]
    assert not statements(messages, 0)


def test_at_most_two_hundred_answers_are_weighed_against_other_entries() -> None:
    """A very long answer cannot fill the digest's list of entries."""
    words = [f"{a}{b}{c}ly" for a in "bdfgklmnp" for b in "aeiou" for c in "bdfgklmnp"]
    text = " ".join(f"They {word} walked around town." for word in words)
    assert len(statements([AIMessage(text)], 0)) == 200


def test_rare_words_are_stems_and_pairs_of_characters() -> None:
    """Inflected forms count as one word, frequent words do not count, and unspaced scripts are read in pairs."""
    assert rare_words("The gardener and the gardeners") == {"garden"}
    assert rare_words("果园变") == {"果园", "园变"}
    assert len(rare_words(DECISIONS["th"])) > 10


@pytest.mark.parametrize(
    "sentence",
    [
        "Here is the updated breakdown of the monthly costs:",
        "**The travellers on this booking are:**",
        "If you have any further questions, feel free to ask me.",
        "Bei weiteren Fragen stehe ich gern zur Verfügung, noch Fragen sind willkommen.",
        "如果还有其他问题，随时告诉我。",
    ],
)
def test_headings_and_courtesies_of_the_assistant_are_no_statements(sentence: str) -> None:
    """They take the place of decisions and reasons."""
    said = "The old boiler was replaced by a heat pump."
    found = statements([HumanMessage("Hello."), AIMessage(f"{said}\n{sentence}\nHello.")], 0)
    assert [one.value for one in found if one.section == "Answers"] == [said]
