"""`replay`: runs recorded conversations through the real graph, under one preset or several."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.checkpoint.db.urls import place
from langgraph_compaction.nodes import CompactionError, CompactionSettings
from langgraph_compaction.nodes.config.presets import PRESETS
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter

from ...chat_model import environment_model
from ...control_characters import json_line
from ...lab.recordings import Recording, read_recordings
from ...lab.replay.recorded_run import Options, Player
from ...lab.replay.replay_report import Report
from ...lab.replay.user_parts import UserParts, load_user_parts
from ...window_text import tokens_or_share
from ..command_settings import Config, command_settings, preset_named, usage_errors
from ..open_database import report_errors
from ..output.preset_comparison import comparison
from ..output.printing import Output, complain, print_text, words
from ..output.replay_page import page

Write = Callable[[dict[str, Any]], None]


def _window(value: str) -> str:
    with usage_errors():
        tokens_or_share(value)
    return value


def _presets(value: str | None) -> str | None:
    """Check that preset names, separated by commas, are known and that none is repeated."""
    named = [] if value is None else [name.strip() for name in value.split(",")]
    for name in named:
        preset_named(name)
        if named.count(name) > 1:
            raise typer.BadParameter(f"{name} is named twice")
    return value


def _page(value: Path | None) -> Path | None:
    if value is not None and value.suffix not in (".svg", ".html"):
        raise typer.BadParameter(f"{value} is neither an .svg nor an .html file")
    return value


def replay(
    file: Annotated[Path, typer.Argument(help="A file with one or more recorded conversations.")],
    *,
    window: Annotated[
        str,
        typer.Option(
            callback=_window,
            help="The context window in tokens, or as a share: system prompt, tools, and 25% of the other tokens.",
        ),
    ] = "25%",
    preset: Annotated[
        str | None,
        typer.Option(
            callback=_presets,
            help=f"One preset, or several to compare, separated by commas. The presets are {', '.join(PRESETS)}.",
        ),
    ] = None,
    config: Config = None,
    use: Annotated[
        str | None,
        typer.Option(
            help="A Python file that defines the dicts STRATEGIES, TRIGGERS or KEY_INFORMATION. The file is executed."
        ),
    ] = None,
    db: Annotated[
        str, typer.Option(help="The URL of a database for the threads. Default: the threads are not stored.")
    ] = "memory",
    summarizer: Annotated[
        Literal["digest", "model"],
        typer.Option(help="The summarizer: `digest` (no model), or `model` (an OpenAI model, with OPENAI_API_KEY)."),
    ] = "digest",
    usage_bias: Annotated[
        bool,
        typer.Option(
            "--usage-bias",
            help="Let the replayed model report token counts that differ from the counts of this package.",
        ),
    ] = False,
    requests: Annotated[
        Path | None, typer.Option(help="Write each request to the model to this file, as JSON lines.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(callback=_page, help="Also write the output to this .svg or .html file.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON line for each conversation and preset.")
    ] = False,
) -> None:
    """Run a recorded conversation through the agent's graph, turn by turn.

    The assistant messages and the tool results come from the recording. The formats of recordings are OpenAI chat
    JSON and JSONL, LangChain messages, tau-bench results, SWE-agent trajectories, sessions of pi, and OpenHands logs.
    The setting require_confirmation is ignored.

    The exit code is 1 if a request was invalid or over the limit, if a message was lost, or if a conversation did not
    fit into the window.
    """
    if out is not None and as_json:
        raise typer.BadParameter(
            "with --json no page is printed, so --out has nothing to draw; leave out one of the two",
            param_hint="--out",
        )
    with report_errors():
        recordings = read_recordings(file)
        chosen, own = _settings(preset, config), load_user_parts(use) if use else UserParts()
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
    if not flawless:
        raise typer.Exit(1)


def _settings(preset: str | None, config: Path | None) -> list[CompactionSettings]:
    """Return the settings to play: those of file and environment, once for each named preset, or once if none is."""
    if preset is None:
        return [command_settings(config)]
    return [command_settings(config, preset=name.strip()) for name in preset.split(",")]


def _play_all(
    recordings: Sequence[Recording], plays: Sequence[Options], write: Write | None, console: Output | None
) -> bool:
    """Play and report each recording, as a JSON line if there is no console; return whether all went well."""
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
    """Yield the page of the only report, or the comparison of the reports of several presets."""
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
    """Write the printed output to an .svg or .html file."""
    drawn = console.export_svg(title=title) if path.suffix == ".svg" else console.export_html()
    try:
        path.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written ({error.strerror})", param_hint="--out") from None


@contextmanager
def _requests(path: Path | None, *, beside: Path) -> Generator[Write | None]:
    """Yield a function that writes a JSON object as one line of a new file; `None` without a path."""
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
