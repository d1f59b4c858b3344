"""Sizes of requests as text: a gauge of one size, and a chart of many."""

from collections.abc import Sequence
from itertools import pairwise

from rich.text import Text

from ..window_usage import WindowUsage

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ROWS = 8


def gauge(usage: WindowUsage, width: int = 40) -> Text:
    """Return a bar that is full at the limit and has a mark at the trigger, followed by the figures."""
    filled = min(width, round(width * usage.tokens / usage.limit))
    mark = min(width - 1, round(width * usage.trigger / usage.limit))
    cells = ["█" if cell < filled else "│" if cell == mark else "·" for cell in range(width)]
    figures = f" {usage.tokens:,} of {usage.limit:,} tokens (trigger {usage.trigger:,}), {usage.left:,} left"
    return Text.assemble(("".join(cells), _color(usage.tokens, usage)), figures)


def chart(sizes: Sequence[int], usage: WindowUsage, width: int) -> Text:
    """Return a bar chart of the sizes of requests over time, with marks at the limit and the trigger.

    If there are more requests than columns, a column stands for several requests and shows the largest of them.
    """
    labels = {_ROWS: f"limit {usage.limit:,} ", _row(usage.trigger, usage): f"trigger {usage.trigger:,} "}
    margin = max(map(len, labels.values()))
    bars = _columns(sizes, max(1, width - margin))
    text = Text()
    for row in range(_ROWS, -1, -1):
        line = "┄" if row in labels else " "
        text.append(labels.get(row, "").rjust(margin), "dim")
        for size in bars:
            filled = round(8 * (size * _ROWS / usage.limit - row))
            cell = _EIGHTHS[min(8, max(0, filled))]
            text.append(line if cell == " " else cell, "dim" if cell == " " else _color(size, usage))
        text.append("\n")
    return text


def _row(tokens: int, usage: WindowUsage) -> int:
    return min(_ROWS - 1, tokens * _ROWS // usage.limit)


def _columns(sizes: Sequence[int], width: int) -> list[int]:
    count = min(width, len(sizes))
    starts = [len(sizes) * column // count for column in range(count)]
    return [max(sizes[start:end]) for start, end in pairwise([*starts, len(sizes)])]


def _color(tokens: int, usage: WindowUsage) -> str:
    if tokens > usage.limit:
        return "red"
    return "yellow" if tokens >= usage.trigger else "cyan"
