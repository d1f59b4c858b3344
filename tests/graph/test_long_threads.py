"""What recall finds in threads that hold other tasks too, measured on runs made for the test."""

import math
from collections import Counter
from random import Random

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.checkpoint.compaction.recall_search import SearchHit
from langgraph_compaction.graph.lab.evaluation.long_threads import (
    KNOWN,
    OTHERS,
    measured,
    plain_bm25,
    questions,
    task_of,
    thread_of,
)
from langgraph_compaction.graph.lab.recordings import Recording


def asks(number: int, **args: str) -> AIMessage:
    """A call."""
    return AIMessage("", tool_calls=[{"name": "send", "args": args, "id": f"call-{number}"}])


def run(name: str, thing: str, value: str) -> Recording:
    """Return a run whose last call uses `value`, an identifier in view, one of the system prompt and a new one."""
    said: list[AnyMessage] = [
        SystemMessage("You send parcels with TR-1."),
        HumanMessage(f"My {thing} has the number {value}."),
        AIMessage("Noted."),
        *(
            message
            for n in range(2)
            for message in (HumanMessage(f"Wait for VIEW-{n}, please"), AIMessage("I wait."))
        ),
        HumanMessage(f"Now send the {thing} on"),
        asks(1, parcel=value, at="VIEW-1", by="TR-1", name="NEW-1"),
        ToolMessage("sent", tool_call_id="call-1"),
    ]
    return Recording(name=name, messages=tuple(said))


RUNS = [(name, run(name, f"{name} crate", f"PX-{n}{n}{n}")) for n, name in enumerate(("teal", "navy", "coral"))]


def test_a_question_needs_what_left_the_view() -> None:
    """Identifiers in the view, in the system prompt or in no earlier message are not needed."""
    (question,) = questions(RUNS[0][1], "teal")
    assert question.needed == {"PX-000"}
    assert [message.text for message in question.old] == ["My teal crate has the number PX-000.", "Noted."]
    assert question.words == "Now send the teal crate on"


def test_the_first_messages_of_a_run_are_all_in_view() -> None:
    """The first round leaves the view with the fourth user message, and no message leaves the view earlier."""
    said = [message for n in range(4) for message in (HumanMessage(f"Take PX-{n}"), AIMessage("ok"))]
    for number in range(1, 5):
        short = Recording(name="short", messages=(*said[: 2 * number - 1], asks(1, parcel="PX-0")))
        found = [(question.old, question.words) for question in questions(short, "short")]
        assert found == ([(said[:2], "Take PX-3")] if number == 4 else [])


def test_a_thread_holds_other_tasks_around_the_run() -> None:
    """As many as are asked for, and the ids of the run's own messages."""
    (question,) = questions(RUNS[0][1], "teal")
    for tokens, most in ((0, 18), (1, 10)):
        messages, own = thread_of(question, [*RUNS, RUNS[1]], tokens, Random(3))  # noqa: S311 - for a test
        assert len(messages) == len({message.id for message in messages}) <= most + 2
        assert [message.text for message in messages if message.id in own] == [one.text for one in question.old]


def test_runs_of_other_tasks_are_added_until_the_thread_is_large_enough() -> None:
    """Whole runs without their system messages are added, and the position of the question's own run is random.

    If no size is given, one run of each of eight tasks is added.
    """
    (question,) = questions(RUNS[0][1], "teal")
    said = [(f"{n}", [SystemMessage("be"), HumanMessage(f"{n}"), AIMessage("ok")]) for n in range(100, 110)]
    runs = [RUNS[0], *((task, Recording(name=task, messages=tuple(two))) for task, two in said for _ in range(2))]
    for tokens, number in ((0, OTHERS), (40, 4), (41, 5)):
        places, drawn = Counter[int](), set[str]()
        for seed in range(300):
            messages, own = thread_of(question, runs, tokens, Random(seed))  # noqa: S311 - no secret
            assert [message.id for message in messages] == [f"message-{n}" for n in range(2 * number + 2)]
            texts = [message.text for message in messages]
            place = texts.index(question.old[0].text)
            assert own == {f"message-{place}", f"message-{place + 1}"}
            tasks = [*texts[:place:2], *texts[place + 2 :: 2]]
            assert tokens or len(set(tasks)) == number
            drawn |= set(tasks)
            assert [*texts[1:place:2], *texts[place + 3 :: 2]] == ["ok"] * number
            places[place // 2] += 1
        assert places.keys() == {*range(number + 1)}
        assert places[number] < 1.4 * 300 / (number + 1), "the last position is as likely as the others"
        assert drawn == {task for task, _ in said}


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("airline#12-3", "12"),
        ("a#b#book-a-seat-0", "book-a-seat"),
        ("airline#12-x", "airline#12-x"),
        ("airline#12", "airline#12"),
        ("airline#-3", "airline#-3"),
        ("airline-3", "airline-3"),
        ("talk", "talk"),
    ],
)
def test_trials_of_a_task_are_told_by_their_name(name: str, task: str) -> None:
    """A run whose name does not have the form of a trial counts as a task of its own."""
    assert task_of(Recording(name=name, messages=())) == task


def test_the_figures_are_those_of_the_hits() -> None:
    """One row for each query and search; the own words name the crate, and the number stands beside."""
    with Database.open("memory") as database:
        database.setup()
        told: list[str] = []
        records = CompactionRecords(database)
        rows = measured(records, RUNS, tokens=0, most=9, seen=lambda: told.append("question"))
        assert records.threads() == []
    assert len(told) == 3
    assert [(row["query"], row["search"]) for row in rows] == [
        (query, search) for query in ("message", "auto_recall") for search in ("recall", "BM25 with stems", KNOWN)
    ]
    assert {(row["questions"], row["found"]) for row in rows} == {(3, 1.0)}
    assert rows[0]["hit@5"] == 1.0
    assert {row["in_reach"] for row in rows} == {1.0}


def test_a_message_of_the_run_without_a_needed_identifier_is_no_hit() -> None:
    """The search returns it first, because it contains more words of the query, but not the identifier."""
    said = RUNS[0][1].messages
    vague = HumanMessage("Please send my teal crate on, the teal crate")
    teal = Recording(name="teal", messages=(said[0], vague, AIMessage("Which one?"), *said[1:]))
    with Database.open("memory") as database:
        database.setup()
        rows = measured(CompactionRecords(database), [("teal", teal), *RUNS[1:]], tokens=0, most=9)
    figures = [(row["hit@1"], row["hit@5"]) for row in rows if row["query"] == "message" and row["search"] == KNOWN]
    assert figures == [(0.6667, 1.0)]


def test_questions_can_be_left_out() -> None:
    """The others are the same questions in the same threads as with all."""
    with Database.open("memory") as database:
        database.setup()
        records = CompactionRecords(database)
        sizes = [measured(records, RUNS, tokens=0, most=1, skipped=number)[0]["tokens"] for number in range(3)]
        (row, *_), none = (measured(records, RUNS, tokens=0, most=9, skipped=skipped) for skipped in (1, 3))
    assert (row["questions"], none) == (2, [])
    assert abs(row["tokens"] - sum(sizes[1:]) / 2) <= 1


def test_words_that_no_message_shares_are_out_of_reach() -> None:
    """The message says nothing about the crate."""
    said = [message for message in RUNS[0][1].messages if message.text != "Now send the teal crate on"]
    place = next(n for n, message in enumerate(said) if isinstance(message, AIMessage) and message.tool_calls)
    vague = Recording(name="vague", messages=(*said[:place], HumanMessage("Yes, go ahead"), *said[place:]))
    with Database.open("memory") as database:
        database.setup()
        rows = measured(CompactionRecords(database), [("vague", vague), *RUNS[1:]], tokens=0, most=9)
    assert [row["in_reach"] for row in rows if row["query"] == "message"] == [0.6667] * 3


def test_the_plain_search_is_bm25() -> None:
    """A rare word counts more than a frequent word, and the search omits a text that contains none of the words.

    The handle of each hit has twelve characters.
    """
    texts: list[AnyMessage] = [HumanMessage(text) for text in ("crate crate", "crates of tea", "a boat")]
    crate, tea = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)
    lengths = [1.2 * (0.25 + 0.75 * words / (7 / 3)) for words in (2, 3)]
    scores = [2 * 2.2 / (2 + lengths[0]) * crate, 2.2 / (1 + lengths[1]) * (crate + tea)]
    hits = plain_bm25(texts, "crate tea")
    assert [one.score for one in hits] == pytest.approx(scores[::-1])
    assert hits == [
        SearchHit(message=text, handle="0" * 12, compaction_id="", archived_at=0.0, score=one.score)
        for text, one in zip(texts[1::-1], hits, strict=True)
    ]


def test_the_plain_search_returns_as_many_messages_as_are_compared() -> None:
    """The search returns at most 32 messages, and returns messages with equal scores in their original order."""
    texts: list[AnyMessage] = [HumanMessage("tea", id=f"{n}") for n in range(40)]
    assert [one.message.id for one in plain_bm25(texts, "tea")] == [f"{n}" for n in range(32)]


def test_a_text_of_usual_length_scores_what_its_word_is_worth() -> None:
    """If all texts have the same length, the score depends only on how rare the word is."""
    texts: list[AnyMessage] = [HumanMessage(text) for text in ("green tea leaves", "red boat sails", "old oak trees")]
    (found,) = plain_bm25(texts, "tea")
    assert found.score == pytest.approx(math.log(1 + 2.5 / 1.5))
