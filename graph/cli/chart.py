"""Sizes as text: a gauge of one moment, and a chart of many."""

from collections.abc import Sequence

from rich.text import Text

from .standing import Standing

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ROWS = 8


def gauge(standing: Standing, width: int = 40) -> Text:
    """A bar up to the limit, with a mark at the trigger, and the figures behind it."""
    filled = min(width, round(width * standing.tokens / standing.limit))
    mark = min(width - 1, round(width * standing.trigger / standing.limit))
    cells = ["█" if cell < filled else "│" if cell == mark else "·" for cell in range(width)]
    figures = (
        f" {standing.tokens:,} of {standing.limit:,} tokens (trigger {standing.trigger:,}), {standing.left:,} left"
    )
    return Text.assemble(("".join(cells), _colour(standing.tokens, standing)), figures)


def chart(sizes: Sequence[int], standing: Standing, width: int) -> Text:
    """Requests over time as bars under the lines of limit and trigger; a column is the largest of its requests."""
    labels = {_ROWS: f"limit {standing.limit:,} ", _row(standing.trigger, standing): f"trigger {standing.trigger:,} "}
    margin = max(map(len, labels.values()))
    bars = _columns(sizes, max(1, width - margin))
    text = Text()
    for row in range(_ROWS, -1, -1):
        line = "┄" if row in labels else " "
        text.append(labels.get(row, "").rjust(margin), "dim")
        for size in bars:
            filled = round(8 * (size * _ROWS / standing.limit - row))
            cell = _EIGHTHS[min(8, max(0, filled))]
            text.append(line if cell == " " else cell, "dim" if cell == " " else _colour(size, standing))
        text.append("\n")
    return text


def _row(tokens: int, standing: Standing) -> int:
    return min(_ROWS - 1, tokens * _ROWS // standing.limit)


def _columns(sizes: Sequence[int], width: int) -> list[int]:
    count = min(width, len(sizes))
    starts = [len(sizes) * column // count for column in range(count)]
    return [max(sizes[start:end]) for start, end in zip(starts, [*starts[1:], len(sizes)], strict=True)]


def _colour(tokens: int, standing: Standing) -> str:
    if tokens > standing.limit:
        return "red"
    return "yellow" if tokens >= standing.trigger else "cyan"
