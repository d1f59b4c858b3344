"""The measures of plain statements and of rows without their subject, on contexts whose figures are known."""

import json
from collections.abc import Sequence

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.graph.lab.evaluation.policies import count, trimmed
from langgraph_compaction.graph.lab.evaluation.prose import (
    Planted,
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


@pytest.mark.parametrize("language", PHRASES)
def test_statements_are_no_identifiers_and_hardly_ever_rules(language: str) -> None:
    """The statements are what the digest loses most easily: neither identifiers nor rules."""
    every = [sentence for speaker in SPEAKERS for sentence in PHRASES[language].of(speaker)]
    assert len(every) == len(set(every)) >= 46
    assert not any(identifiers(sentence) for sentence in every)
    assert sum(bool(rules_of(sentence)) for sentence in every) <= len(every) // 10


def test_planted_statements_are_counted_by_speaker() -> None:
    """A context without one speaker's messages holds the other's statements only."""
    planted = planted_prose("talk", TALK, "en")
    assert kept_prose(planted, planted.messages) == {"user": (5, 5), "assistant": (5, 5)}
    assert kept_prose(planted, planted.messages[::2]) == {"user": (5, 5), "assistant": (0, 5)}
    assert planted_prose("talk", TALK, "en") == planted


def test_statements_are_planted_where_the_name_and_the_language_draw_them() -> None:
    """The statements are always planted in the same places, between sentences and at both ends of messages."""
    texts = [message.text for message in planted_prose("talk", TALK, "en").messages]
    assert [text.replace("? ", ". ").split(". ") for text in texts] == [
        [
            "Good morning",
            "Our landlady repairs antique clocks in the cellar",
            "Where is it",
            "Our accountant breeds pigeons on the roof",
            "My old teacher repairs antique clocks in the cellar.",
        ],
        [
            "The museum borrows the bronze statue, since the neighbors complained about the noise",
            "It is on its way",
            "Anything else",
            "The museum borrows the bronze statue, because the carpenter is free in spring.",
        ],
        [
            "My brother repairs antique clocks in the cellar",
            "No",
            "The girl next door translates poems from Finnish",
            "Thank you.",
        ],
        [
            "We went with the oak staircase, because the council pays half",
            "You are welcome",
            "The roof gets slate tiles, as the river floods the garden",
            "We went with the oak staircase, because the carpenter is free in spring.",
        ],
    ]


def test_a_user_tells_facts_and_an_assistant_decides_with_a_reason() -> None:
    """The statements of a speaker combine each phrase of one list with each phrase of another list.

    The test checks the number of statements, and the first and the last statement.
    """
    told = {(code, speaker): PHRASES[code].of(speaker) for code in ("en", "ja") for speaker in SPEAKERS}
    assert {key: (len(every), every[0], every[-1]) for key, every in told.items()} == {
        ("en", "user"): (
            6 * 7,
            "My brother plays the cello in a string quartet.",
            "Our accountant repairs antique clocks in the cellar.",
        ),
        ("en", "assistant"): (
            6 * 6,
            "The roof gets slate tiles, because the beams are dry again.",
            "The museum borrows the bronze statue, as the river floods the garden.",
        ),
        ("ja", "user"): (
            5 * 6,
            "弟は弦楽四重奏でチェロを弾いています。",
            "昔の先生は地下室で古い時計を直しています。",
        ),
        ("ja", "assistant"): (
            4 * 4,
            "梁がもう乾いたので、屋根はスレート葺きになります。",
            "川が庭にあふれるので、果樹園は草地になります。",
        ),
    }


def test_a_speaker_without_prose_gets_no_statement() -> None:
    """A message that contains only calls gets no statements.

    The statements of the user are planted between the sentences of the first message.
    """
    call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}])
    planted = planted_prose("calls", [TALK[0], call, TALK[2]], "en", within=2)
    assert {speaker: len(every) for speaker, every in planted.sentences.items()} == {"user": 5, "assistant": 0}
    assert kept_prose(planted, planted.messages) == {"user": (5, 5), "assistant": (0, 0)}
    assert (planted.origin, planted.messages[1:], planted.messages[0].id) == ("calls", [call, TALK[2]], "u1")
    text = str(planted.messages[0].text)
    for sentence in planted.sentences["user"]:
        text = text.replace(sentence, "")
    assert text.split() == TALK[0].text.split()


def test_the_second_half_is_said_again_when_the_conversation_is_over() -> None:
    """Six rounds are added before each compaction, and each repeated message gets an id of its own.

    The cap of each compaction is the given share of the tokens.
    """
    asked = [message for n in range(8) for message in (HumanMessage(f"ask {n}"), AIMessage("a"), AIMessage("b"))]
    planted = Planted("talk", [AIMessage("hello"), *asked], {})
    caps: list[tuple[int, int]] = []

    def same(old: Sequence[AnyMessage], cap: int) -> list[AnyMessage]:
        caps.append((cap, count(old)))
        return list(old)

    seen = dict(after_compactions(planted, same, share=0.5, seen=(1, 3)))
    assert {number: len(context) for number, context in seen.items()} == {1: 1 + 5 * 3, 3: 1 + 17 * 3}
    heard = [message.text for message in seen[3]]
    again = [f"ask {n}" for n in (*range(8), *[3, 4, 5, 6, 7] * 2)][:17]
    assert heard == ["hello", *(text for one in again for text in (one, "a", "b"))]
    assert len({message.id for message in seen[3]}) == len(seen[3])
    assert [cap for cap, _ in caps] == [size // 2 for _, size in caps]
    assert len(caps) == 3


def test_the_context_is_compacted_once_for_each_number() -> None:
    """A policy that keeps the newest messages has lost the oldest statements after three compactions."""
    planted = planted_prose("talk", TALK * 6, "zh", within=2)
    seen = list(after_compactions(planted, trimmed, share=0.5, seen=(1, 3)))
    assert [number for number, _ in seen] == [1, 3]
    assert kept_prose(planted, seen[-1][1]) == {"user": (0, 5), "assistant": (0, 5)}


def test_chats_hold_no_calls_and_stay_in_one_half() -> None:
    """A chat is prose of runs of one half."""
    call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}])
    runs = [(f"run {number}", [*TALK, call, ToolMessage("{}", tool_call_id="1")]) for number in range(24)]
    found = list(chats(runs))
    assert {half_of(name) for name, _ in found} == {"tuning", "held_out"}
    assert all(message.text and not isinstance(message, ToolMessage) for _, chat in found for message in chat)


def test_a_conversation_always_belongs_to_the_same_half() -> None:
    """The half of a conversation depends only on its name.

    The published figures use only conversations with which nothing was tuned.
    """
    halves = {name: half_of(name) for name in map(str, range(12))}
    assert {name for name, half in halves.items() if half == "held_out"} == {"0", "2", "3", "4", "7", "8"}
    assert {name for name, half in halves.items() if half == "tuning"} == {"1", "5", "6", "9", "10", "11"}


def test_four_runs_of_a_half_make_a_chat() -> None:
    """The chat has the name of the first run and the prose of all four runs in order, with new ids.

    Fewer than four runs of a half make no chat.
    """
    names = [name for name in map(str, range(99)) if half_of(name) == "tuning"][:9]
    others = [name for name in map(str, range(99)) if half_of(name) == "held_out"][:4]
    runs: list[tuple[str, list[AnyMessage]]] = [
        (name, [HumanMessage(f"hi {name}"), AIMessage(""), AIMessage(f"ok {name}")]) for name in names
    ]
    for number, firsts in ((3, []), (4, names[:1]), (7, names[:1]), (8, names[:5:4]), (9, names[:5:4])):
        found = list(chats([*((other, TALK) for other in others), *runs[:number]]))
        assert [name for name, _ in found] == [*firsts, others[0]]
    said = [message for name in names[4:8] for message in (HumanMessage(f"hi {name}"), AIMessage(f"ok {name}"))]
    assert found[1][1] == [one.model_copy(update={"id": f"said-{at}"}) for at, one in enumerate(said)]


def test_the_rows_of_results_are_found_by_the_path_of_their_list() -> None:
    """Each row contains its keys and values without nested lists, and the name of the key that labels the row."""
    bags = [{"code": "B1", "kg": 7}, {"code": "B2", "kg": 9}]
    people = [{"id": 3, "name": {"first": "Ada Lee"}, "bags": bags}, {"age": 30}]
    call = AIMessage("", tool_calls=[{"name": "look", "args": {"by": {"code": "B1"}, "all": [1]}, "id": "1"}])
    found = rows_of([call, ToolMessage(json.dumps({"trip": {"people": people}}), tool_call_id="1")])
    assert found.asked == [{"by.code": "B1"}]
    assert found.rows == {
        "trip.people": [({"id": "3", "name.first": '"Ada Lee"'}, "id"), ({"age": "30"}, "")],
        "trip.people.bags": [({"code": "B1", "kg": "7"}, "code"), ({"code": "B2", "kg": "9"}, "code")],
    }


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


def test_the_arguments_of_a_call_are_no_row() -> None:
    """A digest shows them before the rows of a list without a path."""
    call = AIMessage("", tool_calls=[{"name": "search", "args": {"origin": "DEN"}, "id": "1"}])
    flights = ToolMessage(json.dumps([{"flight_number": "HAT1", "origin": "DEN", "price": 120}]), tool_call_id="1")
    shown = [HumanMessage("- origin DEN; flight_number HAT1; price 120")]
    assert rows_of([flights]).shown(shown) == (2, 3)
    assert rows_of([call, flights]).shown(shown) == (1, 2)


def test_an_id_names_a_row_before_a_name() -> None:
    """The label is an id, else a name, else nothing."""
    assert label_key({"name": "Ada", "price": 3, "flight_number": "F1"}) == "flight_number"
    assert label_key({"price": 3, "last_name": "Lee"}) == "last_name"
    assert not label_key({"price": 3})
