"""`forget`: erases a thread, or all threads of a user."""

from typing import Annotated

import typer

from langgraph_compaction.checkpoint.errors import LeaseError
from langgraph_compaction.nodes import SettingsError

from ..control_characters import in_line
from .options import AsJson, Db, Metadata, Prefix, find_threads, open_existing
from .output import complain, print_line, tell


def forget(
    thread: Annotated[str | None, typer.Argument(metavar="[THREAD]", help="The id of the thread.")] = None,
    *,
    db: Db,
    prefix: Prefix = None,
    metadata: Metadata = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase all data of a thread, or of all threads with a prefix or with metadata.

    A thread that is leased to a writer is named and left, and the command ends with the exit code 1.
    """
    if (thread is None) == (prefix is None and not metadata):
        raise SettingsError("name one thread, or choose threads by --prefix or --metadata")
    erased: list[str] = []
    with open_existing(db, *([] if thread is None else [thread])) as saver:
        names = find_threads(saver, prefix, metadata) if thread is None else [thread]
        if names and not yes:
            what = f"of thread {in_line(names[0])}" if len(names) == 1 else f"data of {len(names):,} threads"
            typer.confirm(f"Erase all {what}? It cannot be undone.", abort=True, err=True)
        for name in names:
            try:
                saver.delete_thread(name)
            except LeaseError as error:
                complain(str(error))
            else:
                erased.append(name)
        if erased:
            saver.reclaim()
    for name in erased:
        tell({"thread_id": name, "forgotten": True}, f"nothing of {name} is left.", as_json=as_json)
    if not names and not as_json:
        print_line("There are no such threads.")
    if len(erased) < len(names):
        raise typer.Exit(1)
