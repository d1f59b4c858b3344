"""Sizes of requests as text: bars of what fills the window, and a chart of many sizes."""

from collections.abc import Sequence
from itertools import groupby, pairwise

from rich.text import Text

from langgraph_compaction.nodes.runtime.window_usage import LOOKS, WindowUsage, bars, legend

from .output import Output

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ROWS = 8
_STYLES = {look.sign: f"black on {look.color}" for name, look in LOOKS.items() if name not in ("free", "reserve")}


def gauge(usage: WindowUsage, width: int = 40) -> Text:
    """Return a bar of what fills the window, followed by the figures."""
    figures = f" {usage.tokens:,} of {usage.limit:,} tokens (trigger {usage.trigger:,}), {usage.left:,} left"
    return Text.assemble(_colored(bars([usage], width)[0]), (figures, _color(usage.tokens, usage)))


def print_window(console: Output, usages: Sequence[WindowUsage]) -> None:
    """Print a bar of the window for each usage, such as before and after a compaction, and the legend of the bars."""
    if usages:
        for line in bars(usages, min(100, console.width)):
            console.print(_colored(line))
        for line in legend(usages):
            console.print(_colored(line[:1]).append(line[1:]))


def _colored(signs: str) -> Text:
    return Text.assemble(*(("".join(same), _STYLES.get(sign, "")) for sign, same in groupby(signs)))


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
