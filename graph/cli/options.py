"""Options that several commands share, and what they name: a database, settings, an attempt at a compaction."""

import os
import sqlite3
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from langgraph_compaction.checkpoint import CheckpointError, CompactionRecords, SchemaError, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.checkpoint.db.urls import is_memory, place, sync_url
from langgraph_compaction.nodes import CompactionError, CompactionSettings, SettingsError
from langgraph_compaction.nodes.config.base_model import nearest
from langgraph_compaction.nodes.config.loading import keys_in, load_settings
from langgraph_compaction.nodes.config.policies import PRESETS, Preset

from ..history import is_attempt
from ..window_text import part_of, tokens_or_share

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
Prefix = Annotated[
    str | None,
    typer.Option(
        help="The threads whose ids begin with this text. `user-1` also finds `user-12`; `user-1:` does not."
    ),
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=TEXT",
        help="The threads of which a checkpoint has this item in its metadata. You can repeat this option.",
    ),
]
Attempt = Annotated[
    str,
    typer.Argument(
        metavar="[COMPACTION]",
        help="The number of the attempt in `history`, `last` (the newest that is no undo), or the beginning of its "
        "id.",
    ),
]
PresetName = Annotated[str | None, typer.Option("--preset", help="The preset. `presets` lists all presets.")]
Config = Annotated[
    Path | None,
    typer.Option(
        help="A YAML file with settings, in the format of `presets NAME`. Default: the file that the variable "
        "LANGGRAPH_COMPACTION_CONFIG names. The variables LANGGRAPH_COMPACTION_<SETTING> override the file. Other "
        "options override both."
    ),
]
Window = Annotated[
    str | None,
    typer.Option(
        metavar="TOKENS|SHARE",
        help="The context window in tokens (32000), or a share of the window in the model's profile (25% or 0.25).",
    ),
]
SHORT_ID = 8
"""Number of characters of an id that `history` shows."""


def exit_code(error: CompactionError | CheckpointError) -> int:
    """Return 2, as for a usage error, if what was typed or set cannot be used, else 1.

    Errors of the first kind are `ValueError`s: a setting, a URL, a file of a recording, the name of a thread. A
    database without tables that this code can read is one too.
    """
    return 2 if isinstance(error, ValueError | SchemaError) else 1


def window_tokens(window: str | None, *, known: int | None) -> int | None:
    """Return the value of `--window` in tokens; `known` is the window of the model's profile, where there is one.

    Raise `SettingsError` for a share of a window that is not known.
    """
    if window is None:
        return None
    if known is None and isinstance(tokens_or_share(window), float):
        raise SettingsError(
            f"--window {window} is a share, and the model's own window is not known: give a number of tokens"
        )
    return part_of(window, known or 0)


def find_threads(saver: SQLAlchemySaver, prefix: str | None, metadata: list[str] | None) -> list[str]:
    """Return the ids of the threads that these options choose; raise `SettingsError` if an option is empty."""
    if prefix == "":
        raise SettingsError("--prefix is empty, which would mean every thread")
    items = [one.partition("=") for one in metadata or ()]
    if wrong := ["".join(one) for one in items if not all(one)]:
        raise SettingsError(f"--metadata: {wrong[0]!r} is not KEY=TEXT")
    return saver.threads(prefix, {key: text for key, _, text in items} or None)


def preset_named(name: str) -> Preset:
    """Return the preset with this name; raise `SettingsError` that suggests the nearest name if there is none."""
    if name not in PRESETS:
        raise SettingsError(f"there is no preset {name!r}; {nearest(name, PRESETS)}")
    return name


def settings_of(config: Path | None, **options: Any) -> CompactionSettings:
    """Return the settings of options, environment and file, in this order of precedence.

    An option that is `None` was not given. Without `config` the file is the one that the environment names. Raise
    `SettingsError` for a wrong setting; the error names the file and key, or the variable.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if "preset" in given:
        preset_named(given["preset"])
    return load_settings(yaml=config, env=os.environ, **given)


def told_reason(row: LedgerRow, rows: Sequence[LedgerRow]) -> str:
    """Return the reason of an attempt; of an undo or a redo the numbers of what it undid or brought back."""
    if row.verdict not in ("undone", "redone"):
        return row.reason
    numbers = {one.compaction_id: str(number) for number, one in enumerate(rows, 1)}
    return f"of {', '.join(numbers.get(name, name[:SHORT_ID]) for name in row.detail.split(', '))}"


def undone_by(rows: Sequence[LedgerRow]) -> dict[str, int]:
    """Return by the id of each undone compaction the number, as `history` shows it, of the undo."""
    found, undos = dict[str, int](), list[list[str]]()
    for number, row in enumerate(rows, 1):
        if row.verdict == "undone":
            undos.append(row.detail.split(", "))
            found |= dict.fromkeys(undos[-1], number)
        elif row.verdict == "redone" and undos:
            for name in undos.pop():
                found.pop(name, None)
        elif row.is_committed:
            undos.clear()
    return found


def ended_as(row: LedgerRow, undone: Mapping[str, int]) -> str:
    """Return how an attempt ended, and the number of the undo that has undone it since."""
    by = f", undone by {undone[row.compaction_id]}" if row.compaction_id in undone else ""
    return f"{row.verdict or 'open'}{by}"


def find_attempt(records: CompactionRecords, thread: str, name: str) -> LedgerRow:
    """Return the row of the ledger that `name` means.

    `name` is "last" (the newest row that is neither a preparation nor an undo), a number as `history` shows it (1 is
    the oldest), or the beginning of an id. Raise SettingsError if there is no such compaction, or if ids of several
    begin so.
    """
    rows = records.history(thread)
    attempts = [*filter(is_attempt, rows)]
    if name == "last" and attempts:
        return attempts[-1]
    if name.isascii() and name.isdigit() and len(name) < SHORT_ID and 0 < int(name) <= len(rows):
        return rows[int(name) - 1]
    found = [row for row in rows if name and row.compaction_id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise SettingsError(
            f"the ids of {len(found)} compactions of thread {thread!r} begin with {name!r}: give more of the id"
        )
    if name == "last":
        raise SettingsError(f"no compaction of thread {thread!r} was tried yet")
    raise SettingsError(f"the ledger of thread {thread!r} has no compaction {name!r}: `history {thread}` lists them")


def url_of(saver: SQLAlchemySaver) -> str:
    """Return the URL of a database as a word of a command, without its password."""
    url = saver.database.engine.url
    return quote(url.set(drivername=url.get_backend_name()).render_as_string())


def open_saver(db: str, allow: Iterable[type] = ()) -> AbstractContextManager[SQLAlchemySaver]:
    """Open a database with the keys in the environment."""
    return SQLAlchemySaver.from_url(db, allow=allow, keys=keys_in(os.environ))


@contextmanager
def open_or_temporary(db: str | None) -> Generator[SQLAlchemySaver]:
    """Open the database `db` and create its tables; if `db` is `None`, use a temporary database within the block."""
    with (
        TemporaryDirectory(prefix="langgraph-compaction-") as folder,
        open_saver(db or f"sqlite:///{Path(folder, 'threads.db').as_posix()}") as saver,
    ):
        saver.setup()
        yield saver


@contextmanager
def open_existing(db: str, *threads: str, allow: Iterable[type] = ()) -> Generator[SQLAlchemySaver]:
    """Open an existing database in which the named threads exist; never create a database.

    Values may have LangGraph's own safe types and the classes in `allow`. Raise `SettingsError` if the file, the
    tables of this package or a named thread is missing.
    """
    _check_exists(db)
    with open_saver(db, allow) as saver:
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
