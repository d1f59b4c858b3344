"""Rules that users revise: what a context shows of them after two compactions, in seven languages."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.conversation.tokens import approximate_counter
from langgraph_compaction.nodes.digest.digest import Digest, digest, facts_of
from langgraph_compaction.nodes.digest.entry import REVISES
from tests.histories import asks
from tests.nodes.digest.dialogues import (
    ROUNDS,
    LossySummarizer,
    after_compactions,
    outcome,
    voided,
)
from tests.nodes.digest.revisions import REVISIONS, Revision

RULE = "Never email me about the order."
COUNTER = approximate_counter()
FAITHFUL = CompactionSettings(preset="faithful")


def told(*texts: str, previous: Digest | None = None) -> Digest:
    """A digest of what a user said, each message answered."""
    old: list[AnyMessage] = [m for text in texts for m in (HumanMessage(text), AIMessage("Fine."))]
    return digest(old, budget=400, counter=COUNTER, previous=previous.record if previous else None)


@pytest.mark.parametrize("revision", REVISIONS[::3], ids=lambda one: f"{one.language}: {one.rule}")
def test_no_revised_rule_stands_without_its_revision(revision: Revision) -> None:
    """After two compactions, the rule is shown only as the earlier form of what the user said later."""
    for seed, later in enumerate((revision.soft, revision.firm)):
        context = after_compactions({0: revision.rule, 4: later}, FAITHFUL, compactions=2, seed=seed)
        assert outcome(context, revision.rule, later) in ("marked", "new", "spoken")


@pytest.mark.parametrize(("summarizer", "compactions"), [("digest", 2), (LossySummarizer(), 4)])
@pytest.mark.parametrize("revision", REVISIONS[1::8], ids=lambda one: f"{one.language}: {one.rule}")
def test_a_revision_in_a_kept_message_revises_the_record(
    revision: Revision, summarizer: str | LossySummarizer, compactions: int
) -> None:
    """The user takes a rule back in the round before the second compaction; the rule has left the view by then."""
    said = {0: revision.rule, 2 * ROUNDS - 1: revision.soft}
    settings = CompactionSettings()
    context = after_compactions(said, settings, compactions=compactions, seed=3, summarizer=summarizer)
    assert outcome(context, revision.rule, revision.soft) in ("marked", "new", "spoken")


def test_a_revision_is_not_revised_by_its_own_message() -> None:
    """The kept message that revised a rule leaves the view later: the rule's line stays as it is."""
    said = HumanMessage("On reflection email is fine, forget what I said about that.")
    one = facts_of([HumanMessage(RULE)], None, budget=200, counter=COUNTER, beside=[said])
    two = facts_of([said], one.record, budget=200, counter=COUNTER)
    assert one.text == two.text == f"Rules:\n- {said.text} (was: {RULE})"


def test_a_rule_that_stays_needs_no_line_for_its_revision() -> None:
    """Both messages stay in view, so the facts list neither the rule nor its revision."""
    stay = [HumanMessage(RULE), HumanMessage("On reflection email is fine, forget what I said about that.")]
    assert facts_of([HumanMessage("Hello.")], None, budget=200, counter=COUNTER, beside=stay).text == ""


@pytest.mark.parametrize("later", ["soft", "firm"])
def test_every_revision_is_found(later: str) -> None:
    """In a later digest, the rule is marked; also in facts beside a summary."""
    for one in REVISIONS:
        first, said = told(f"Hello. {one.rule}"), getattr(one, later)
        earlier = facts_of([HumanMessage(one.rule)], None, budget=200, counter=COUNTER)
        facts = facts_of([HumanMessage(said)], earlier.record, budget=200, counter=COUNTER)
        for text in (told(said, previous=first).text, facts.text):
            assert text.count(one.rule) == 1
            assert f"{said} (was: {one.rule})" in text or f"{one.rule} (later: {said})" in text


STILL_IN_FORCE = [
    ("Never give my phone number to the courier.", "You may give my order code to the courier."),
    ("Never write to me about the invoice.", "You can write to my bookkeeper instead."),
    ("Never write to me about the invoice.", "It turns out the invoice was never printed after all."),
    ("Do not rent cars with a manual gearbox.", "Forget the train, just rent the cars."),
    ("Do not touch my savings account.", "My savings account was locked twice, forget about that fee."),
    ("Always copy Marta on reports.", "Please send the reports for June again."),
    ("Keep the dinner under 60 euros.", "The museum should be under 25 euros."),
    ("Never restart the database.", "From now on restart the web servers every night."),
    ("Never restart the database.", "You can restart the idle workers now."),
    ("Only merge with two approvals.", "Actually, merge the staging branch first."),
    ("All dates must be in ISO format.", "On second thought, show the dates in bold."),
    ("Always ask me before moving money.", "You no longer need to move the archive boxes."),
    ("不要给我打电话。", "可以给我同事打电话。"),
    ("发票一律寄到公司。", "其实样品可以寄到公司前台。"),
    ("Schicken Sie mir nie Werbung.", "Sie dürfen meinem Bruder Werbung schicken."),
    ("Ne modifiez jamais le contrat.", "Vous pouvez modifier l'annexe du contrat maintenant."),
    ("No borres nunca las copias.", "Ahora puedes borrar los ficheros de prueba."),
    ("Никогда не звоните моему начальнику.", "Теперь можно звонить моему брату."),
    ("Non cancellare mai le ricevute.", "Adesso puoi cancellare le bozze vecchie."),
    ("Nigdy nie usuwaj kopii zapasowych.", "Teraz możesz usunąć stare pliki testowe."),
    ("Não apague nunca as faturas.", "Agora pode apagar os rascunhos antigos."),
    ("請求書は絶対に削除しないでください。", "今後は古い下書きを削除してください。"),
]
"""Rules, and later sentences that have words in common with them but are about another case."""


@pytest.mark.parametrize(("rule", "said"), STILL_IN_FORCE)
def test_words_about_another_case_void_no_rule(rule: str, said: str) -> None:
    """The rule stays in force; at most the later words are shown beside it."""
    texts = [told("Hello there.", rule, "What is next?", said).text, told(said, previous=told("Hi.", rule)).text]
    for text in texts:
        assert rule in text
        assert f"was: {rule}" not in text
        assert said in text


UNRECOGNIZED = [
    ("Never ring me at the shop.", "Hm, shop calls do not bother me at all these days."),
    ("Never ring me at the shop.", "Shop calls are also no trouble."),
    ("Always pay with Visa.", "Visa blocked my card, so it has to go through Maestro."),
    ("不要订需要转机的航班。", "转机我也不介意了。"),
    ("乗り継ぎ便は予約しないでください。", "乗り継ぎがあっても気にしません。"),
]


@pytest.mark.parametrize(("rule", "said"), UNRECOGNIZED)
def test_a_rule_is_never_shown_without_later_words_about_it(rule: str, said: str) -> None:
    """Also where the later sentence has no cue word, and a model's summary keeps neither."""
    context = after_compactions(
        {0: rule, 4: said}, CompactionSettings(), compactions=4, seed=5, summarizer=LossySummarizer()
    )
    assert outcome(context, rule, said) == "marked"
    assert not voided(context, rule)


@pytest.mark.parametrize(
    ("rule", "later"),
    [
        ("Never rent a boat.", "Boats are fine now."),
        ("Never book a flight.", "On reflection, booking flights is fine."),
        ("Never send confirmations.", "On second thought, confirming is fine."),
    ],
)
def test_a_word_is_known_in_its_other_forms(rule: str, later: str) -> None:
    """A word of the rule and the same word with another ending count as the same word."""
    assert f"- {later} (was: {rule})" in told("Hello.", rule, later).text


def test_a_long_word_is_compared_by_its_first_five_letters() -> None:
    """Two words of eight letters or more with four letters in common are different words."""
    text = told("Hello.", "Never delay a shipment.", "Shipyard is fine now.").text
    assert "- Never delay a shipment.\n" in text


def test_later_words_about_one_rule_gather_beside_it() -> None:
    """The newest words stand last; the rule is never repeated, and none of its later words voids it alone."""
    one = told("Hello. Never restart the database.")
    two = told("You can restart the idle workers now.", previous=one)
    three = told("Actually, you may restart the printers too.", "You may restart the database now.", previous=two)
    assert (
        "- Never restart the database. (later: You can restart the idle workers now."
        " You may restart the database now.)" in three.text
    )
    assert three.text.count("Never restart the database.") == 1


def test_a_rule_and_its_revisions_are_one_line() -> None:
    """Each further revision takes the place of the last, so that none is dropped without the others."""
    one = told("Hello. Keep the hotel under 120 dollars a night.")
    two = told("The new limit for the hotel is 180 dollars a night.", previous=one)
    three = told("On second thought the limit for the hotel is 210 dollars a night.", previous=two)
    assert "120" not in three.text
    assert "Keep the hotel under" not in three.text
    assert (
        "- On second thought the limit for the hotel is 210 dollars a night."
        " (was: The new limit for the hotel is 180 dollars a night.)" in three.text
    )


def test_a_rule_that_is_often_revised_stays_one_line() -> None:
    """The digest shows the newest of forty limits and the limit before it. It shows no other earlier limit."""
    limits = [f"The new limit for the hotel is {100 + 10 * number} dollars a night." for number in range(40)]
    text = told("Hello. Keep the hotel under 90 dollars a night.", *limits).text
    assert text.endswith(f"- {limits[-1]} (was: {limits[-2]})")
    assert text.count("hotel") == 2


@pytest.mark.parametrize(
    "later",
    [
        "Also never email my wife about the order.",
        "Also keep every email about the order short.",
        "Also keep email about the order under 3 lines.",
        "Is email fine?",
        "On reflection, is email about the order fine now?",
        "12: On reflection email about the order is fine.",
        "On reflection email about {[order]} is fine.",
        "The email about the order is KX-4471.",
        "Order email.",
        "Never share my address with the carrier.",
        "From now on use metric units.",
        "The train is fine.",
    ],
)
def test_what_revises_nothing_leaves_the_rule(later: str) -> None:
    """An addition, a question, a numbered line, code, a fact or a heading does not revise a rule.

    A text about another subject does not revise the rule either.
    """
    text = told("Hello.", "Never email me about the order.", later).text
    assert "- Never email me about the order.\n" in f"{text}\n"
    assert "was:" not in text


def test_a_sentence_with_three_characters_of_code_revises() -> None:
    """Three brackets do not make a sentence code, so the sentence revises the rule."""
    later = "On reflection email about [(order] is fine."
    assert told("Hello.", RULE, later).text == f"Goal: Hello.\nRules:\n- {later} (was: {RULE})"


@pytest.mark.parametrize("rule", ["Never send parcels on Mondays.", "Send parcels on Mondays only."])
def test_a_revision_of_something_unknown_is_marked(rule: str) -> None:
    """Words that take back something stand above the rules, even if no rule has a word in common with them."""
    made = told("Hello.", rule, "Forget what I said, you must do as you like.")
    assert f"Forget what I said, you must do as you like. ({REVISES})" in made.text
    assert made.record is not None
    worth = {entry[-1]: entry[-2] for entry in made.record["entries"]}
    assert worth["Forget what I said, you must do as you like."] > worth[rule]


def test_a_failure_of_an_earlier_digest_is_no_rule_to_revise() -> None:
    """The user takes nothing of it back: it stays open in its own words."""
    failure = ToolMessage("Error: never send parcels to Bremen.", tool_call_id="a", status="error")
    old: list[AnyMessage] = [HumanMessage("Hello."), asks("a", order="ZK-1"), failure, AIMessage("It failed.")]
    first = digest(old, budget=400, counter=COUNTER)
    text = told("Do send parcels to Bremen, forget what I said.", previous=first).text
    assert '"Error: never send parcels to Bremen."' in text
    assert "was:" not in text


def test_only_people_revise_rules() -> None:
    """What the assistant says changes no rule of the user."""
    old: list[AnyMessage] = [
        HumanMessage("Hello."),
        AIMessage("Hello."),
        HumanMessage("Never email me about the order."),
        AIMessage("On reflection email is fine, forget what I said about email."),
    ]
    text = digest(old, budget=400, counter=COUNTER).text
    assert "was:" not in text
    assert "- Never email me about the order." in text


def test_many_rules_take_linear_time() -> None:
    """A sentence is compared with a bounded number of rules, and a bounded number of sentences is compared."""
    text = " ".join(f"From now on you must never do thing {number}." for number in range(4_000))
    assert "From now on" in told("Hello.", text).text


@pytest.mark.parametrize(
    ("rule", "other", "before", "later"),
    [
        (RULE, "From now on take parcel {}.", 399, "On reflection email is fine, forget what I said about that."),
        ("From now on always pay with Visa.", "The sun shines here.", 1_999, "Visa blocked my card, so use Maestro."),
    ],
    ids=["with a cue word", "without one"],
)
def test_the_last_sentence_that_is_compared_revises(rule: str, other: str, before: int, later: str) -> None:
    """The last sentence that is compared is shown with the rule. The sentence after it is not compared."""
    for more, shown in ((0, True), (1, False)):
        others = " ".join(map(other.format, range(before + more)))
        (line,) = [line for line in told("Hello.", rule, f"{others} {later}").text.splitlines() if rule in line]
        assert (later in line) is shown


@pytest.mark.parametrize(
    ("rule", "later", "shown"),
    [
        (
            "The hotel should be near the harbor.",
            "Instead the hotel should be near the station.",
            "The hotel should be near the harbor. (later: Instead the hotel should be near the station.)",
        ),
        (
            "Keep the hotel under 120 dollars.",
            "Keep the hotel under 150 dollars.",
            "Keep the hotel under 120 dollars. (later: Keep the hotel under 150 dollars.)",
        ),
    ],
)
def test_a_preference_is_revised_like_a_ban(rule: str, later: str, shown: str) -> None:
    """A single word or a changed number is enough for a revision."""
    assert told("Hello.", rule, later).text == f"Goal: Hello.\nRules:\n- {shown}"


@pytest.mark.parametrize(
    "rule", ["Never drop the table users_{}.", "Never open door {} at night.", "绝对不要打开{}号门。"]
)
@pytest.mark.parametrize("count", [2, 5, 12])
def test_rules_that_differ_by_a_number_are_all_shown(rule: str, count: int) -> None:
    """A rule that differs from an earlier rule only in a number does not revise the earlier rule."""
    rules = [rule.format(number) for number in range(1, count + 1)]
    in_two = told("Hello.", *rules[:-1])
    for text in (told("Hello.", *rules).text, told(rules[-1], previous=in_two).text):
        assert [one for one in rules if text.count(one) != 1] == []
        assert "was:" not in text


@pytest.mark.parametrize(
    ("rule", "later"),
    [
        (RULE, "Email about the order is fine. Forget what I said before."),
        (RULE, "Forget my rule on email. It is fine."),
        ("Никогда не звоните мне.", "Я передумал. Звоните мне."),
        ("Nunca me llames.", "Olvida lo que pedí. Puedes llamarme."),
        ("Ne m'appelez jamais.", "Oubliez ce que j'ai demandé. Vous pouvez m'appeler."),
        ("不要给我打电话。", "我改主意了。可以给我打电话。"),
    ],
)
def test_two_sentences_that_revise_together_are_shown_as_they_were_said(rule: str, later: str) -> None:
    """The two sentences keep their order, with a space between them if their script has spaces."""
    assert f"- {later} (was: {rule})" in told("Hello.", rule, later).text


@pytest.mark.parametrize("said", [RULE, "On reflection email is fine, forget what I said about that."])
def test_a_sentence_that_is_repeated_is_not_its_own_revision(said: str) -> None:
    """The sentence is shown once, in one digest and in the next."""
    one, both = told(RULE, said), told(RULE, said, said)
    assert both.text == one.text
    assert both.text.count(said) == told(said, previous=one).text.count(said) == 1


def test_a_rule_that_is_given_again_revises_what_took_it_back() -> None:
    """The user bans, permits, and bans again in the same words: the ban is shown beside the permission."""
    text = told(RULE, "You can email me about the order now, forget that rule.", RULE).text
    assert f"- You can email me about the order now, forget that rule. (later: {RULE})" in text


def test_what_the_assistant_said_in_an_earlier_digest_is_no_wish_of_the_user() -> None:
    """If the user contradicts the assistant's sentence, no rule is revised."""
    one = told("Hello.", "Good, go on with the list.")
    said = AIMessage("I will never send KX-12 by email.")
    two = digest([said, HumanMessage("Go on.")], budget=400, counter=COUNTER, previous=one.record)
    three = told("You can send KX-12 by email.", previous=two)
    assert "assistant: " in three.text
    assert "(was: " not in three.text
    assert "(later: " not in three.text


@pytest.mark.parametrize(
    ("rule", "later"),
    [
        (
            "All measurements must be in inches.",
            "I changed my mind about the measurements, centimetres would be nicer.",
        ),
        ("No me escribas nunca por correo.", "Pensándolo bien, el correo está bien, olvida lo que dije."),
        ("Ne m'écrivez jamais par courriel.", "Réflexion faite, le courriel me convient, oubliez ce que j'ai dit."),
    ],
)
def test_words_that_only_take_back_something_make_no_other_case(rule: str, later: str) -> None:
    """Such a sentence replaces the rule, and the rule is shown as its earlier form."""
    assert f"- {later} (was: {rule})" in told(later, previous=told(f"Hello. {rule}")).text
