"""Online replay: what each real call found in its request, and what the requests cost, by hand and on real runs."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_compaction.graph.lab.comparison import run_of, through_the_graph
from langgraph_compaction.graph.lab.evaluation.online import (
    BASELINES,
    OUTPUT,
    READ,
    WRITE,
    Online,
    PlayedRun,
    Run,
    Sent,
    available,
    bill,
    turn_by_turn,
    uncompacted,
)
from langgraph_compaction.graph.lab.evaluation.online_scores import replayed
from langgraph_compaction.graph.lab.recordings import Recording, read_recordings
from langgraph_compaction.graph.lab.replay.user_parts import UserParts
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.gate.reply_checks import Reply
from tests.fakes import ReplyingSummarizer
from tests.graph.cli.replaying import READ as READ_SCHEMA
from tests.histories import asks, result
from tests.shared_data import shared_data

TINY = Run("tiny", [SystemMessage("be"), HumanMessage("hi"), AIMessage("ok"), HumanMessage("go"), AIMessage("ok")])
"""Each message takes five tokens: one word, and four for the message itself."""
TALK: list[AnyMessage] = [
    SystemMessage("Orders begin with ORD-7."),
    HumanMessage("Please look up my order FQ8APE: ORD-7 stands before it."),
    asks("a", order="FQ8APE", prefix="ORD-7"),
    result("a", '{"order": "FQ8APE", "parcel": "PX-1138"}'),
    AIMessage("It is on its way."),
    HumanMessage("Then change the parcel."),
    asks("b", "c", parcel="PX-1138", order="FQ8APE", new="ZZ-9"),
    result("b", "ok"),
    result("c", "ok"),
]


def newest(old: Sequence[AnyMessage], _cap: int) -> list[AnyMessage]:
    """The last message alone."""
    return [old[-1]]


def row(policy: Online, run: Run = TINY, window: float = 0.5) -> dict[str, Any]:
    """Return the figures of a policy on one run."""
    (found,) = replayed([run], {"it": (policy,)}, [window])
    return found


def test_a_call_needs_what_was_said_before_it_and_not_in_the_prompt() -> None:
    """Each call of a message by itself; a word that nobody had said is none."""
    run = Run("talk", TALK)
    assert run.needed == {2: [frozenset({"FQ8APE"})], 6: [frozenset({"PX-1138", "FQ8APE"})] * 2}
    assert available(run, uncompacted(run)) == [(1, 1), (2, 2), (2, 2)]
    half = PlayedRun([Sent(2, TALK[:2]), Sent(6, [HumanMessage("FQ8APE and PX-11389")])])
    assert available(run, half) == [(1, 1), (1, 2), (1, 2)]
    figures = row(lambda _run, _limit: half, run)
    assert (figures["identifiers"], figures["available"], figures["calls"]) == (5, 0.6, round(1 / 3, 4))


def test_every_figure_is_that_of_the_requests_counted_by_hand() -> None:
    """The figures of a run that is played three times equal figures that are computed by hand.

    The run has twenty requests of 10 to 200 tokens. With a limit of 100 tokens, two of the three plays compact the
    run once and call a summarizer. This compaction leaves only the newest message. The last answer has two calls: one
    call needs the first and the newest message, and the other call needs only the newest message.
    """
    said = [message for n in range(101, 121) for message in (HumanMessage(str(n)), AIMessage("ok"))]
    calls = [{"name": "find", "args": {"of": of}, "id": str(len(of))} for of in (["101", "120"], ["120"])]
    run = Run("twenty", [SystemMessage("be"), *said[:-1], AIMessage("", tool_calls=calls)])

    def paid(run: Run, limit: int) -> PlayedRun:
        course = turn_by_turn(newest)(run, limit)
        course.extra_calls, course.extra_input, course.extra_output = 1, 40, 8
        return course

    new, again = 10 * WRITE, 10 * READ
    grows = [new + n * again for n in range(10)]
    compacted = [*grows, 5 * WRITE + 5 * READ, *grows[1:]]
    extra = 40 * WRITE + 8 * OUTPUT
    kept = [new + n * again for n in range(20)]
    whole = 3 * sum(kept)
    so_far = [sum(2 * compacted[:n] + kept[:n]) for n in range(1, 21)]
    assert list(replayed([run], {"it": (paid, paid, uncompacted)}, [100])) == [
        {
            "policy": "it",
            "window": 100,
            "runs": 1,
            "requests": 20,
            "identifiers": 3,
            "available": round((2 + 2 + 3) / 9, 4),
            "calls": round((1 + 1 + 2) / 6, 4),
            "compactions": round(2 / 3, 2),
            "tokens_sent": round((1_100 + 1_100 + 2_100) / 6_300, 4),
            "prefix_reuse": round((905 + 905 + 1_900) / 4_300, 4),
            "cost": round((so_far[-1] + 2 * extra) / whole, 4),
            "over_window": round(10 / 60, 4),
            "extra_calls": 2,
            "ci95": {"available": [0.7778] * 2, "calls": [0.6667] * 2, "cost": [0.9761] * 2},
            "course": {
                "tokens": [*range(10, 101, 10), 43, 53, 63, 73, 83, 93, 103, 113, 123, 133],
                "cost": [*(round(cost / whole, 4) for cost in so_far[:-1]), 0.9761],
            },
        }
    ]


@pytest.fixture
def recording() -> Recording:
    """Return ten rounds of a question, a call, its result, and an answer."""
    rounds: list[BaseMessage] = [SystemMessage("You read files.")]
    for number in range(10):
        found = " ".join(f"word-{number}-{word}" for word in range(40))
        rounds += [
            HumanMessage(f"What stands in file-{number}.txt?"),
            asks("c", path=f"file-{number}.txt"),
            result("c", found),
            AIMessage(f"It begins with word-{number}-0."),
        ]
    return Recording(name="rounds", messages=tuple(rounds), tools=(READ_SCHEMA,))


def played(recording: Recording, **given: Any) -> tuple[Run, PlayedRun]:
    """Play a recording through the graph in half of its tokens."""
    run = run_of(recording)
    policy = through_the_graph(CompactionSettings(preset="faithful"), [recording], UserParts(), **given)
    return run, policy(run, run.limit(0.5))


def test_settings_drive_the_real_graph(recording: Recording) -> None:
    """Every real request is there once, in order, within the limit; a digest costs no call."""
    run, course = played(recording)
    assert [sent.answer for sent in course.sent] == run.answers
    found = bill(run, course)
    assert max(found.sizes) <= run.limit(0.5) < max(bill(run, uncompacted(run)).sizes)
    assert course.compactions > 0
    assert (course.extra_calls, course.extra_cost) == (0, 0)


def test_a_model_that_summarizes_is_paid_for(recording: Recording) -> None:
    """Every call of it, by the usage that it reports."""
    told = Reply(content="<summary>They talked about files.</summary>", input_tokens=300, output_tokens=7)
    _, course = played(recording, summarizer=ReplyingSummarizer(told))
    assert course.extra_calls >= course.compactions > 0
    assert (course.extra_input, course.extra_output) == (300 * course.extra_calls, 7 * course.extra_calls)


def test_the_figures_on_real_runs_are_those_that_others_measured() -> None:
    """Sliding trim costs half as much again, 1.57 over twice the runs; ours keeps more than any of them."""
    recordings = read_recordings(shared_data("tau-bench-airline/gpt-4o-airline-tasks-00-24.json"))
    runs = [run_of(one) for one in recordings]
    whole, trim, chance = replayed(runs, BASELINES, [0.5])
    assert (whole["available"], whole["cost"], whole["runs"]) == (1.0, 1.0, 100)
    assert 1.5 < trim["cost"] < 1.65
    assert chance["available"] < trim["available"] < 0.95
    faithful = through_the_graph(CompactionSettings(preset="faithful"), recordings, UserParts())
    (some,) = replayed(runs[:10], {"faithful": (faithful,)}, [0.5])
    for other in replayed(runs[:10], {name: BASELINES[name] for name in list(BASELINES)[1:]}, [0.5]):
        assert some["available"] > other["available"]
    assert (some["over_window"], some["extra_calls"]) == (0.0, 0)
