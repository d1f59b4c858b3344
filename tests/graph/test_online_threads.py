"""Runs played in long threads: how they are joined, and the figures of policies that quote removed messages."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_compaction.graph.lab.evaluation.online import (
    READ,
    WRITE,
    Online,
    PlayedRun,
    Run,
    Sent,
    turn_by_turn,
    uncompacted,
)
from langgraph_compaction.graph.lab.evaluation.online_threads import (
    LongThread,
    long_threads,
    played_threads,
    with_bm25,
)
from langgraph_compaction.graph.lab.evaluation.policies import count, trimmed
from langgraph_compaction.graph.lab.recordings import Recording
from langgraph_compaction.graph.lab.replay.online_runs import run_of, through_the_graph
from langgraph_compaction.graph.lab.replay.user_parts import UserParts
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.summary.quotation import OPENING
from tests.histories import asks, result

THINGS = ("teal", "navy", "coral", "amber", "ivory")


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


def test_runs_fill_threads_of_the_size_asked_for() -> None:
    """No thread is smaller, each run is in one thread; the draw can be repeated."""
    threads = long_threads(RUNS, 1_000)
    assert [len(set(thread.parts)) - 1 for thread in threads] == [2, 3]
    assert all(count(thread.recording.messages) >= 1_000 for thread in threads)
    assert long_threads(RUNS, 1_000) == threads
    assert long_threads(RUNS, 1_000, seed=1) != threads


def small(name: str, users: int) -> Recording:
    """Return a run with this number of rounds; each round has two messages of five tokens each."""
    said = [message for n in range(users) for message in (HumanMessage(f"{100 + n}"), AIMessage(name))]
    return Recording(name=name, messages=(SystemMessage(name), *said))


@pytest.mark.parametrize(
    ("tokens", "runs"),
    [(20, [1] * 5), (21, [2, 3]), (40, [2, 3]), (41, [5]), (60, [5]), (10**6, [5])],
)
def test_a_thread_is_full_at_exactly_the_size_asked_for(tokens: int, runs: list[int]) -> None:
    """Runs of 20 tokens, without their system messages, are joined until the thread has the given size.

    The last thread contains all runs that are left.
    """
    threads = long_threads([small(str(n), 2) for n in range(5)], tokens)
    assert [len(set(thread.parts)) - 1 for thread in threads] == runs
    assert [thread.recording.name for thread in threads] == [f"thread-{n}" for n in range(len(runs))]


def test_a_run_is_cut_at_the_user_message_in_its_middle() -> None:
    """A run with only one user message is completely in the first half of the thread."""
    runs = [small(name, users) for users, name in enumerate(("none", "one", "two", "three"))]
    (thread,) = long_threads(runs, 10**6)
    order = list(dict.fromkeys(thread.parts[1:]))
    halves = {
        "one": (["100", "one"], []),
        "two": (["100", "two"], ["101", "two"]),
        "three": (["100", "three"], ["101", "three", "102", "three"]),
    }
    assert sorted(order) == sorted(halves)
    expected = [(name, text) for half in (0, 1) for name in order for text in halves[name][half]]
    heard = [message.text for message in thread.recording.messages]
    assert list(zip(thread.parts[1:], heard[1:], strict=True)) == expected
    assert [message.id for message in thread.recording.messages] == [f"thread-0-{n}" for n in range(len(heard))]


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


def test_quotations_are_counted_in_the_last_messages_of_requests() -> None:
    """A quotation counts only if the quotation is the last message of a request.

    The figure for the tokens is the mean of the counted quotations.
    """
    said = [message for n in range(3) for message in (HumanMessage(f"{100 + n}"), AIMessage("ok"))]
    quotations = [HumanMessage(f"{OPENING}{' word' * words}") for words in (10, 17)]

    def quoting(_run: Run, _limit: int) -> PlayedRun:
        whole = [quotations[0], *said[:4]]
        return PlayedRun([Sent(1, quotations[:1]), Sent(3, [said[0], quotations[1]]), Sent(5, whole)])

    (row,) = played_threads([(Run("said", said), ["x"] * 6)], {"it": (quoting,)}, [100], {})
    assert (row["quoted"], row["quoted_tokens"]) == (round(2 / 3, 4), round(count(quotations) / 2))


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


def test_a_quotation_answers_a_user_and_only_after_a_compaction() -> None:
    """As that of `auto_recall`; and where 5 % of the room are under 100 tokens there is none."""
    (thread,) = long_threads(RUNS, 10**6)
    whole = run_of(thread.recording)
    quoted = [sent for sent in with_bm25(trimmed)(whole, 2_600).sent if sent.messages[-1].text.startswith(OPENING)]
    assert quoted
    assert all(isinstance(whole.messages[sent.answer - 1], HumanMessage) for sent in quoted)
    assert all(sent.messages[-2].text == whole.messages[sent.answer - 1].text for sent in quoted)
    for limit in (2_000, 10**6):
        assert not any(sent.messages[-1].text.startswith(OPENING) for sent in with_bm25(trimmed)(whole, limit).sent)
    assert with_bm25(trimmed)(Run("none", []), 2_600).sent == []


@pytest.mark.parametrize(
    ("limit", "most"),
    [(2_220, 110), (2_219, 110), (2_008, 100), (2_006, 0), (20_008, 1_000), (20_028, 1_000)],
)
def test_tokens_for_a_quotation_are_kept_free_only_once_something_is_removed(limit: int, most: int) -> None:
    """The tokens for a quotation are 5 % of the room and at most 1,000, or none if this share is less than 100.

    Before the first compaction, the context may fill the room. Later, the context leaves these tokens free.
    """
    (thread,) = long_threads(RUNS, 10**6)
    whole = run_of(thread.recording)
    asked: list[tuple[int, int]] = []

    def half(old: Sequence[AnyMessage], cap: int) -> list[BaseMessage]:
        asked.append((count(old), cap))
        return trimmed(old, cap)

    room = limit - whole.fixed
    course = with_bm25(half, 0.5)(whole, limit)
    contexts = [count(whole.messages[1 : sent.answer]) for sent in course.sent]
    over = [size for size in contexts if size > room]
    assert (course.compactions, asked[:1]) == (len(asked), [(size, (room - most) // 2) for size in over[:1]])
    assert all(size > room - most and cap == (room - most) // 2 for size, cap in asked[1:])
    before = [sent for sent, size in zip(course.sent, contexts, strict=True) if size <= room]
    assert all(sent.messages == list(whole.messages[: sent.answer]) for sent in before)


def test_once_something_is_removed_the_context_leaves_room_for_a_quotation() -> None:
    """The first compaction starts when the third request exceeds the room of 2,235 tokens.

    The second compaction starts when the last request leaves fewer than 111 of these tokens for a quotation.
    """
    texts = ["go", "word " * 2_094, "go", "drop " * 117, "go", "ok", "go", "ok", "go", "ok"]
    said = [(AIMessage if n % 2 else HumanMessage)(text, id=f"{n}") for n, text in enumerate(texts)]
    run, room, most = Run("said", said), count(said[:5]) - 1, (count(said[:5]) - 1) // 20
    left = [*said[:3], *said[4:7]]
    assert (room, most, count(left)) == (2_235, 111, room - most)
    course = with_bm25(lambda old, _cap: [one for one in old if "drop" not in one.text])(run, room)
    assert [sent.messages[-1].text.startswith(OPENING) for sent in course.sent] == [False] * 5
    assert [count(sent.messages) for sent in course.sent][3] == room - most
    assert course.compactions == 2


def test_the_graph_quotes_in_long_threads() -> None:
    """With `auto_recall`, and not without."""
    (thread,) = long_threads(RUNS, 10**6)
    policies = {
        name: through_the_graph(CompactionSettings(auto_recall=on, facts_share=0), [thread.recording], UserParts())
        for name, on in (("off", False), ("on", True))
    }
    off, on = played(thread, policies, {"on": "off"})
    assert (off["quoted"], off["quoted_tokens"]) == (0.0, 0)
    assert on["quoted"] > 0
    assert on["cost"] > off["cost"]
