"""Opens the database that a command names, and reports the errors of this package."""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from langgraph_compaction.checkpoint import CheckpointError, SchemaError, SQLAlchemySaver
from langgraph_compaction.checkpoint.db.urls import is_memory, place, sync_url
from langgraph_compaction.nodes import CompactionError, SettingsError

from .output.printing import complain


@contextmanager
def report_errors() -> Generator[None]:
    """Print an error of this package as one red line, and exit with `exit_code`."""
    try:
        yield
    except (CompactionError, CheckpointError) as error:
        complain(str(error))
        raise typer.Exit(exit_code(error)) from error


def exit_code(error: CompactionError | CheckpointError) -> int:
    """Return 2, as for a usage error, if what was typed or set cannot be used, else 1.

    Errors of the first kind are `ValueError`s: a setting, a URL, a file of a recording, the name of a thread. A
    database without tables that this code can read is one too.
    """
    return 2 if isinstance(error, ValueError | SchemaError) else 1


@contextmanager
def open_or_temporary(db: str | None) -> Generator[SQLAlchemySaver]:
    """Open the database `db` and create its tables; if `db` is `None`, use a temporary database within the block."""
    with (
        TemporaryDirectory(prefix="langgraph-compaction-") as folder,
        SQLAlchemySaver.from_url(db or f"sqlite:///{Path(folder, 'threads.db').as_posix()}") as saver,
    ):
        saver.setup()
        yield saver


@contextmanager
def open_existing(db: str, *threads: str) -> Generator[SQLAlchemySaver]:
    """Open an existing database in which the named threads exist; never create a database.

    Report, as `report_errors` does, that the file, the tables of this package or a named thread is missing.
    """
    with report_errors():
        _check_exists(db)
        with SQLAlchemySaver.from_url(db) as saver:
            there = saver.threads()
            if missing := [thread for thread in threads if thread not in there]:
                raise SettingsError(f"there is no thread {', '.join(map(repr, missing))} in {place(sync_url(db))}")
            yield saver


def _check_exists(db: str) -> None:
    """Raise SettingsError if the URL's file is missing or holds no tables of this package; check no server."""
    url = sync_url(db)
    if is_memory(url):
        raise SettingsError(
            "a database in memory ends with its process; name one that stays: --db sqlite:///agent.db"
        )
    if url.get_backend_name() != "sqlite":
        return  # connecting to a server creates no database, and the saver reports missing tables
    file = Path(url.database or "")
    if not file.is_file():
        raise SettingsError(f"there is no file {file}")
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as conn:
            ours = conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'compaction_schema'").fetchone()
    except sqlite3.Error as error:
        raise SettingsError(f"{file} cannot be read: {error}") from error
    if ours is None:
        raise SettingsError(
            f"{file} holds no tables of langgraph-compaction; `import-checkpoints` brings threads over"
        )
