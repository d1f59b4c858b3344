"""Find the compaction that a command names by its number in `history`, as `last`, or by the beginning of its id."""

from typing import Annotated

import typer

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.checkpoint.compaction.prepared import PREPARING
from langgraph_compaction.nodes import SettingsError

Named = Annotated[
    str,
    typer.Argument(
        metavar="COMPACTION",
        help="The number of the attempt in `history`, `last` (the newest attempt), or the beginning of its id.",
    ),
]

SHORT_ID = 8
"""Number of characters of an id that `history` shows."""


def is_compaction(trigger: str, verdict: str | None) -> bool:
    """Return whether a row of the ledger is an attempt at a compaction: neither a preparation nor an undo."""
    return trigger != PREPARING and verdict != "undone"


def find_compaction(records: CompactionRecords, thread: str, name: str) -> LedgerRow:
    """Return the row of the ledger that `name` means.

    `name` is "last" (the newest row that is neither a preparation nor an undo), a number as `history` shows it (1 is
    the oldest), or the beginning of an id. Up to seven digits are always a number. Raise SettingsError if there is no
    such compaction, or if ids of several begin so.
    """
    rows = records.history(thread)
    attempts = [row for row in rows if is_compaction(row.trigger, row.verdict)]
    if name == "last" and attempts:
        return attempts[-1]
    is_number = name.isascii() and name.isdigit() and len(name) < SHORT_ID
    if is_number and 0 < int(name) <= len(rows):
        return rows[int(name) - 1]
    found = [row for row in rows if name and not is_number and row.compaction_id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise SettingsError(
            f"the ids of {len(found)} compactions of thread {thread!r} begin with {name!r}: give more of the id"
        )
    raise SettingsError(f"the ledger of thread {thread!r} has no compaction {name!r}: `history {thread}` lists them")
