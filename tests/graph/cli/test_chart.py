"""Gauge and chart: text that shows sizes truly."""

import pytest
from rich.text import Text

from langgraph_compaction.graph.cli.size_chart import chart, gauge
from langgraph_compaction.graph.window_usage import WindowUsage


def at(tokens: int) -> WindowUsage:
    """Return a thread of this size in round figures."""
    return WindowUsage(tokens=tokens, trigger=80, limit=100, window=120)


@pytest.mark.parametrize(
    ("tokens", "bar"),
    [(0, "········│·"), (30, "███·····│·"), (80, "████████│·"), (100, "██████████"), (130, "██████████")],
)
def test_the_gauge_shows_size_trigger_and_what_is_left(tokens: int, bar: str) -> None:
    """A bar up to the limit with a mark at the trigger, and the figures in words."""
    left = max(0, 100 - tokens)
    assert gauge(at(tokens), 10).plain == f"{bar} {tokens} of 100 tokens (trigger 80), {left} left"


def test_a_bar_is_as_high_as_its_request() -> None:
    """Half the limit fills half the rows, and the limit itself every row below its line."""
    columns = list(zip(*_bars(chart([50, 100, 0], at(0), 80)), strict=True))
    assert [sum(cell == "█" for cell in column) for column in columns] == [4, 8, 0]
    assert ["".join(column).strip("█") for column in columns] == ["┄ ┄  ", "┄", "┄ ┄      "]


def _bars(text: Text) -> list[str]:
    margin = len("trigger 80 ")
    return [line[margin:] for line in text.plain.splitlines()]
