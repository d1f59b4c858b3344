"""`prune`: erases old checkpoints, and the messages that only they hold."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import sqlalchemy as sa
import typer
from rich.filesize import decimal

from langgraph_compaction.checkpoint import Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.errors import LeaseError
from langgraph_compaction.checkpoint.maintenance.stats import ThreadStats

from ..open_database import open_existing
from ..output.printing import cells, complain, print_lines
from .threads_command import AsJson, Db, print_table, table_of

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def _age(value: str | None) -> str | None:
    if value is not None and not (value[-1:] in _SECONDS and value[:-1].isdecimal()):
        raise typer.BadParameter(f"{value!r} is not an age; write a number and a unit, such as 30d, 12h or 45m")
    return value


def prune(
    threads: Annotated[
        list[str] | None, typer.Argument(metavar="[THREAD]...", help="The ids of the threads.")
    ] = None,
    *,
    db: Db,
    every: Annotated[bool, typer.Option("--all", help="All threads.")] = False,
    keep_last: Annotated[
        int | None, typer.Option(min=1, help="Number of the newest checkpoints to keep in each namespace.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            callback=_age,
            help="Erase only checkpoints that are older (30d, 12h, 45m). The newest one of a thread always stays.",
        ),
    ] = None,
    strategy: Annotated[
        Literal["keep_latest", "delete"],
        typer.Option(help="Keep the newest checkpoint of each thread, or erase the whole thread."),
    ] = "keep_latest",
    archive: Annotated[
        Literal["keep", "drop"], typer.Option(help="Keep or delete the archive and the snapshots of compactions.")
    ] = "keep",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be erased, and erase nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase old checkpoints, and the messages that only these checkpoints use.

    You can run this command while agents write to the database. It keeps the checkpoints that a fork begins with, and
    the checkpoints that the value of a delta channel needs. With `--archive drop`, compactions can no longer be
    undone.
    """
    if every == bool(threads):
        raise typer.BadParameter("name the threads, or give --all")
    if strategy == "delete" and (keep_last or older_than):
        raise typer.BadParameter(
            "delete erases whole threads: leave out --keep-last and --older-than", param_hint="--strategy"
        )
    options: dict[str, Any] = {"strategy": strategy, "archive": archive}
    if keep_last is not None:
        options["keep_last"] = keep_last
    if older_than is not None:
        options["older_than"] = float(older_than[:-1]) * _SECONDS[older_than[-1]]
    rows: list[dict[str, Any]] = []
    refused = False
    with open_existing(db, *(threads or [])) as saver:
        for thread in threads or saver.threads():
            try:
                rows += _pruned(saver, thread, options, dry_run=dry_run)
            except LeaseError as error:
                complain(str(error))
                refused = True
        if not dry_run:
            saver.reclaim()
    _show(rows, as_json=as_json, dry_run=dry_run)
    if refused:
        raise typer.Exit(1)


def _pruned(saver: SQLAlchemySaver, thread: str, options: dict[str, Any], *, dry_run: bool) -> list[dict[str, Any]]:
    """Prune a thread, and return one row with the numbers of what was erased; [] if the thread no longer exists.

    With `dry_run`, the changes are rolled back afterwards, and the row says what would be erased.
    """
    if dry_run:
        with rolled_back(saver.database) as database:
            gone = _pruned(SQLAlchemySaver(database), thread, options, dry_run=False)
        return [{**row, "dry_run": True} for row in gone]
    before = saver.stats(thread)
    saver.prune([thread], **options)
    after = saver.stats(thread)
    return [_gone(one, after[0] if after else None) for one in before]


def _gone(before: ThreadStats, after: ThreadStats | None) -> dict[str, Any]:
    kinds = ("checkpoints", "writes", "messages", "total_bytes")
    left = {kind: getattr(after, kind) if after else 0 for kind in kinds}
    erased = {f"{kind}_erased": getattr(before, kind) - left[kind] for kind in kinds}
    return {"thread_id": before.thread_id, **erased, "checkpoints_left": left["checkpoints"], "dry_run": False}


def _show(rows: list[dict[str, Any]], *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_lines(rows)
        return
    table = table_of(left=("thread",), right=("checkpoints", "writes", "messages", "bytes", "left"))
    table.title = "would be erased" if dry_run else "erased"
    table.title_justify = "left"
    for row in rows:
        gone = (row["checkpoints_erased"], row["writes_erased"], row["messages_erased"])
        table.add_row(*cells(row["thread_id"], *gone, decimal(row["total_bytes_erased"]), row["checkpoints_left"]))
    print_table(table, "There are no threads.")


class _OneTransaction(Database):
    """A database object whose methods all use one transaction that another object has opened and will end."""

    def __init__(self, database: Database, conn: sa.Connection) -> None:
        super().__init__(database.engine, keys=database.keys)
        self._conn = conn

    @contextmanager
    def write(self) -> Generator[sa.Connection]:
        """Yield the open transaction, and leave its commit or rollback to the caller."""
        yield self._conn

    read = write


@contextmanager
def rolled_back(database: Database) -> Generator[Database]:
    """Yield a database object for one transaction, which is rolled back at the end of the `with` block.

    The transaction locks rows, so other writers of these threads (on SQLite, all writers) wait until the block ends.
    """
    with database.write() as conn:
        try:
            yield _OneTransaction(database, conn)
        finally:
            conn.rollback()
