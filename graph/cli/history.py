"""`history`: the attempts at a compaction of a thread."""

from dataclasses import asdict

from langgraph_compaction.checkpoint import CompactionRecords

from .options import SHORT_ID, AsJson, Db, Thread, ended_as, open_existing, told_reason, undone_by
from .output import cells, dollars, format_time, make_table, print_json, print_table, tokens_in_out

_LEFT, _RIGHT, _LAST = (
    ("#", "id", "begun", "verdict"),
    ("before", "after", "summary\nin/out", "cost"),
    ("trigger", "strategy", "reason"),
)
"""Headings of the columns; those that are empty in every row are left out."""


def history(thread: Thread, *, db: Db, as_json: AsJson = False) -> None:
    """List the attempts at a compaction of a thread, the oldest first.

    `summary in/out` are the tokens of the requests to the summarizer and of its replies, as the model reported them,
    and `cost` is their price, if it is known. `trigger` tells what started the attempt.
    """
    with open_existing(db, thread) as saver:
        rows = CompactionRecords(saver.database).history(thread)
    if as_json:
        print_json(map(asdict, rows))
        return
    undone = undone_by(rows)
    columns: dict[str, list[object]] = {
        "#": list(range(1, len(rows) + 1)),
        "id": [row.compaction_id[:SHORT_ID] for row in rows],
        "begun": [format_time(row.started_at) for row in rows],
        "verdict": [ended_as(row, undone) for row in rows],
        "before": [row.tokens_before for row in rows],
        "after": [row.tokens_after for row in rows],
        "summary\nin/out": [tokens_in_out(row.summary_input_tokens, row.summary_output_tokens) for row in rows],
        "cost": [dollars(row.summary_cost) for row in rows],
        "trigger": [row.trigger for row in rows],
        "strategy": [row.strategy for row in rows],
        "reason": [told_reason(row, rows) for row in rows],
    }
    used = {heading: column for heading, column in columns.items() if any(one not in ("", None) for one in column)}
    parts = [[heading for heading in used if heading in part] for part in (_LEFT, _RIGHT, _LAST)]
    table = make_table(left=parts[0], right=parts[1], last=parts[2])
    for row in zip(*used.values(), strict=True):
        table.add_row(*cells(*row))
    print_table(table, "It was never compacted.")
