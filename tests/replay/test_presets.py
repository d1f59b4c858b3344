"""The recorded conversations under the presets beside `selective`, at a quarter and at half of their size.

A full run plays each conversation under two of them, in turn, at one window each; a default run plays each fifth of
these. `COMPACTION_REPLAY_ALL=1` plays each conversation under all of them and at both.
"""

import os
from collections.abc import Callable, Sequence

import pytest

from langgraph_compaction.nodes.config.policies import PRESETS, Preset
from tests.full import part
from tests.replay.plays import NO_ROOM, SIZES, Case, Play

OTHERS: Sequence[Preset] = [preset for preset in PRESETS if preset != "selective"]
EVERY = [(file, number) for file, size in SIZES.items() for number in range(size)]
WHOLE = [
    Case(file, number, share, preset=preset)
    for preset in OTHERS
    for share in (25, 50)
    for file, number in EVERY
    if share == 50 or (file, number) != NO_ROOM
]


def turn(place: int, share: int) -> Case:
    """The conversation at this place under the preset whose turn it is: at half of its size another one's."""
    file, number = EVERY[place]
    return Case(file, number, share, preset=OTHERS[(place + share // 25) % len(OTHERS)])


SAMPLE = [
    turn(place, share) for share in (25, 50) for place in range(len(EVERY)) if share == 50 or EVERY[place] != NO_ROOM
]
CASES = WHOLE if os.environ.get("COMPACTION_REPLAY_ALL") else part(SAMPLE, 5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_nothing_is_broken_and_nothing_lost(case: Case, played: Callable[[Case], Play]) -> None:
    """No request is over the limit or invalid, every invariant holds after every node, and no word is lost."""
    play = played(case)
    assert play.defects() == []
    assert play.in_order
    assert play.wire.requests > 0


@pytest.mark.parametrize("preset", OTHERS)
def test_every_preset_compacts_of_its_own_accord(preset: Preset, played: Callable[[Case], Play]) -> None:
    """Its conversations make it commit, and not only where the limit forces it."""
    plays = [played(case) for case in CASES if case.preset == preset]
    rows = [row for play in plays for row in play.report.attempts if row.verdict == "committed"]
    assert len(rows) >= len(plays) // 2
    everything = (
        played(case) for case in (*CASES, *SAMPLE) if case.preset == preset
    )  # up to the first that shows it
    assert any(row.tokens_before <= play.report.limit for play in everything for row in play.report.attempts)
