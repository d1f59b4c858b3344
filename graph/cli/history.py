"""`history`: the attempts at a compaction of a thread."""

from dataclasses import asdict

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow

from .options import SHORT_ID, AsJson, Db, Thread, open_existing
from .output import cells, dollars, format_time, make_table, print_json, print_table


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
    left, last = ("#", "id", "begun", "verdict"), ("trigger", "strategy", "reason")
    table = make_table(left=left, right=("before", "after", "summary\nin/out", "cost"), last=last)
    for number, row in enumerate(rows, 1):
        undone = (
            " ".join(name[:SHORT_ID] for name in row.detail.split(", "))
            if row.verdict in ("undone", "redone")
            else ""
        )
        table.add_row(
            *cells(number, row.compaction_id[:SHORT_ID], format_time(row.started_at), row.verdict or "open"),
            *cells(row.tokens_before, row.tokens_after, _spent(row), dollars(row.summary_cost)),
            *cells(row.trigger, row.strategy, row.reason or undone),
        )
    print_table(table, "It was never compacted.")


def _spent(row: LedgerRow) -> str:
    """Return the tokens that an attempt's summary took, in and out; empty if no model was asked for one."""
    if not (row.summary_input_tokens or row.summary_output_tokens):
        return ""
    return f"{row.summary_input_tokens or 0:,}/{row.summary_output_tokens or 0:,}"
