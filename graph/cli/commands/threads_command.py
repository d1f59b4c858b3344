"""`threads`, `checkpoints`, `history` and `stats`: what a database keeps, as tables or as JSON lines."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import sqlalchemy as sa
import typer
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import CheckpointTuple
from rich import box
from rich.filesize import decimal
from rich.table import Table

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.checkpoint.compaction.prepared import PREPARING
from langgraph_compaction.checkpoint.db import tables

from ..find_compaction import SHORT_ID
from ..open_database import open_existing
from ..output.printing import Output, cells, print_lines

DB_VARIABLE = "LANGGRAPH_COMPACTION_DATABASE_URL"
Db = Annotated[
    str,
    typer.Option(
        "--db",
        envvar=DB_VARIABLE,
        show_envvar=False,  # the end of the help names it: a column of options is too narrow
        help="The URL of the database, for example sqlite:///agent.db.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Thread = Annotated[str, typer.Argument(metavar="THREAD", help="The id of the thread.")]
_UUID_CHARS = 36
"""Length of the ids that LangGraph's server gives to threads. Such an id is not wrapped, so that it can be copied."""
_TO_THE_MINUTE = 16
"""Number of characters of a time without its seconds, for which a narrow terminal has no room."""
_SPENT = "summary\nin/out"
_WHOLE = {"#", "id", "checkpoint", "last written"}
"""Headings of the table columns whose texts are never wrapped onto several lines."""


def threads(*, db: Db, as_json: AsJson = False) -> None:
    """List the threads, the most recently changed thread first."""
    with open_existing(db) as saver:
        rows = _threads(saver)
    if as_json:
        print_lines(rows)
        return
    table = table_of(left=("thread", "last written"), right=("checkpoints", "compactions"))
    table.columns[0].min_width = min(_UUID_CHARS, max((len(row["thread_id"]) for row in rows), default=0))
    for row in rows:
        table.add_row(
            *cells(row["thread_id"], format_time(row["updated_at"])[:_TO_THE_MINUTE], row["checkpoints"]),
            *cells(row["compactions"]),
        )
    print_table(table, "There are no threads.")


def checkpoints(
    thread: Thread,
    *,
    db: Db,
    namespace: Annotated[
        str | None,
        typer.Option(help="List only the checkpoints of this namespace. '' is the namespace of the graph itself."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of checkpoints.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List a thread's checkpoints, the newest first."""
    with open_existing(db, thread) as saver:
        place = {"thread_id": thread} if namespace is None else {"thread_id": thread, "checkpoint_ns": namespace}
        rows = [_checkpoint(found) for found in saver.list({"configurable": place}, limit=limit)]
    if as_json:
        print_lines(rows)
        return
    spaces = any(row["namespace"] for row in rows)
    table = table_of(
        left=("checkpoint", *(["namespace"] if spaces else []), "source"), right=("step", "messages", "writes")
    )
    for row in rows:
        own = [row["namespace"]] if spaces else []
        table.add_row(*cells(row["checkpoint_id"], *own, row["source"], row["step"], row["messages"], row["writes"]))
    print_table(table, "It has no checkpoints.")


def history(thread: Thread, *, db: Db, as_json: AsJson = False) -> None:
    """List the attempts at a compaction of a thread, the oldest first.

    The column for the summary shows the tokens of the requests to the summarizer and of its replies, as the model
    reported them.
    """
    with open_existing(db, thread) as saver:
        rows = CompactionRecords(saver.database).history(thread)
    if as_json:
        print_lines(map(asdict, rows))
        return
    table = table_of(left=("#", "id", "begun", "trigger", "strategy", "verdict"), right=("before", "after", _SPENT))
    verdicts = next(column for column in table.columns if column.header == "verdict")
    verdicts.width = max(map(len, ("verdict", *(row.verdict or "" for row in rows))))  # a reason is wrapped below it
    for number, row in enumerate(rows, 1):
        undone = " ".join(name[:SHORT_ID] for name in row.detail.split(", ")) if row.verdict == "undone" else ""
        verdict = f"{row.verdict or 'open'} {row.reason or undone}".strip()
        table.add_row(
            *cells(number, row.compaction_id[:SHORT_ID], format_time(row.started_at)),
            *cells(row.trigger, row.strategy, verdict, row.tokens_before, row.tokens_after, _spent(row)),
        )
    print_table(table, "It was never compacted.")


def _spent(row: LedgerRow) -> str:
    """Return the tokens that an attempt's summary took, in and out; empty if no model was asked for one."""
    if not (row.summary_input_tokens or row.summary_output_tokens):
        return ""
    return f"{row.summary_input_tokens or 0:,}/{row.summary_output_tokens or 0:,}"


def stats(
    thread: Annotated[
        str | None, typer.Argument(metavar="[THREAD]", help="The id of a thread. Default: all threads.")
    ] = None,
    *,
    db: Db,
    as_json: AsJson = False,
) -> None:
    """Show the size of the stored data by kind, in bytes.

    For a single thread, the command also shows how large its messages would be if each checkpoint had its own copies.
    """
    with open_existing(db, *([thread] if thread is not None else [])) as saver:
        rows = [{**asdict(found), "total_bytes": found.total_bytes} for found in saver.stats(thread)]
    if as_json:
        print_lines(rows)
        return
    kinds = ("checkpoint", "write", "message", "blob", "total")
    not_shared = ("not shared",) if thread is not None else ()
    table = table_of(left=("thread",), right=(*(f"{kind}s" for kind in kinds[:-1]), "total", *not_shared))
    for row in rows:
        sizes = [decimal(row[f"{kind}_bytes"]) for kind in kinds]
        unshared = () if row["unshared_message_bytes"] is None else (decimal(row["unshared_message_bytes"]),)
        table.add_row(*cells(row["thread_id"], *sizes, *unshared))
    print_table(table, "There are no threads.")


def table_of(*, left: Iterable[str], right: Iterable[str]) -> Table:
    """Return an empty table in which long names are wrapped onto several lines and never cut off."""
    table = Table(box=box.SIMPLE, show_edge=False, padding=(0, 1, 0, 0))
    for heading in left:
        table.add_column(heading, overflow="fold", no_wrap=heading in _WHOLE)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def format_time(moment: float) -> str:
    """Format a stored time in UTC, to the second."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")


def print_table(table: Table, none: str) -> None:
    """Print a table, or the sentence `none` if it is empty."""
    Output().print(table if table.row_count else none)


_IS_UNDO = sa.func.coalesce(tables.ledger.c.verdict, "") == "undone"


def _threads(saver: SQLAlchemySaver) -> list[dict[str, Any]]:
    def counted(table: sa.Table, *which: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
        mine = sa.select(sa.func.count()).select_from(table).where(table.c.thread == tables.thread.c.id, *which)
        return mine.correlate(tables.thread).scalar_subquery()

    query = sa.select(
        tables.thread.c.thread_id,
        tables.thread.c.updated_at,
        counted(tables.checkpoint).label("checkpoints"),
        counted(tables.ledger, tables.ledger.c.trigger != PREPARING, ~_IS_UNDO).label("compactions"),
    ).order_by(tables.thread.c.updated_at.desc(), tables.thread.c.id.desc())
    return saver.database.run_read(lambda conn: [dict(row) for row in conn.execute(query).mappings()])


def _checkpoint(found: CheckpointTuple) -> dict[str, Any]:
    own = found.config.get("configurable", {})
    values = found.checkpoint["channel_values"].values()
    return {
        "checkpoint_id": own["checkpoint_id"],
        "namespace": own["checkpoint_ns"],
        "parent_id": (found.parent_config or {}).get("configurable", {}).get("checkpoint_id"),
        "step": found.metadata.get("step"),
        "source": found.metadata.get("source"),
        "created_at": found.checkpoint["ts"],
        "messages": sum(
            isinstance(item, BaseMessage) for value in values if isinstance(value, list) for item in value
        ),
        "writes": len(found.pending_writes or []),
    }
