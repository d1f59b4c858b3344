"""Sizes of requests as text: a gauge of one size, and charts of many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.text import Text

from ...window_usage import WindowUsage

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ROWS = 8
_LINE_ROWS = 14
SHARED = "•"
"""The character drawn where several lines meet."""


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


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a chart: the sizes of one replay's requests over time."""

    sign: str
    """The character that draws the line."""
    color: str
    sizes: Sequence[int]
    """Tokens of each request, in order."""
    trigger: int


def lines(drawn: Sequence[Line], limit: int, width: int) -> Text:
    """Return a line chart of the sizes of requests over time, with marks at the limit and the triggers.

    Each line is stretched or compressed to the whole width of the chart. A column that stands for several requests
    shows the largest of them.
    """
    labels = {_level(trigger, limit): f"trigger {trigger:,} " for trigger in sorted({one.trigger for one in drawn})}
    labels[_LINE_ROWS] = f"limit {limit:,} "
    margin = max(map(len, labels.values()))
    count = max(1, min(width - margin, max(len(one.sizes) for one in drawn)))
    cells = _cells(drawn, limit, count)
    text = Text()
    for row in range(_LINE_ROWS, -1, -1):
        text.append(labels.get(row, "").rjust(margin), "dim")
        for column in range(count):
            there = cells.get((row, column), [])
            if not there:
                text.append("┄" if row in labels else " ", "dim")
            else:
                text.append(there[0].sign if len(there) == 1 else SHARED, there[0].color if len(there) == 1 else "")
        text.append("\n")
    return text


def _cells(drawn: Sequence[Line], limit: int, count: int) -> Mapping[tuple[int, int], list[Line]]:
    """Return, for each row and column of the chart, the lines that pass through that cell."""
    found: dict[tuple[int, int], list[Line]] = {}
    for one in drawn:
        for column in range(count if one.sizes else 0):
            start, end = (len(one.sizes) * at // count for at in (column, column + 1))
            size = max(one.sizes[start : max(end, start + 1)])
            found.setdefault((_level(size, limit), column), []).append(one)
    return found


def _level(tokens: int, limit: int) -> int:
    return min(_LINE_ROWS, round(_LINE_ROWS * tokens / limit))


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
