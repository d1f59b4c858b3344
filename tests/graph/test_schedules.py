from collections import Counter

from tests.graph import graph_schedules
from tests.graph.schedules import play


def test_no_schedule_swaps_in_a_wrong_summary() -> None:
    """Turns, edits, forks, two workers and deaths in any order: `python -m tests.graph.schedules` plays more."""
    ends = Counter(end for seed in range(12) for end in play(seed).records.ends)
    assert ends["prepared", "swapped"] > 3


def test_no_schedule_of_stored_turns_swaps_in_a_wrong_summary() -> None:
    """The same with checkpoints, stored records and undo: `python -m tests.graph.graph_schedules` plays more."""
    ends = graph_schedules.play(1) + graph_schedules.play(3)
    assert ends["prepared", "swapped"] > 1
