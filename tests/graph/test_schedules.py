from collections import Counter

from tests.graph.schedules import play


def test_no_schedule_swaps_in_a_wrong_summary() -> None:
    """Turns, edits, forks, undos and outages in any order: `python -m tests.graph.schedules` plays more."""
    ends = sum(map(play, range(8)), Counter[str]())
    assert ends["prepared swapped"] > 3
