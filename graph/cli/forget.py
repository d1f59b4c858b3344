"""`forget`: erases a thread."""

from typing import Annotated

import typer

from ..control_characters import in_line
from .options import AsJson, Db, Thread, open_existing
from .output import tell


def forget(
    thread: Thread,
    *,
    db: Db,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase all data of a thread."""
    with open_existing(db, thread) as saver:
        if not yes:
            typer.confirm(f"Erase all of thread {in_line(thread)}? It cannot be undone.", abort=True, err=True)
        saver.delete_thread(thread)
        saver.reclaim()
    tell({"thread_id": thread, "forgotten": True}, f"nothing of {thread} is left.", as_json=as_json)
