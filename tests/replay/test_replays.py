"""Every recorded conversation of the shared data, through the real graph, at a quarter and at half of its size.

A default run plays all at a quarter, and each third of a file at half.
"""

from collections import Counter
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest
from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.messages.message_codec import dumps
from langgraph_compaction.graph import CompactionThread, view
from langgraph_compaction.nodes import SettingsError
from langgraph_compaction.nodes.state import messages_in_view
from tests.full import part
from tests.replay.payloads import refused
from tests.replay.plays import NO_ROOM, SIZES, TAU_BENCH, Case, Play, let_pass

Played = Callable[[Case], Play]

ALL = [
    *(
        Case(file, number, 25)
        for file, size in SIZES.items()
        for number in part(range(size), 3)
        if (file, number) != NO_ROOM
    ),
    *(Case(file, number, 50) for file, size in SIZES.items() for number in part(range(size), 6)),
]
SAMPLE = [(TAU_BENCH, number) for number in part(range(0, 100, 10), 3)]
REST = [(file, number) for file, size in SIZES.items() if file != TAU_BENCH for number in range(size)]
BIASED = [Case(file, number, 25, "-biased") for file, number in [*SAMPLE, *REST]]
FAILING = [Case(file, number, 25, "-failing") for file, number in [*SAMPLE, *REST]]
SHOWN = [Case(file, number, 25) for file, number in [*SAMPLE, *REST]]


@pytest.mark.parametrize("case", [*ALL, *BIASED, *FAILING], ids=lambda case: case.id)
def test_nothing_is_broken_and_nothing_lost(case: Case, played: Played) -> None:
    """No request is over the limit or invalid, every invariant holds after every node, and no word is lost.

    The same holds where the model's usage and its window are in other tokens than ours, and where every attempt that
    needs the summarizer is rolled back, and the next level commits.
    """
    play = played(case)
    assert play.defects() == []
    assert play.in_order
    assert play.wire.requests > 0
    if case in FAILING:
        assert any(row.verdict == "failed_transient" for row in play.report.attempts)
        assert not any(row.verdict == "committed" and row.summary for row in play.report.attempts)


def test_a_window_without_room_for_a_conversation_is_refused(played: Played) -> None:
    """The error names the window, and says what to do."""
    with pytest.raises(SettingsError, match=r"no room for a conversation: window 1312, .* Give a larger window"):
        played(Case(*NO_ROOM, 25))


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: case.id)
def test_every_request_is_taken_by_the_providers(case: Case, played: Played) -> None:
    """OpenAI's two APIs and Anthropic's take each request that the graph sends, in a window of a quarter."""
    play = played(case)
    found = [refused(messages, play.recording.tools) for messages in play.sent]
    assert len(found) == play.wire.requests > 0
    assert let_pass(found, case.file), Counter(map(str, found))


def test_undo_and_redo_change_the_view_alone(played: Played) -> None:
    """After compactions and rollbacks `messages` is what was said; undo and redo give the request of then and now."""
    play = played(Case("swe-agent/pydicom-1458.traj", 0, 25, "-failing"))
    assert play.defects() == []  # the conversation after every step, and the view after every rollback
    verdicts = [row.verdict for row in play.report.attempts]
    assert min(map(verdicts.count, ("failed_transient", "degraded_deterministic"))) > 1
    thread = CompactionThread(play.graph, play.config)

    def stored(part: Callable[[Any], list[AnyMessage]]) -> list[bytes]:
        return list(map(dumps, part(play.graph.get_state(play.config).values)))

    said, request = stored(itemgetter("messages")), stored(view)
    began_with = thread.show(play.report.attempts[-1].compaction_id).began_with
    thread.undo(force=True)
    assert stored(messages_in_view)[: len(began_with)] == list(map(dumps, began_with))
    assert stored(view) != request
    assert stored(itemgetter("messages")) == said
    thread.redo()
    assert stored(view) == request
    assert stored(itemgetter("messages")) == said


def test_every_window_makes_compactions_necessary(played: Played) -> None:
    """A quarter of it holds no conversation as it is, so that every test tests something."""
    quiet = [case.id for case in ALL if case.share == 25 and not played(case).watcher.closed]
    assert quiet == []
