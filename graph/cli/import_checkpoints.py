"""`import-checkpoints`: the threads of LangGraph's own savers, carried over and verified."""

from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Annotated, Any

import typer
from langgraph.checkpoint.base import BaseCheckpointSaver

from langgraph_compaction.checkpoint.db.urls import is_memory, sync_url
from langgraph_compaction.checkpoint.maintenance.import_checkpoints import ImportedCheckpoint, ThreadSource
from langgraph_compaction.checkpoint.maintenance.import_checkpoints import import_checkpoints as copy
from langgraph_compaction.checkpoint.maintenance.import_sources import open_source
from langgraph_compaction.nodes import SettingsError

from .options import open_saver
from .output import Output, complain, print_json, progress, words

_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Failed:
    """A checkpoint that is missing in the target, or differs there from the source."""

    thread_id: str
    namespace: str
    checkpoint_id: str
    reason: str
    held_back: int


@dataclass
class Outcome:
    """Counts and failures of an import or export."""

    threads: int = 0
    checkpoints: int = 0
    already: int = 0
    written: int = 0
    verified: int = 0
    held_back: int = 0
    failed: list[Failed] = field(default_factory=list[Failed])

    def add(self, one: ImportedCheckpoint) -> None:
        """Add a checkpoint to the counts, and to the failures if it failed."""
        self.written += one.written
        if one.problem is None:
            self.verified += 1
            self.already += not one.written
        else:
            self.held_back += one.held_back
            place = (one.thread_id, one.namespace, one.checkpoint_id)
            self.failed.append(Failed(*place, one.problem, one.held_back))

    @property
    def flawless(self) -> bool:
        """Whether no checkpoint failed: each is in the target exactly as in the source."""
        return not self.failed and self.verified == self.checkpoints


Threads = Annotated[
    list[str] | None, typer.Option("--thread", help="Copy only this thread. You can repeat this option.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        help="A class, as module:Class, that stored values may contain in addition to LangGraph's types. You can "
        "repeat this option."
    ),
]
AsOneJson = Annotated[bool, typer.Option("--json", help="Print one JSON object with the counts and the failures.")]


def import_checkpoints(
    *,
    source: Annotated[
        str,
        typer.Option(
            "--from", help="The URL of the database of a SqliteSaver or PostgresSaver. This database is not changed."
        ),
    ],
    target: Annotated[
        str, typer.Option("--to", help="The URL of the database to copy the threads to. Missing tables are created.")
    ],
    thread: Threads = None,
    allow: Allow = None,
    as_json: AsOneJson = False,
) -> None:
    """Copy the threads of a SqliteSaver or PostgresSaver, and compare each copied state.

    If the command was stopped, run it again: it continues with the next checkpoint. If a checkpoint cannot be copied,
    or if its copy differs from the original, the command lists the checkpoint and ends with the exit code 1.
    """
    kinds = classes(allow)
    if is_memory(sync_url(target)):
        raise SettingsError("--to names a database in memory, which would end with the command")
    with open_source(source, allow=kinds) as opened, open_saver(target, kinds) as saver:
        saver.setup()
        outcome = copied(opened, saver, thread)
    report(outcome, as_json=as_json)


def copied(source: ThreadSource, target: BaseCheckpointSaver[Any], threads: list[str] | None) -> Outcome:
    """Copy all threads, or the named ones, with a bar; after Ctrl-C, exit with a line that says how to go on."""
    outcome = Outcome()
    sizes = source.threads()
    chosen = dict.fromkeys(threads or sizes)
    outcome.threads, outcome.checkpoints = len(chosen), sum(sizes.get(name, 0) for name in chosen)
    try:
        with progress("threads", outcome.checkpoints) as show:
            for one in copy(source, target, threads=threads or None):
                outcome.add(one)
                show(outcome.verified, f"thread {one.thread_id[:36]}")
    except KeyboardInterrupt:
        complain(f"stopped; run the command again to go on ({outcome.written:,} checkpoints written in this run)")
        raise typer.Exit(_INTERRUPTED) from None
    return outcome


def report(outcome: Outcome, *, as_json: bool) -> None:
    """Print the outcome; exit with 1 if a checkpoint failed."""
    if as_json:
        print_json([asdict(outcome)])
    else:
        _print(outcome)
    if not outcome.flawless:
        raise typer.Exit(1)


def _print(outcome: Outcome) -> None:
    figures = (
        f"{outcome.checkpoints:,} checkpoints in {outcome.threads:,} threads: {outcome.already:,} were there before, "
        f"{outcome.written:,} written now; {outcome.verified:,} read back and equal to the source"
    )
    Output().print(words(figures, "green" if outcome.flawless else "yellow"), soft_wrap=True)
    alike: dict[tuple[str, str], list[Failed]] = {}
    for failed in outcome.failed:
        alike.setdefault((failed.thread_id, failed.reason), []).append(failed)
    for (thread, reason), [first, *others] in alike.items():
        place = f"{first.checkpoint_id} in {first.namespace}" if first.namespace else first.checkpoint_id
        more = f" and {len(others):,} more" if others else ""
        behind = f"; {first.held_back:,} later ones of the thread wait behind it" if first.held_back else ""
        complain(f"thread {thread}, checkpoint {place}{more}: {reason}{behind}")


def classes(allow: list[str] | None) -> list[type]:
    """Return the classes that `--allow` names; raise SettingsError if one cannot be imported."""
    return [_class(name) for name in allow or ()]


def _class(name: str) -> type:
    module, _, kind = name.partition(":")
    try:
        found: Any = getattr(import_module(module), kind)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"--allow {name}: {error}; it takes module:Class, of a module that can be imported"
        ) from error
    if not isinstance(found, type):
        raise SettingsError(f"--allow {name}: that is no class")
    return found
