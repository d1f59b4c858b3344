import sys
from collections import Counter
from typing import Any

import pytest

from tests.graph import graph_schedules
from tests.graph.schedules import play


def test_no_schedule_swaps_in_a_wrong_summary() -> None:
    """Turns, edits, forks, two workers and deaths in any order: `python -m tests.graph.schedules` plays more."""
    ends = Counter(end for seed in range(20) for end in play(seed).records.prepared.values())
    assert ends["prepared", "swapped"] > 3


def test_summaries_of_pieces_are_joined() -> None:
    """In this schedule a refused summary is written again in pieces, whose summaries are summarized together."""
    assert play(89).pieces
    assert play(919).pieces
    assert play(1091).pieces


def test_no_schedule_of_stored_turns_swaps_in_a_wrong_summary() -> None:
    """The same with checkpoints, stored records and undo: `python -m tests.graph.graph_schedules` plays more."""
    ends = sum(map(graph_schedules.play, range(12)), Counter[tuple[str | None, str]]())
    assert ends["prepared", "swapped"] > 1


def broken(monkeypatch: pytest.MonkeyPatch, name: str, replaced: Any) -> None:
    """Replace a function in every node that uses it."""
    for node in ("ahead.prepare", "ahead.use_prepared", "summarize", "commit"):
        module = sys.modules[f"langgraph_compaction.nodes.{node}"]
        if hasattr(module, name):
            monkeypatch.setattr(module, name, replaced)


def play_all(seeds: range = range(20)) -> None:
    """Play enough schedules for a fault to show."""
    for seed in seeds:
        play(seed)


def test_a_summary_of_other_messages_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the name of a summary did not stand for its messages, the schedules would fail."""
    broken(monkeypatch, "summary_name", lambda *_: "the same for all")
    with pytest.raises(AssertionError, match="wrong swap"):
        play_all()


def test_a_message_that_is_not_archived_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a removed message were in neither archive nor view, the schedules would fail."""
    leaving = sys.modules["langgraph_compaction.nodes.commit"]._leaving
    broken(monkeypatch, "_leaving", lambda *given: leaving(*given)[:-2])
    with pytest.raises(AssertionError, match="lost message"):
        play_all()


def test_a_failure_that_starts_no_cooldown_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If failed attempts did not count, the schedules with outages would fail."""
    monkeypatch.setattr("langgraph_compaction.nodes.runtime.trigger_and_warning.suspension_reason", lambda *_: "")
    with pytest.raises(AssertionError, match="during the cool-down"):
        play_all(range(1, 120, 4))


def test_a_paid_summary_that_is_not_found_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a recorded summary were not found again, the schedules would fail."""

    def nothing(*_: Any) -> Any:
        yield from ()

    broken(monkeypatch, "known_summary", nothing)
    with pytest.raises(AssertionError, match="paid"):
        play_all()
