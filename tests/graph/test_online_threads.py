"""Runs played in long threads: how they are joined, and the figures of policies that quote removed messages."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.graph.lab.evaluation.online import Online, Run, turn_by_turn
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


@pytest.mark.requirement("S3.23")
def test_all_first_halves_come_before_the_second_halves() -> None:
    """With new ids, one system prompt, and the name of the run of each message."""
    (thread,) = long_threads(RUNS, 10**6)
    messages = thread.recording.messages
    assert len({message.id for message in messages}) == len(messages) == 5 * 6 + 1
    order = list(dict.fromkeys(thread.parts[1:]))
    assert sorted(order) == sorted(THINGS)
    assert list(thread.parts) == ["", *(t for t in order for _ in range(2)), *(t for t in order for _ in range(4))]
    assert all(part in messages[n].text for n, part in enumerate(thread.parts[:11]) if part)


@pytest.mark.requirement("S3.23")
def test_runs_fill_threads_of_the_size_asked_for() -> None:
    """No thread is smaller, each run is in one thread; the draw can be repeated."""
    threads = long_threads(RUNS, 1_000)
    assert [len(set(thread.parts)) - 1 for thread in threads] == [2, 3]
    assert all(count(thread.recording.messages) >= 1_000 for thread in threads)
    assert long_threads(RUNS, 1_000) == threads
    assert long_threads(RUNS, 1_000, seed=1) != threads


def played(thread: LongThread, policies: dict[str, Online], compared: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of policies at a limit that holds a few messages."""
    each = {name: (policy,) for name, policy in policies.items()}
    return list(played_threads([(run_of(thread.recording), thread.parts)], each, [2_600], compared))


@pytest.mark.requirement("S3.23")
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


@pytest.mark.requirement("S3.23")
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


@pytest.mark.requirement("S3.23")
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
