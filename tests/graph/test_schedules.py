from collections import Counter

from tests.graph.schedules import play


def test_no_schedule_swaps_in_a_wrong_summary() -> None:
    """Turns, edits, forks, two workers and deaths in any order: `python -m tests.graph.schedules` plays more."""
    ends = Counter(end for seed in range(12) for end in play(seed).records.ends)
    assert ends["prepared", "swapped"] > 3
