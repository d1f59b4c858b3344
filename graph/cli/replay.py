"""`replay`: runs recorded conversations through the real graph, under one preset or several."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.checkpoint.db.urls import place
from langgraph_compaction.nodes import CompactionError, SettingsError
from langgraph_compaction.nodes.config.policies import PRESETS
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter

from ..chat_model import environment_model
from ..control_characters import in_line, json_line
from ..lab import Recording, read_recordings
from ..lab.replay.recorded_run import Options, Player
from ..lab.replay.replay_report import Report
from ..lab.replay.user_parts import UserParts, load_user_parts
from ..window_text import tokens_or_share
from .options import Config, settings_of
from .output import Output, cells, complain, make_table, print_text, progress, words

Write = Callable[[dict[str, Any]], None]


def replay(
    file: Annotated[Path, typer.Argument(help="A file with one or more recorded conversations.")],
    *,
    window: Annotated[
        str,
        typer.Option(
            help="The context window in tokens, or as a share: system prompt, tools, and 25% of the other tokens."
        ),
    ] = "25%",
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"One preset, or several separated by commas, one after the other. They are {', '.join(PRESETS)}."
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
    requests: Annotated[
        Path | None, typer.Option(help="Write each request to the model to this file, as JSON lines.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON line for each conversation and preset.")
    ] = False,
) -> None:
    """Run a recorded conversation through the agent's graph, turn by turn.

    The assistant messages and the tool results come from the recording. The formats of recordings are OpenAI chat
    JSON and JSONL, LangChain messages, tau-bench results, SWE-agent trajectories, sessions of pi, and OpenHands logs.
    The setting require_confirmation is ignored. `evaluate --online` compares presets.

    The exit code is 1 if a request was invalid or over the limit, if a message was lost, or if a conversation did not
    fit into the window.
    """
    tokens_or_share(window)  # what is none is an error of the command, not of a recording
    recordings = read_recordings(file)
    names = [None] if preset is None else [name.strip() for name in preset.split(",")]
    chosen = [settings_of(config, preset=name) for name in names]
    own = load_user_parts(use) if use else UserParts()
    for settings in chosen:
        own.expect_use(settings)
    with Database.open(db) as database, _open_requests(requests, beside=file) as write:
        database.setup()
        options = Options(
            window=window,
            own=own,
            summarizer=environment_model() if summarizer == "model" else "digest",
            database=database,
            counter=tiktoken_counter(),
        )
        plays = [
            _play(recording, replace(options, settings=settings), write, as_json=as_json)
            for recording in recordings
            for settings in chosen
        ]
    if not all(plays):
        raise typer.Exit(1)


def _play(recording: Recording, options: Options, write: Write | None, *, as_json: bool) -> bool:
    """Play and report a recording; return whether all went well."""
    name = f"{recording.name} ({options.settings.preset})"
    try:
        player = Player(recording, options, on_request=write)
        with progress(name, len(recording.messages)) as show:
            for played in player.steps():
                show(played)
    except CompactionError as error:
        complain(f"{name}: {error}")
        return False
    if as_json:
        print_text(player.report.as_json())
    else:
        database = options.database
        _print(player.report, place(database.engine.url) if database.durable else None)
    return player.report.flawless


def _print(report: Report, kept_in: str | None) -> None:
    """Print the size of a conversation, a row for each compaction, and the end state."""
    console = Output()
    figures = (
        f": {report.recorded} messages in {report.turns} turns; {report.requests} requests, the largest "
        f"{report.max_request_tokens:,} of {report.limit:,} tokens"
    )
    compacts = f"\n{report.preset} compacts from {report.trigger:,} tokens on"
    console.print(Text.assemble((in_line(report.file), "bold"), figures, (compacts, "dim")))
    if kept_in:
        console.print(words(f"It is thread {report.thread} in {kept_in}."))
    if report.attempts:
        table = make_table(left=["#", "trigger", "strategy", "outcome"], right=["before", "after", "blocks", "floor"])
        for number, row in enumerate(report.attempts, start=1):
            table.add_row(
                *cells(number, row.trigger, row.strategy, _outcome(row), row.tokens_before, row.tokens_after),
                *cells(row.blocks_dropped or 0, row.floor),
            )
        console.print("", table, "", sep="\n")
    if report.asks:
        console.print("require_confirmation is ignored: nobody is there to answer.", style="dim")
    end = (
        f"{report.messages} messages in view, {report.archived} in the archive only; {report.lost_messages} lost, "
        f"{report.invalid_requests} requests invalid, {report.over_window_requests} over the limit, "
        f"{report.refused_turns} inputs refused\n"
    )
    console.print(words(end, "green" if report.flawless else "red"))


def _outcome(row: LedgerRow) -> str:
    return f"{row.verdict or 'open'} {row.reason}".strip()


@contextmanager
def _open_requests(path: Path | None, *, beside: Path) -> Generator[Write | None]:
    """Yield a function that writes a JSON object as one line of a new file; `None` without a path."""
    if path is None:
        yield None
        return
    if path.resolve() == beside.resolve():
        raise SettingsError(f"--requests: {path} is the recording itself")
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"--requests: {path} cannot be written ({error.strerror})") from None
    with file:
        yield lambda item: print(json_line(item), file=file)
