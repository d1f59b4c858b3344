"""The measures of the benchmarks of recall and prose, on conversations whose figures are known."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from long_threads import KNOWN, measured
from online_threads import LongThread, long_threads, played_threads, with_bm25
from planted import PLACES, plant, planted, survives
from planted import measured as planted_measured
from prose import kept_prose, planted_prose, rows_of
from sentences import CONSTRAINTS

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.graph.lab.comparison import run_of
from langgraph_compaction.graph.lab.evaluation.online import READ, WRITE, Online, Run, turn_by_turn, uncompacted
from langgraph_compaction.graph.lab.evaluation.policies import count, trimmed
from langgraph_compaction.graph.lab.evaluation.survival import cut
from langgraph_compaction.graph.lab.recordings import Recording
from tests.histories import asks, result

THINGS = ("teal", "navy", "coral", "amber", "ivory")
TALK: list[AnyMessage] = [
    HumanMessage("Good morning. Where is it?", id="u1"),
    AIMessage("It is on its way. Anything else?", id="a1"),
    HumanMessage("No. Thank you.", id="u2"),
    AIMessage("You are welcome.", id="a2"),
]
PASSENGERS = [{"first_name": "Ada", "dob": "1990-01-02"}, {"first_name": "Eli", "dob": "1991-03-04"}]


def run(thing: str) -> Recording:
    """A run whose first half names a parcel and is long, and whose second half needs the parcel."""
    said: list[AnyMessage] = [
        SystemMessage("You send parcels."),
        HumanMessage(f"My {thing} crate CR-{thing}-7 is parcel PX-{thing}-1."),
        AIMessage(f"Noted, {thing}. {f'{thing} ' * 700}"),
        HumanMessage(f"Send the {thing} crate CR-{thing}-7 on"),
        asks(thing, parcel=f"PX-{thing}-1"),
        result(thing, "sent"),
        AIMessage("It is sent."),
    ]
    return Recording(name=thing, messages=tuple(said))


RUNS = [run(thing) for thing in THINGS]


def test_all_first_halves_come_before_the_second_halves() -> None:
    """With new ids, one system prompt, and the name of the run of each message."""
    (thread,) = long_threads(RUNS, 10**6)
    messages = thread.recording.messages
    assert len({message.id for message in messages}) == len(messages) == 5 * 6 + 1
    order = list(dict.fromkeys(thread.parts[1:]))
    assert sorted(order) == sorted(THINGS)
    assert list(thread.parts) == ["", *(t for t in order for _ in range(2)), *(t for t in order for _ in range(4))]
    assert all(part in messages[n].text for n, part in enumerate(thread.parts[:11]) if part)


def newest(old: Sequence[AnyMessage], _cap: int) -> list[AnyMessage]:
    """Return only the last message."""
    return [old[-1]]


def test_the_figures_of_threads_are_those_counted_by_hand() -> None:
    """The figures of two threads that are played three times equal figures that are computed by hand.

    The first thread has requests of 10, 20 and 30 tokens, and the second thread has requests of 10 and 20 tokens.
    With a limit of 20 tokens, two of the three plays compact the third request of the first thread to 10 tokens.
    These plays lose one of the two identifiers that the last call needs.
    """
    told = [SystemMessage("be"), *(m for n in range(101, 104) for m in (HumanMessage(f"{n}"), AIMessage("ok")))]
    one = Run("a", [*told[:-1], asks("a", of=["101", "103"])])
    two = Run("b", [*told[:4], asks("b", of="102")])
    threads = [(one, ["", "x", "x", "y", "y", "x", "x"]), (two, ["", "z", "z", "z", "z"])]
    policies = {"lossy": (turn_by_turn(newest),) * 2 + (uncompacted,), "whole": (uncompacted,) * 3}
    assert list(played_threads(threads, policies, [20], {"whole": "lossy"})) == [
        {
            "policy": "lossy",
            "limit": 20,
            "threads": 2,
            "runs": 2,
            "tokens": round((count(one.messages) + count(two.messages)) / 2),
            "compactions": round(2 / 6, 1),
            "tokens_over_limit": round((2 * 40 + 60 + 3 * 30) / (15 * 20), 4),
            "over_limit": round(1 / 15, 4),
            "quoted": 0.0,
            "quoted_tokens": 0,
            "cost": round((2 * (25 * WRITE + 15 * READ) + 90 * WRITE + 60 * READ) / (150 * WRITE + 120 * READ), 4),
            "available": round((4 + 3) / (6 + 3), 4),
            "ci95": [round(4 / 6, 4), 1.0],
        },
        {
            "policy": "whole",
            "limit": 20,
            "threads": 2,
            "runs": 2,
            "tokens": round((count(one.messages) + count(two.messages)) / 2),
            "compactions": 0.0,
            "tokens_over_limit": round((3 * 60 + 3 * 30) / (15 * 20), 4),
            "over_limit": round(3 / 15, 4),
            "quoted": 0.0,
            "quoted_tokens": 0,
            "cost": 1.0,
            "available": 1.0,
            "ci95": [1.0, 1.0],
            "gain": round(2 / 9, 4),
            "gain_ci95": [0.0, round(2 / 6, 4)],
        },
    ]


def played(thread: LongThread, policies: dict[str, Online], compared: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of policies at a limit that holds a few messages."""
    each = {name: (policy,) for name, policy in policies.items()}
    return list(played_threads([(run_of(thread.recording), thread.parts)], each, [2_600], compared))


def test_what_is_quoted_is_available_and_costs_tokens() -> None:
    """A peer finds by BM25 what it has dropped; the gain and its interval are those of the runs."""
    (thread,) = long_threads(RUNS, 10**6)
    policies = {"trim": turn_by_turn(trimmed), "trim, BM25": with_bm25(trimmed)}
    without, with_hits = played(thread, policies, {"trim, BM25": "trim"})
    assert (without["threads"], without["runs"], without["quoted"], without["over_limit"]) == (1, 5, 0.0, 0.0)
    assert without["available"] < with_hits["available"] == 1.0
    assert with_hits["gain"] == round(1 - without["available"], 4)
    assert with_hits["gain_ci95"][0] <= with_hits["gain"] <= with_hits["gain_ci95"][1]
    assert 0 < with_hits["quoted"] < 1
    assert 0 < with_hits["quoted_tokens"] <= 2_600 * 0.05
    assert with_hits["over_limit"] == 0.0
    assert "gain" not in without


def test_planted_statements_are_counted_by_speaker() -> None:
    """A context without one speaker's messages holds the other's statements only."""
    planted = planted_prose("talk", TALK, "en")
    assert kept_prose(planted, planted.messages) == {"user": (5, 5), "assistant": (5, 5)}
    assert kept_prose(planted, planted.messages[::2]) == {"user": (5, 5), "assistant": (0, 5)}
    assert planted_prose("talk", TALK, "en") == planted


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


def asking(name: str, value: str) -> Recording:
    """A run whose last call needs an identifier that was said four rounds ago."""
    said: list[AnyMessage] = [
        HumanMessage(f"My {name} crate has the number {value}."),
        AIMessage("Noted."),
        *(m for n in range(2) for m in (HumanMessage(f"Wait for VIEW-{n}, please"), AIMessage("I wait."))),
        HumanMessage(f"Now send the {name} crate on"),
        asks(name, parcel=value, at="VIEW-1"),
        result(name, "sent"),
    ]
    return Recording(name=name, messages=tuple(said))


def test_the_figures_are_those_of_the_hits() -> None:
    """One row for each query and search; the own words name the crate, and the number stands beside."""
    runs = [(name, asking(name, f"PX-{n}{n}{n}")) for n, name in enumerate(("teal", "navy", "coral"))]
    with Database.open("memory") as database:
        database.setup()
        rows = measured(CompactionRecords(database), runs, tokens=0, most=9)
    assert [(row["query"], row["search"]) for row in rows] == [
        (query, search)
        for query in ("message", "automatic recall")
        for search in ("recall", "BM25 with stems", KNOWN)
    ]
    assert {(row["questions"], row["found"], row["in_reach"]) for row in rows} == {(3, 1.0, 1.0)}
    assert rows[0]["hit@5"] == 1.0


@pytest.mark.parametrize(
    ("between", "around", "survived"),
    [(58, (0, 0), True), (59, (0, 0), False), (58, (1, 0), True), (58, (0, 1), True), (59, (9, 9), False)],
)
def test_half_of_a_rules_words_survive_together(between: int, around: tuple[int, int], survived: bool) -> None:
    """A rule survives if 60 consecutive words of the context contain at least half of the rule's words."""
    before, after = around
    context = " ".join([*["fog"] * before, "alpha", *["fog"] * between, "beta", *["fog"] * after])
    assert survives(context, "alpha beta gamma delta") is survived
    assert not survives(context, "alpha beta gamma delta omega")


def test_sentences_stand_where_they_are_put_and_are_told_apart() -> None:
    """At the first, the middle and the last message of the user; no sentence passes for another."""
    users = [HumanMessage(f"message {number}", id=f"{number}") for number in range(5)]
    for at, index in ((0.0, 0), (0.5, 2), (1.0, 4)):
        for before, text in ((True, f"Hush. message {index}"), (False, f"message {index} Hush.")):
            said = [*users[:index], HumanMessage(text, id=users[index].id), *users[index + 1 :]]
            assert planted(users, "Hush.", at, before=before) == said
    for sentence in CONSTRAINTS:
        assert [other for other in CONSTRAINTS if survives(sentence, other)] == [sentence]


def test_constraints_that_survive_are_counted_by_place() -> None:
    """All in a context that keeps everything, and none in an empty one; a run without a user has none to count."""
    runs = [plant(cut("talk", [*TALK, asks("a", of="X-1")], 0.9), 1), plant(cut("mute", [AIMessage("ok")], 1.0), 1)]
    policies = {"all": (lambda old, _: old,), "none": (lambda _old, _cap: [],)}
    every, none = planted_measured(runs, policies, [1.0])
    assert every["rules"] == dict.fromkeys(PLACES, 1.0)
    assert every["ci95"]["rules top"] == [1.0, 1.0]
    assert none["rules"] == dict.fromkeys(PLACES, 0.0)
