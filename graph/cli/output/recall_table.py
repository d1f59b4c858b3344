"""The table of `evaluate --recall`: a row for each query and search."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from ...lab.evaluation.scores import SAID
from .printing import Output

_LEGEND = (
    "A thread holds the beginning of a run among runs of other tasks; all but the newest two rounds is archived. "
    "Query: the user's next message, or what auto_recall makes of it and the view. Asked for: identifiers that the "
    "answer's calls need and that are not in view. hit@1, hit@5: percentage of questions with such an identifier in "
    "the best hit, or the best five, of the same run. Found: percentage of them in an answer of 1,000 tokens. In "
    "reach: in a message of the run that has a rare word of the query. Run known: only messages of the same run are "
    "searched."
)
_HEADINGS = ("query", "search", "hit@1", "hit@5", "found", "in reach")


def print_recall(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows that `long_threads.measured` returns, with an explanation of the columns."""
    first = rows[0]
    title = f"{first['questions']} questions, threads of {first['tokens']:,} tokens"
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0), show_edge=False, title=title)
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading in {"query", "search"} else "right", no_wrap=True)
    for row in rows:
        shares = (f"{100 * row[name]:.1f}" for name in ("hit@1", "hit@5", "found", "in_reach"))
        table.add_row(row["query"], row["search"], *shares)
    console = Output()
    console.print(table)
    console.print(_LEGEND, style="dim")
    console.print(SAID)
