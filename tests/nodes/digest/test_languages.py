"""Rules in twenty languages: they are recognized, and survive eight compactions, also with a model that loses all."""

from random import Random

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.graph.lab.evaluation.policies import count
from langgraph_compaction.nodes import CompactionSettings, compact_messages
from langgraph_compaction.nodes.conversation.tokens import approximate_counter
from langgraph_compaction.nodes.digest.digest import digest
from langgraph_compaction.nodes.digest.languages import languages_of
from langgraph_compaction.nodes.digest.rules_and_requests import FIRM, own_sentences, strength_of
from tests.nodes.digest.dialogues import (
    LossySummarizer,
    after_compactions,
    kept,
    listed_rules,
    round_of,
)
from tests.nodes.digest.rules_by_language import REMARKS, RULES

FAITHFUL = CompactionSettings(preset="faithful")


@pytest.mark.parametrize("language", sorted(RULES.keys() - {"en", "zh"}))
def test_rules_are_recognized(language: str) -> None:
    """A ban, an order, a duty, a restriction, an aversion and a limit are rules; remarks are none."""
    assert [rule for rule in RULES[language] if strength_of(rule) < FIRM] == []
    assert [remark for remark in REMARKS[language] if strength_of(remark) >= FIRM] == []


@pytest.mark.parametrize("language", ["ja", "ko", "ru", "de", "es", "fr", "pt", "it", "ar", "pl"])
def test_rules_survive_eight_compactions(language: str) -> None:
    """Each of six rules still stands, the first one as the goal, and nothing else is listed as a rule."""
    rules = RULES[language]
    said = dict(enumerate([*rules[:3], REMARKS[language][0], *rules[3:], REMARKS[language][1]]))
    context = after_compactions(said, FAITHFUL, compactions=8, seed=1)
    assert kept(context, rules) == len(rules)
    listed = listed_rules(context)
    assert [line for line in listed if not any(rule in line for rule in rules)] == []
    assert [rule for rule in rules if not any(rule in line for line in listed)] == [rules[0]], "the first is the goal"


@pytest.mark.parametrize("language", ["en", "hi"])
def test_rules_stand_beside_the_summaries_of_a_model_that_loses_them(language: str) -> None:
    """After twelve compactions of a few hundred tokens each, all six rules still stand beside the summary."""
    rules = RULES[language]
    context = after_compactions(
        dict(enumerate(rules)), CompactionSettings(), compactions=12, seed=7, summarizer=LossySummarizer()
    )
    assert kept(context, rules) == len(rules)


def test_rules_give_way_where_nothing_else_fits() -> None:
    """The tokens reserved for rules never make a compaction fail that would succeed without them."""
    rules = " ".join(rule for language in ("en", "de", "fr") for rule in RULES[language])
    first = [HumanMessage(rules, id="a"), AIMessage("Noted, all of it. " * 20, id="b")]
    asked = HumanMessage("Read this list. " + " ".join(map(str, range(100, 260))), id="c")
    cap = count([asked]) + 75
    context = compact_messages([*first, asked], max_tokens=cap, token_counter=count, summarizer=LossySummarizer())
    assert context[-1] == asked
    assert kept(context, [RULES["en"][0], RULES["en"][2]]) > 0
    assert count(context) <= cap


@pytest.mark.parametrize(
    ("sentence", "language"),
    [
        ("Please answer in English.", "en"),
        ("Never book seats at the back.", "en"),
        ("Nunca reserves asientos de ventanilla.", "es"),
        ("Bitte nur mit dem Zug.", "de"),
        ("N'écrivez jamais à mon bureau.", "fr"),
        ("金曜日までにお願いします。", "ja"),
        ("周五之前不要寄出。", "zh"),
        ("Никогда не звоните.", "ru"),
    ],
)
def test_the_language_is_guessed(sentence: str, language: str) -> None:
    """A few frequent words, or the script, tell the language."""
    assert language in languages_of(sentence)
    assert ("en" in languages_of(sentence)) == (language == "en")


LATIN = ("de", "es", "fr", "pt", "it", "nl", "pl", "tr", "vi", "id", "sv")
"""The languages besides English that a sentence of a few Latin letters may be in."""
WITHOUT_TURKISH = tuple(language for language in LATIN if language != "tr")


@pytest.mark.parametrize(
    ("sentence", "languages"),
    [
        ("Xqz.", WITHOUT_TURKISH),
        ("Xqzé.", LATIN),
        ("een der", WITHOUT_TURKISH),
        ("bir een", LATIN),
        ("een het der", ("de", "nl")),
        ("bir ve een", ("nl", "tr")),
        ("een het dat der auf", ("nl",)),
        ("een about", ("en",)),
        ("een het about", ("nl",)),
    ],
)
def test_a_language_with_one_frequent_word_less_is_possible_in_a_short_sentence(
    sentence: str, languages: tuple[str, ...]
) -> None:
    """Up to two frequent words; English only with the most, and Turkish only with a word or letter of its own."""
    assert languages_of(sentence) == languages


@pytest.mark.parametrize(
    "sentence",
    ["Ich weiß die Nummer nicht mehr.", "Я не помню номер.", "No recuerdo el número.", "番号が分かりません。"],
)
def test_ignorance_sets_no_rule(sentence: str) -> None:
    """A negation alone demands nothing."""
    assert strength_of(sentence) < FIRM


@pytest.mark.parametrize(
    "said", ["Entry 11: parcel P-111 came.", "Good game.", "Ticket 4: same name.", "Berlin, prime time."]
)
def test_an_ending_alone_makes_no_rule(said: str) -> None:
    """English words such as "came" end like a Turkish negative command, and are not taken for one."""
    assert strength_of(said) < FIRM


@pytest.mark.parametrize(
    "sentence",
    [
        "How should we proceed with the remaining days?",
        "So what should I always bring along?",
        "Wie soll ich das immer machen?",
        "¿Cómo debo pagar siempre?",
        "我应该怎么做？",
        "Yes, I'd like to proceed with those dates.",
        "Okay, let's go ahead with the second one.",
    ],
)
def test_questions_for_information_and_acceptances_set_no_rule(sentence: str) -> None:
    """They have words of rules, but set none."""
    assert strength_of(sentence) == 0


@pytest.mark.parametrize(
    "sentence",
    [
        "Could you always answer in French?",
        "Yes, please proceed, but only with the gift card.",
        "Lassen Sie die Heizung im Keller an.",
        "Bleib bei günstigen Hotels.",
        "Deje el coche delante de la casa.",
        "Lasciate spenta la radio.",
        "Zostawcie okna otwarte.",
        "Deixe a chave na caixa.",
        "Laat de hond in de tuin.",
        "只订素食餐。",
    ],
)
def test_orders_without_please_are_rules(sentence: str) -> None:
    """In several languages; also a request in the form of a question, and an acceptance with a condition."""
    assert strength_of(sentence) >= FIRM


@pytest.mark.parametrize(
    "sentence",
    [
        "Finger weg von meinem zweiten Konto.",
        "Ohne Frühstück buche ich nichts.",
        "Je tiens à garder la même place.",
        "Que nadie toque mi reserva.",
        "Como mucho puedo pagar cien euros.",
        "Guai a cambiare la data.",
        "Di notte non viaggio.",
        "Voo noturno, nem pensar.",
        "'s Nachts reis ik niet.",
        "Najwyżej sto złotych.",
        "Ночью я не летаю.",
        "夜の移動はしません。",
        "밤에는 이동하지 않습니다.",
        "اترك حجزي كما هو.",
    ],
)
def test_rules_need_no_verb_of_duty(sentence: str) -> None:
    """Idioms of a ban, amounts, and habits of the user set rules too."""
    assert strength_of(sentence) >= FIRM


@pytest.mark.parametrize(
    "remark",
    [
        "Hier il a plu toute la journée.",
        "A minha irmã mora em Braga há três anos.",
        "Ayer llovió durante horas.",
        "昨日は一日中雨でした。",
        "언니는 삼 년째 부산에 살아요.",
        "Моя сестра три года живёт в Казани.",
    ],
)
def test_further_remarks_set_no_rule(remark: str) -> None:
    """They have words such as `all`, and demand nothing."""
    assert strength_of(remark) < FIRM


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Nie vor dem 12. Oktober. Danke.", ("Nie vor dem 12. Oktober.", "Danke.")),
        ("Nigdy przed 12. dniem miesiąca.", ("Nigdy przed 12. dniem miesiąca.",)),
        ("Book seat 12. Never pay more.", ("Book seat 12.", "Never pay more.")),
    ],
)
def test_an_ordinal_number_ends_no_sentence(text: str, sentences: tuple[str, ...]) -> None:
    """A rule with a date in German or Polish stays whole."""
    assert own_sentences(text) == sentences


@pytest.mark.parametrize("language", ["de", "ru", "hi"])
def test_rules_outlast_the_facts_of_a_small_digest(language: str) -> None:
    """Rules that take half of the tokens come before identifiers that calls have used."""
    rules = RULES[language]
    said: list[AnyMessage] = [HumanMessage(" ".join(rules))]
    for number in range(20):
        said += round_of(Random(number))  # noqa: S311 - no secret; the seed repeats the dialogue
    needed = approximate_counter().text("\n".join(rules))
    text = digest(said, budget=int(2.4 * needed), counter=approximate_counter(), sections=("Rules", "Facts")).text
    assert [rule for rule in rules if rule not in text] == []
    assert "Facts:" in text
