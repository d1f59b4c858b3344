"""`replay`: a recorded conversation through the real graph, and what became of it."""

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from langgraph_compaction.checkpoint import CheckpointError, Database
from langgraph_compaction.checkpoint.urls import place
from langgraph_compaction.nodes import CompactionError, CompactionSettings, SettingsError
from langgraph_compaction.nodes.policies.tokens import tiktoken_counter
from langgraph_compaction.nodes.presets import PRESETS

from .models import chat_model
from .playing import Options, Player, limit_of
from .recordings import Recording, read_recordings
from .replay_page import page
from .report import Report

Write = Callable[[dict[str, Any]], None]


def _window(value: str) -> str:
    try:
        limit_of(value, fixed=0, rest=0)
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from None
    return value


def _preset(value: str) -> str:
    if value not in PRESETS:
        raise typer.BadParameter(f"there is no preset {value!r}; there are: {', '.join(PRESETS)}")
    return value


def replay(
    file: Annotated[Path, typer.Argument(help="A recorded conversation, or a file of several.")],
    *,
    window: Annotated[
        str, typer.Option(callback=_window, help="Tokens, or a share: system prompt and tools + 25% of the rest.")
    ] = "25%",
    preset: Annotated[str, typer.Option(callback=_preset, help=f"What compacts: {', '.join(PRESETS)}.")] = PRESETS[0],
    db: Annotated[
        str, typer.Option(help="URL of the database to keep all of it; memory ends with the command.")
    ] = "memory",
    summarizer: Annotated[
        Literal["digest", "model"], typer.Option(help="Who summarises: digest, or model (from OPENAI_API_KEY).")
    ] = "digest",
    usage_bias: Annotated[bool, typer.Option("--usage-bias", help="Let the model count tokens unlike us.")] = False,
    requests: Annotated[Path | None, typer.Option(help="Write every request as sent, as JSON lines.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a conversation.")] = False,
) -> None:
    """Drive a recorded conversation through the real graph, turn by turn.

    Recorded assistant turns stand in for the model and recorded results for the tools. Reads OpenAI chat JSON
    and JSONL, LangChain messages, tau-bench results, SWE-agent trajectories, pi sessions and OpenHands logs.
    Exits with 1 where a request was invalid or over the limit, something was lost, or a conversation did not fit.
    """
    try:
        recordings = read_recordings(file)
        with Database.open(db) as database:
            database.setup()
            options = Options(
                window=window,
                settings=CompactionSettings.model_validate({"preset": preset}),
                summarizer=chat_model() if summarizer == "model" else "digest",
                usage_bias=usage_bias,
                database=database,
                counter=tiktoken_counter(),
            )
            with _requests(requests, beside=file) as write:
                flawless = _play_all(recordings, options, write, as_json=as_json)
    except (CompactionError, CheckpointError) as error:
        _complain(str(error))
        raise typer.Exit(1) from error
    if not flawless:
        raise typer.Exit(1)


def _play_all(recordings: Sequence[Recording], options: Options, write: Write | None, *, as_json: bool) -> bool:
    """Play one after the other, and tell; whether nothing went wrong."""
    console, flawless, database = Console(stderr=as_json, highlight=False), True, options.database
    kept_in = place(database.engine.url) if database.durable else None
    for recording in recordings:
        try:
            report = _played(Player(recording, options, on_request=write), console)
        except CompactionError as error:
            _complain(f"{recording.name}: {error}")
            flawless = False
            continue
        if as_json:
            print(report.as_json(), flush=True)  # noqa: T201 - the output
        else:
            console.print(page(report, width=console.width, place=kept_in))
        flawless = flawless and report.flawless
    return flawless


def _played(player: Player, console: Console) -> Report:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(player.recording.name, total=len(player.recording.messages))
        for played in player.steps():
            progress.update(task, completed=played)
    return player.report


@contextmanager
def _requests(path: Path | None, *, beside: Path) -> Generator[Write | None]:
    """A function that writes one JSON object a line; the file begins empty."""
    if path is None:
        yield None
        return
    if path.resolve() == beside.resolve():
        raise typer.BadParameter(f"{path} is the recording itself", param_hint="--requests")
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written ({error.strerror})", param_hint="--requests") from None
    with file:
        yield lambda item: print(json.dumps(item, ensure_ascii=False), file=file)


def _complain(text: str) -> None:
    Console(stderr=True, highlight=False).print(Text(text, "red"), soft_wrap=True)
