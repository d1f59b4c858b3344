"""`history`: the attempts at a compaction of a thread."""

from dataclasses import asdict

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow

from .options import SHORT_ID, AsJson, Db, Thread, open_existing
from .output import cells, dollars, format_time, make_table, print_json, print_table


def history(thread: Thread, *, db: Db, as_json: AsJson = False) -> None:
    """List the attempts at a compaction of a thread, the oldest first.

    The column for the summary shows the tokens of the requests to the summarizer and of its replies, as the model
    reported them, and the last one what they cost, if the model's price is known.
    """
    with open_existing(db, thread) as saver:
        rows = CompactionRecords(saver.database).history(thread)
    if as_json:
        print_json(map(asdict, rows))
        return
    left = ("#", "id", "begun", "trigger", "strategy", "verdict", "reason")
    table = make_table(left=left, right=("before", "after", "summary\nin/out", "cost"))
    for number, row in enumerate(rows, 1):
        undone = (
            " ".join(name[:SHORT_ID] for name in row.detail.split(", "))
            if row.verdict in ("undone", "redone")
            else ""
        )
        table.add_row(
            *cells(number, row.compaction_id[:SHORT_ID], format_time(row.started_at), row.trigger, row.strategy),
            *cells(row.verdict or "open", row.reason or undone, row.tokens_before, row.tokens_after, _spent(row)),
            dollars(row.summary_cost),
        )
    print_table(table, "It was never compacted.")


def _spent(row: LedgerRow) -> str:
    """Return the tokens that an attempt's summary took, in and out; empty if no model was asked for one."""
    if not (row.summary_input_tokens or row.summary_output_tokens):
        return ""
    return f"{row.summary_input_tokens or 0:,}/{row.summary_output_tokens or 0:,}"
