"""`export-checkpoints`: threads for LangGraph's own savers, carried over and verified."""

from typing import Annotated

import typer

from langgraph_compaction.checkpoint.maintenance.export_checkpoints import SaverSource, open_target

from .import_checkpoints import Allow, AsOneJson, Threads, classes, copied, report
from .options import Db, open_existing


def export_checkpoints(
    *,
    db: Db,
    target: Annotated[
        str,
        typer.Option(
            "--to",
            help="The URL of the database of a SqliteSaver or PostgresSaver. Missing tables are created.",
        ),
    ],
    thread: Threads = None,
    allow: Allow = None,
    as_json: AsOneJson = False,
) -> None:
    """Copy threads to a SqliteSaver or PostgresSaver, and compare each copied state.

    The database --db is not changed. If the command was stopped, run it again: it continues with the next checkpoint.
    If a checkpoint cannot be copied, or if its copy differs from the original, the command lists the checkpoint and
    ends with the exit code 1.
    """
    with open_existing(db, allow=classes(allow)) as saver, open_target(target) as opened:
        outcome = copied(SaverSource(saver), opened, thread)
    report(outcome, as_json=as_json)
