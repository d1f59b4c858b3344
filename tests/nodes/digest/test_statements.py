"""Statements of users and of the assistant: those with the most rare words come first, from both sides."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.nodes.conversation.tokens import approximate_counter
from langgraph_compaction.nodes.digest.digest import digest, weighted_entries
from langgraph_compaction.nodes.digest.entry import Entry, Section, pack
from langgraph_compaction.nodes.digest.statements import rare_words, statements

COUNTER = approximate_counter()
CALL = {"name": "find", "args": {}, "id": "c"}
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


def test_a_statement_outlives_further_digests() -> None:
    """The record carries both sides' statements through eight digests of other talk."""
    made = digest(
        _talk("My aunt repairs antique clocks in the cellar.", DECISIONS["en"]), budget=120, counter=COUNTER
    )
    for _ in range(8):
        made = digest(_talk("", ""), budget=120, counter=COUNTER, previous=made.record)
    assert DECISIONS["en"] in made.text
    assert "antique clocks" in made.text


REMARKS = {
    "en": "My aunt repairs antique clocks in the cellar.",
    "zh": "我弟弟在地下室修理古董钟。",
    "ru": "Мой сосед чинит старинные часы в подвале.",
}
BUDGETS = (300, 200, 150, 120, 100, 90, 80)


def _look_ups(said: str, number: int) -> list[AnyMessage]:
    """Return a talk in which the assistant looks up parcels, each with its identifiers."""
    talk: list[AnyMessage] = [HumanMessage("Hello there."), AIMessage("Hello."), HumanMessage(said)]
    for one in range(6):
        code = f"PARCEL-{number}{one}4711"
        talk += [
            AIMessage("", tool_calls=[{"name": "find", "args": {"parcel_id": code}, "id": code}]),
            ToolMessage(f'{{"parcel_id": "{code}", "depot_id": "DEPOT-{one}{number}88"}}', tool_call_id=code),
        ]
    return [*talk, AIMessage("The parcel was found.")]


@pytest.mark.parametrize("language", REMARKS)
def test_a_remark_of_the_user_outlives_eight_digests_that_shrink_under_new_identifiers(language: str) -> None:
    """Identifiers of later look-ups do not displace what only the user said, although they fill the budget."""
    made = digest(_look_ups(REMARKS[language], 0), budget=400, counter=COUNTER)
    for number, budget in enumerate(BUDGETS, 1):
        talk = _look_ups("Where is the next parcel now?", number)
        made = digest(talk, budget=budget, counter=COUNTER, previous=made.record)
    assert REMARKS[language] in made.text
    assert f"PARCEL-{len(BUDGETS)}54711" in made.text


@pytest.mark.parametrize("section", ["Said", "Answers"])
@pytest.mark.parametrize(("worth_of_facts", "shown"), [(0.2, True), (2.0, False)])
def test_earlier_statements_come_before_facts_of_little_worth_alone(
    section: Section, worth_of_facts: float, shown: bool
) -> None:
    """Statements of both sides in the record displace facts that nobody used, but no facts that are in use."""
    said = Entry(section, 8, 0.08, DECISIONS["en"])
    facts = [Entry("Facts", 9, worth_of_facts, f"ORDER-{number}", key="order_id") for number in range(100, 140)]
    record = pack([said, *facts], range(41), count=10, limit=10_000)
    made = digest([HumanMessage("Go on.")], budget=60, counter=COUNTER, previous=record)
    assert (said.value in made.text) is shown
    assert facts[0].value in made.text


def test_statements_of_an_earlier_digest_do_not_displace_rules() -> None:
    """A rule that is set later is shown even if the budget holds nothing else."""
    rule = "Never send the invoices before Friday."
    made = digest(_talk(REMARKS["en"], DECISIONS["en"]), budget=120, counter=COUNTER)
    again = digest([HumanMessage(rule)], budget=24, counter=COUNTER, previous=made.record)
    assert rule in again.text
    assert REMARKS["en"] not in again.text


def test_known_words_said_of_something_else_are_worth_more_than_a_sentence_without_rare_words() -> None:
    """Each word of the third sentence is in one of the first two, but only the third says who breeds pigeons."""
    said = (
        "My aunt repairs antique clocks.",
        "Our landlady breeds pigeons.",
        "My aunt breeds pigeons.",
        "It is what it is.",
    )
    worth = {one.value: one.worth for one in statements([HumanMessage(" ".join(said))], 0)}
    assert worth[said[2]] > 2 * worth[said[3]]


def test_words_that_a_result_contains_make_a_statement_worth_less() -> None:
    """What the result says can be read there."""
    said = "The cellar holds antique clocks."
    result = ToolMessage('{"cellar": "antique clocks"}', tool_call_id="1")
    (alone,), (repeated,) = statements([AIMessage(said)], 0), statements([AIMessage(said), result], 0)
    assert repeated.worth < 0.6 * alone.worth


def test_statements_do_not_displace_rules() -> None:
    """The assistant's words never take the place of a user's rule, however rare they are."""
    rule = "Never send the invoices before Friday."
    answers = [AIMessage(f"{DECISIONS['en']} {word} sculptures adorn hallways.") for word in ("Bronze", "Marble")]
    made = digest([HumanMessage("Hello there."), HumanMessage(rule), *answers], budget=24, counter=COUNTER)
    assert rule in made.text


def test_sentences_with_identifiers_and_questions_of_the_assistant_are_left_out() -> None:
    """Identifiers are facts, and a question of the assistant states nothing."""
    said = "The order ORD-4411 was packed by our colleagues. Shall our courier deliver tomorrow evening?"
    for text in (
        said,
        '"Is the old orchard fence gone now?"',
        "果园现在变成草地了吗？",
        "هل اختفى السياج القديم من هنا؟",
    ):
        assert not statements([AIMessage(text)], 0)


def test_a_statement_has_four_words_or_six_chinese_characters() -> None:
    """A shorter sentence is not a statement, and two Chinese characters count as one word."""
    said = "Fence is gone. The fence is gone. 果园变草地。 果园变成草地。"
    assert [entry.value for entry in statements([AIMessage(said)], 0)] == ["The fence is gone.", "果园变成草地。"]


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


def test_prose_is_worth_more_where_there_is_nothing_else() -> None:
    """The worth is raised in conversations of at least 16 messages without a tool result."""
    said = "My aunt repairs antique clocks in the cellar."
    talk: list[AnyMessage] = [HumanMessage(said), *(AIMessage("ok") for _ in range(14))]
    result = ToolMessage("done", tool_call_id="1")
    worths = [statements(old, 0)[0].worth for old in (talk, [*talk, result], [*talk, AIMessage("ok")])]
    assert worths[0] == worths[1] < worths[2] / 2


def test_a_sentence_is_worth_the_same_whoever_says_it() -> None:
    """A sentence of the user and the same sentence of the assistant have the same worth."""
    said = "My aunt repairs antique clocks in the cellar."
    (user,), (assistant,) = statements([HumanMessage(said)], 0), statements([AIMessage(said)], 0)
    assert (user.section, assistant.section, user.worth) == ("Said", "Answers", assistant.worth)


@pytest.mark.parametrize(("speaker", "share"), [(HumanMessage, 0.5), (AIMessage, 1.0)])
def test_a_statement_of_the_user_in_the_middle_of_a_long_message_is_worth_less(
    speaker: type[HumanMessage | AIMessage], share: float
) -> None:
    """In a message of 32 sentences, one of the user in the middle has half of its worth, one of the assistant all."""
    others = [f"The parcel is still on its way to town {number}." for number in range(31)]
    said = "My aunt repairs antique clocks in the cellar."

    def worth(place: int) -> float:
        text = " ".join([*others[:place], said, *others[place:]])
        (found,) = [entry for entry in statements([speaker(text)], 0) if entry.value == said]
        return found.worth

    assert worth(0) == worth(1) == worth(30) == worth(31)
    assert worth(16) == worth(2) == worth(29) == pytest.approx(share * worth(0))


def test_the_cost_of_an_entry_is_that_of_its_line() -> None:
    """The tokens of its key and value, and two for the sign before it and the line's end."""
    old = [ToolMessage('{"order_id": "AB-4711"}', tool_call_id="c", name="find")]
    (entry,) = [one for one in weighted_entries([AIMessage("", tool_calls=[CALL]), *old]) if one.at == 1]
    assert entry.cost == 2 + COUNTER.text("order_id AB-4711")
