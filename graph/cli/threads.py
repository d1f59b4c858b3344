"""`threads`: the threads of a database, the checkpoints of one of them, and how large they are."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import sqlalchemy as sa
import typer
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import CheckpointTuple
from rich.filesize import decimal

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import COMMITTED
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.nodes import SettingsError

from ..bill import Bill
from .options import AsJson, Db, Metadata, Prefix, find_threads, open_existing
from .output import cells, dollars, format_time, make_table, print_json, print_table, tokens_in_out

_TO_THE_MINUTE = 16
"""Number of characters of a time without its seconds, for which a narrow terminal has no room."""

Row = Mapping[str, Any]
Columns = Mapping[str, Callable[[Row], object]]
"""Functions that return a cell of a row, by the heading of the column."""

_THREADS: Columns = {
    "thread": lambda row: row["thread_id"],
    "last written": lambda row: format_time(row["updated_at"])[:_TO_THE_MINUTE],
    "checkpoints": lambda row: row["checkpoints"],
    "compactions": lambda row: row["compactions"],
}
_CHECKPOINTS: Columns = {
    "checkpoint": lambda row: row["checkpoint_id"],
    "namespace": lambda row: row["namespace"],
    "source": lambda row: row["source"],
    "step": lambda row: row["step"],
    "messages": lambda row: row["messages"],
    "writes": lambda row: row["writes"],
}
_SIZES: Columns = {
    "thread": lambda row: row["thread_id"],
    "checkpoints": lambda row: decimal(row["checkpoint_bytes"]),
    "writes": lambda row: decimal(row["write_bytes"]),
    "messages": lambda row: decimal(row["message_bytes"]),
    "values": lambda row: decimal(row["value_bytes"]),
    "total": lambda row: decimal(row["total_bytes"]),
}
_BILL: Columns = {
    "thread": lambda row: row["thread_id"],
    "calls": lambda row: row["agent"]["calls"],
    "in": lambda row: row["agent"]["input_tokens"],
    "cached": lambda row: row["agent"]["cache_read_tokens"],
    "out": lambda row: row["agent"]["output_tokens"],
    "cost": lambda row: dollars(row["agent"]["cost"]),
    "summary\ncalls": lambda row: row["summaries"]["calls"],
    "summary\nin/out": lambda row: tokens_in_out(row["summaries"]["input_tokens"], row["summaries"]["output_tokens"]),
    "summary\ncost": lambda row: dollars(row["summaries"]["cost"]),
}
_LEFT = {"thread", "last written", "checkpoint", "namespace", "source"}


def threads(
    thread: Annotated[
        str | None, typer.Argument(metavar="[THREAD]", help="The id of a thread, to list its checkpoints.")
    ] = None,
    *,
    db: Db,
    prefix: Prefix = None,
    metadata: Metadata = None,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Show the size of the stored data by kind, in bytes.")
    ] = False,
    bill: Annotated[
        bool, typer.Option("--bill", help="Show the calls of the agent's model and for summaries, and their cost.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of checkpoints.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the threads, or the checkpoints of one thread, the newest first."""
    chosen = prefix is not None or bool(metadata)
    if chosen and thread is not None:
        raise SettingsError("--prefix and --metadata choose among the threads: name no thread beside them")
    with open_existing(db, *([] if thread is None else [thread])) as saver:
        if sizes:
            columns = _SIZES
            rows = [{**asdict(found), "total_bytes": found.total_bytes} for found in saver.stats(thread)]
        elif bill:
            columns = _BILL
            listed = [thread] if thread else [str(row["thread_id"]) for row in _threads(saver)]
            rows = [_bill(saver, name) for name in listed]
        elif thread is not None:
            columns = _CHECKPOINTS
            rows = [_checkpoint(found) for found in saver.list({"configurable": {"thread_id": thread}}, limit=limit)]
        else:
            columns, rows = _THREADS, _threads(saver)
        if chosen:
            names = set(find_threads(saver, prefix, metadata))
            rows = [row for row in rows if row["thread_id"] in names]
    if as_json:
        print_json(rows)
        return
    used = {heading: cell for heading, cell in columns.items() if any(cell(row) != "" for row in rows)}
    table = make_table(
        left=[heading for heading in used if heading in _LEFT],
        right=[heading for heading in used if heading not in _LEFT],
    )
    for row in rows:
        table.add_row(*cells(*(cell(row) for cell in used.values())))
    print_table(
        table,
        "There are no such threads."
        if chosen
        else "There are no threads."
        if thread is None
        else "It has no checkpoints.",
    )


def _threads(saver: SQLAlchemySaver) -> list[dict[str, Any]]:
    def counted(table: sa.Table, *which: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
        mine = sa.select(sa.func.count()).select_from(table).where(table.c.thread == tables.thread.c.id, *which)
        return mine.correlate(tables.thread).scalar_subquery()

    query = sa.select(
        tables.thread.c.thread_id,
        tables.thread.c.updated_at,
        counted(tables.checkpoint).label("checkpoints"),
        counted(tables.ledger, tables.ledger.c.verdict.in_(COMMITTED)).label("compactions"),
    ).order_by(tables.thread.c.updated_at.desc(), tables.thread.c.id.desc())
    return saver.database.run_read(lambda transaction: [dict(row) for row in transaction.execute(query).mappings()])


def _bill(saver: SQLAlchemySaver, thread: str) -> dict[str, Any]:
    found = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    values = found.checkpoint["channel_values"] if found else {}
    bill = Bill.of(values, CompactionRecords(saver.database).history(thread))
    return {"thread_id": thread, **asdict(bill)}


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
