"""`replay`: a recorded conversation through the real graph, under one preset or several, and what became of it."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from langgraph_compaction.checkpoint import CheckpointError, Database
from langgraph_compaction.checkpoint.db.urls import place
from langgraph_compaction.nodes import CompactionError, CompactionSettings, SettingsError
from langgraph_compaction.nodes.config.loading import load_settings
from langgraph_compaction.nodes.config.presets import PRESETS
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter

from ...chat_model import environment_model
from ...lab.recordings import Recording, read_recordings
from ...lab.replay.recorded_run import Options, Player, limit_of
from ...lab.replay.replay_report import Report
from ...lab.replay.user_parts import OwnParts, own_parts
from ...visible_text import json_line
from ..output.preset_comparison import comparison
from ..output.printing import Output, complain, print_text, words
from ..output.replay_page import page
from .presets_command import settings_of

Write = Callable[[dict[str, Any]], None]


def _window(value: str) -> str:
    try:
        limit_of(value, fixed=0, rest=0)
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from None
    return value


def _presets(value: str | None) -> str | None:
    """Names with commas between them, each once."""
    named = [] if value is None else [name.strip() for name in value.split(",")]
    for name in named:
        settings_of(name)
        if named.count(name) > 1:
            raise typer.BadParameter(f"{name} is named twice")
    return value


def _page(value: Path | None) -> Path | None:
    if value is not None and value.suffix not in (".svg", ".html"):
        raise typer.BadParameter(f"{value} is neither an .svg nor an .html file")
    return value


def replay(
    file: Annotated[Path, typer.Argument(help="A recorded conversation, or a file of several.")],
    *,
    window: Annotated[
        str, typer.Option(callback=_window, help="Tokens, or a share: system prompt and tools + 25% of the rest.")
    ] = "25%",
    preset: Annotated[
        str | None,
        typer.Option(
            callback=_presets, help=f"What compacts; several, with commas, side by side: {', '.join(PRESETS)}."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A YAML file of settings, as `presets NAME` prints; --preset stands over it.")
    ] = None,
    use: Annotated[
        str | None,
        typer.Option(help="A Python file with STRATEGIES, TRIGGERS or KEY_INFORMATION of your own, by name."),
    ] = None,
    db: Annotated[
        str, typer.Option(help="URL of the database to keep all of it; memory ends with the command.")
    ] = "memory",
    summarizer: Annotated[
        Literal["digest", "model"], typer.Option(help="Who summarizes: digest, or model (from OPENAI_API_KEY).")
    ] = "digest",
    usage_bias: Annotated[bool, typer.Option("--usage-bias", help="Let the model count tokens unlike us.")] = False,
    requests: Annotated[Path | None, typer.Option(help="Write every request as sent, as JSON lines.")] = None,
    out: Annotated[
        Path | None, typer.Option(callback=_page, help="Draw what is printed into an .svg or .html file too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a conversation and preset.")] = False,
) -> None:
    """Drive a recorded conversation through the real graph, turn by turn.

    Recorded assistant turns stand in for the model and recorded results for the tools. Reads OpenAI chat JSON
    and JSONL, LangChain messages, tau-bench results, SWE-agent trajectories, pi sessions and OpenHands logs.
    --use runs the file it names. A question of require_confirmation is not asked: nobody is there to answer.
    Exits with 1 where a request was invalid or over the limit, something was lost, or a conversation did not fit.
    """
    if out is not None and as_json:
        raise typer.BadParameter(
            "--json prints no page that could be drawn; leave one of the two", param_hint="--out"
        )
    try:
        recordings = read_recordings(file)
        chosen, own = _settings(preset, config), own_parts(use) if use else OwnParts()
        for one in chosen:
            own.expect_use(one)
        with Database.open(db) as database:
            database.setup()
            options = Options(
                window=window,
                own=own,
                summarizer=environment_model() if summarizer == "model" else "digest",
                usage_bias=usage_bias,
                database=database,
                counter=tiktoken_counter(),
            )
            console = Output(stderr=as_json, record=out is not None)
            with _requests(requests, beside=file) as write:
                plays = [replace(options, settings=one) for one in chosen]
                flawless = _play_all(recordings, plays, write, None if as_json else console)
            if out is not None:
                _draw(console, out, title=file.name)
    except (CompactionError, CheckpointError) as error:
        complain(str(error))
        raise typer.Exit(1) from error
    if not flawless:
        raise typer.Exit(1)


def _settings(preset: str | None, config: Path | None) -> list[CompactionSettings]:
    """The settings to play: those of the file under each preset that is named, or as they are."""
    if preset is None:
        return [load_settings(yaml=config)]
    return [load_settings(yaml=config, preset=name.strip()) for name in preset.split(",")]


def _play_all(
    recordings: Sequence[Recording], plays: Sequence[Options], write: Write | None, console: Output | None
) -> bool:
    """Play one after the other, and tell; whether nothing went wrong. Without a console a report is a JSON line."""
    flawless = True
    for recording in recordings:
        reports = list[Report]()
        for options in plays:
            try:
                reports.append(_played(Player(recording, options, on_request=write), console))
            except CompactionError as error:
                which = f" ({options.settings.preset})" if len(plays) > 1 else ""
                complain(f"{recording.name}{which}: {error}")
                flawless = False
        if console is None:
            for report in reports:
                print_text(report.as_json())
        elif reports:
            console.print(*_pages(reports, plays, width=console.width), sep="\n")
        flawless = flawless and all(report.flawless for report in reports)
    return flawless


def _pages(reports: Sequence[Report], plays: Sequence[Options], *, width: int) -> Iterator[RenderableType]:
    """One page, or what the presets make of a conversation side by side."""
    database = plays[0].database
    kept_in = place(database.engine.url) if database.durable else None
    if len(plays) == 1:
        yield page(reports[0], width=width, place=kept_in)
        return
    yield comparison(reports, width=width)
    if kept_in:
        yield words(f"They are the threads {', '.join(one.thread for one in reports)} in {kept_in}.\n")


def _played(player: Player, console: Output | None) -> Report:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    shown = Output(stderr=True)
    silent = console is None or console.record or not console.is_terminal
    with Progress(*columns, console=shown, transient=True, disable=silent) as progress:
        name = f"{player.recording.name}, {player.report.preset}"
        task = progress.add_task(name, total=len(player.recording.messages))
        for played in player.steps():
            progress.update(task, completed=played)
    return player.report


def _draw(console: Output, path: Path, *, title: str) -> None:
    """Write what was printed as a picture or a page."""
    drawn = console.export_svg(title=title) if path.suffix == ".svg" else console.export_html()
    try:
        path.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written ({error.strerror})", param_hint="--out") from None


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
        yield lambda item: print(json_line(item), file=file)
