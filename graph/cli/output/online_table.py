"""The table of `evaluate --online`: a row for each policy and window."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from ...lab.evaluation.scores import SAID
from ...window_text import window_label
from .printing import Output

_LEGEND = (
    "Each run is played whole, turn by turn, in a window of tokens, or of the system prompt, the tools and "
    "a share of the rest. "
    "Available: of the identifiers in a call's arguments that were said before it, the percentage in the request "
    "that the call answers. Calls: percentage of calls with all their identifiers available. Times: compactions per "
    "run. Sent: tokens of all requests, divided by those without compaction. Reused: percentage of them in leading "
    "messages that equal those of the request before. Cost: divided by that without compaction; a new token costs "
    "1.25 of the input's price, a reused one 0.1. Over: percentage of requests over the window or never sent. "
    "95 %: bootstrap interval of available, over runs."
)

_NO_CALLS = "Summaries are extracted digests: no model was called to summarize, and nothing is added to the cost."


def print_online(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows that `replayed` yields: a table for each window, with an explanation of the columns."""
    console = Output()
    for window in dict.fromkeys(row["window"] for row in rows):
        console.print(_table([row for row in rows if row["window"] == window]))
    console.print(_LEGEND, style="dim")
    calls = sum(row["extra_calls"] for row in rows)
    console.print(f"{calls} calls of a summarizer are in the cost." if calls else _NO_CALLS, style="dim")
    console.print(SAID)


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    first = rows[0]
    about = f"{first['runs']} runs, {first['requests']} requests, {first['identifiers']} identifiers"
    title = f"window {window_label(first['window'])}: {about}"
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0), show_edge=False, title=title)
    for heading in ("policy", "available", "95 %", "calls", "times", "sent", "reused", "cost", "over"):
        table.add_column(heading, justify="left" if heading == "policy" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Mapping[str, Any]) -> list[str]:
    needed = bool(row["identifiers"])
    low, high = row["ci95"]["available"]
    return [
        row["policy"],
        f"{100 * row['available']:.1f}" if needed else "",
        f"{100 * low:.0f}-{100 * high:.0f}" if needed else "",
        f"{100 * row['calls']:.1f}" if needed else "",
        f"{row['compactions']:.1f}",
        f"{row['tokens_sent']:.2f}",
        f"{100 * row['prefix_reuse']:.0f}",
        f"{row['cost']:.2f}",
        f"{100 * row['over_window']:.0f}" if row["over_window"] else "",
    ]
