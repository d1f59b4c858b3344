"""`prune`: erases old checkpoints and the messages that only they hold, or threads that nobody writes to any more."""

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Literal, TypeVar

import typer
from rich.filesize import decimal

from langgraph_compaction.checkpoint import Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.db.transaction import Transaction
from langgraph_compaction.checkpoint.errors import LeaseError
from langgraph_compaction.checkpoint.maintenance.stats import ThreadStats
from langgraph_compaction.nodes import SettingsError

from .options import AsJson, Db, open_existing
from .output import cells, complain, make_table, print_json, print_table, progress

T = TypeVar("T")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


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
            help="Erase only checkpoints that are older (30d, 12h, 45m). The newest one of a thread always stays."
        ),
    ] = None,
    archive: Annotated[
        Literal["keep", "drop"], typer.Option(help="Keep or delete the archive and the snapshots of compactions.")
    ] = "keep",
    idle: Annotated[
        str | None,
        typer.Option(help="Erase whole threads, instead: all that nobody wrote to for so long (90d, 12h)."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be erased, and erase nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase old checkpoints, and the messages that only these checkpoints use.

    You can run this command while agents write to the database. It keeps the checkpoints that a fork begins with, and
    the checkpoints that the value of a delta channel needs. With `--archive drop`, compactions can no longer be
    undone.
    """
    if idle is not None:
        if threads or every or keep_last or older_than is not None or archive == "drop":
            raise SettingsError("--idle erases whole threads: it goes with --db, --dry-run and --json only")
        _erase_idle(db, _seconds("--idle", idle), dry_run=dry_run, as_json=as_json)
        return
    if every == bool(threads):
        raise SettingsError("name the threads, or give --all or --idle")
    since = None if older_than is None else _seconds("--older-than", older_than)
    options: dict[str, Any] = {"keep_last": keep_last, "archive": archive, "older_than": since}
    rows: list[dict[str, Any]] = []
    refused: list[str] = []
    with open_existing(db, *(threads or [])) as saver:
        chosen = threads or saver.threads()
        with progress("threads", len(chosen)) as show:
            for thread in chosen:
                try:
                    rows += _prune(saver, thread, options, dry_run=dry_run)
                except LeaseError as error:
                    refused.append(str(error))
                show()
        if not dry_run:
            saver.reclaim()
    for refusal in refused:
        complain(refusal)
    if as_json:
        print_json(rows)
    else:
        _print(rows, title="would be erased" if dry_run else "erased")
    if refused:
        raise typer.Exit(1)


def _erase_idle(db: str, seconds: float, *, dry_run: bool, as_json: bool) -> None:
    with open_existing(db) as saver:
        found = saver.maintenance.idle(saver.now() - seconds) if dry_run else saver.sweep(seconds)
        if found and not dry_run:
            saver.reclaim()
    if as_json:
        print_json({"thread_id": thread, "dry_run": dry_run} for thread in found)
        return
    table = make_table(left=["thread"], right=[], title="would be erased" if dry_run else "erased")
    for thread in found:
        table.add_row(*cells(thread))
    print_table(table, "No thread was idle for so long.")


def _seconds(option: str, age: str) -> float:
    if not (age[-1:] in _SECONDS and age[:-1].isdecimal()):
        raise SettingsError(f"{option}: {age!r} is not an age; write a number and a unit, such as 30d, 12h or 45m")
    return float(age[:-1]) * _SECONDS[age[-1]]


def _prune(saver: SQLAlchemySaver, thread: str, options: dict[str, Any], *, dry_run: bool) -> list[dict[str, Any]]:
    """Prune a thread, and return one row with the numbers of what was erased; [] if the thread no longer exists.

    With `dry_run`, the changes are rolled back afterwards, and the row says what would be erased.
    """
    if dry_run:
        with _rolled_back(saver.database) as database:
            rows = _prune(SQLAlchemySaver(database), thread, options, dry_run=False)
        return [{**row, "dry_run": True} for row in rows]
    before = saver.stats(thread)
    saver.prune([thread], **options)
    after = saver.stats(thread)
    return [_difference(stats, after[0] if after else None) for stats in before]


def _difference(before: ThreadStats, after: ThreadStats | None) -> dict[str, Any]:
    kinds = ("checkpoints", "writes", "messages", "total_bytes")
    left = {kind: getattr(after, kind) if after else 0 for kind in kinds}
    erased = {f"{kind}_erased": getattr(before, kind) - left[kind] for kind in kinds}
    return {"thread_id": before.thread_id, **erased, "checkpoints_left": left["checkpoints"], "dry_run": False}


def _print(rows: list[dict[str, Any]], *, title: str) -> None:
    table = make_table(left=["thread"], right=["checkpoints", "writes", "messages", "bytes", "left"], title=title)
    for row in rows:
        erased = (row["checkpoints_erased"], row["writes_erased"], row["messages_erased"])
        size = decimal(row["total_bytes_erased"])
        table.add_row(*cells(row["thread_id"], *erased, size, row["checkpoints_left"]))
    print_table(table, "There are no threads.")


class _OneTransaction(Database):
    """A database object whose methods all use one transaction that another object has opened and will end."""

    def __init__(self, database: Database, transaction: Transaction) -> None:
        super().__init__(database.engine, keys=database.keys)
        self._one = transaction

    def run(self, mode: str, work: Callable[[Transaction], T]) -> T:  # noqa: ARG002 - it was begun
        """Run `work` in the open transaction, and leave its commit or rollback to the caller."""
        return work(self._one)


class _Dry(Exception):  # noqa: N818 - no error: it ends a transaction
    """Rolls a transaction back."""


@contextmanager
def _rolled_back(database: Database) -> Generator[Database]:
    """Yield a database object for one transaction, which is rolled back at the end of the `with` block.

    The transaction locks rows, so other writers of these threads (on SQLite, all writers) wait until the block ends.
    """
    with suppress(_Dry), database.write() as transaction:
        yield _OneTransaction(database, transaction)
        raise _Dry
