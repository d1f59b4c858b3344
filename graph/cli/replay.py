"""`replay`: a recorded conversation through the real graph, and what became of it."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from langgraph_compaction.checkpoint import CheckpointError, Database
from langgraph_compaction.nodes import CompactionError, CompactionSettings
from langgraph_compaction.nodes.policies.tokens import tiktoken_counter
from langgraph_compaction.nodes.settings import PRESETS

from .models import chat_model
from .playing import Options, Player, Report
from .recordings import Recording, read_recordings


def replay(
    file: Annotated[Path, typer.Argument(help="A recorded conversation, or a file of several.")],
    window: Annotated[str, typer.Option(help="Tokens, or a share of the conversation: 25%.")] = "25%",
    preset: Annotated[str, typer.Option(help="Which preset compacts.")] = "selective",
    db: Annotated[str, typer.Option(help="Where snapshots, ledger and archive go.")] = "memory",
    summarizer: Annotated[str, typer.Option(help="digest, or model (from OPENAI_API_KEY).")] = "digest",
    usage_bias: Annotated[bool, typer.Option(help="Let the model count tokens unlike us.")] = False,
    requests: Annotated[Path | None, typer.Option(help="Write every request as sent, as JSON lines.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a conversation.")] = False,
) -> None:
    """Drive a recorded conversation through the real graph, turn by turn.

    Recorded assistant turns stand in for the model and recorded results for the tools. Reads OpenAI chat JSON
    and JSONL, LangChain messages, tau-bench results, SWE-agent trajectories, pi sessions and OpenHands logs.
    """
    console = Console(stderr=as_json)
    try:
        recordings = read_recordings(file)
        options = _options(window, preset, db, summarizer, usage_bias=usage_bias)
        with options.database, _requests(requests) as write:
            for recording in recordings:
                report = _played(Player(recording, options, on_request=write), console)
                print(report.as_json()) if as_json else _show(console, recording, report)  # noqa: T201 - the output
    except (CompactionError, CheckpointError) as error:
        console.print(f"[red]{error}[/red]", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error


def _options(window: str, preset: str, db: str, summarizer: str, *, usage_bias: bool) -> Options:
    if preset not in PRESETS:
        raise typer.BadParameter(f"unknown preset {preset!r}; there are: {', '.join(PRESETS)}")
    if summarizer not in {"digest", "model"}:
        raise typer.BadParameter(f"unknown summarizer {summarizer!r}; there are: digest, model")
    database = Database.open(db)
    database.setup()
    return Options(
        window=window,
        settings=CompactionSettings(),
        summarizer=chat_model() if summarizer == "model" else "digest",
        usage_bias=usage_bias,
        database=database,
        counter=tiktoken_counter(),
    )


def _requests(path: Path | None) -> AbstractContextManager[Callable[[dict[str, Any]], None] | None]:
    return nullcontext(None) if path is None else _Lines(path)


class _Lines:
    """Writes one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Callable[[dict[str, Any]], None]:
        self._file = self._path.open("w", encoding="utf-8")
        return lambda item: print(json.dumps(item, ensure_ascii=False), file=self._file)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _played(player: Player, console: Console) -> Report:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(player.recording.name, total=len(player.recording.messages))
        for played in player.steps():
            progress.update(task, completed=played)
    return player.report


def _show(console: Console, recording: Recording, report: Report) -> None:
    console.print(
        f"[bold]{report.file}[/bold]: {len(recording.messages)} messages in {report.turns} turns; "
        f"{report.requests} requests, the largest {report.max_request_tokens} of {report.limit} tokens"
    )
    if report.compactions:
        console.print(_table(report))
    bad = report.invalid_requests + report.over_window_requests + report.lost_messages
    console.print(
        f"{report.messages} messages in view, {report.archived} in the archive only; "
        f"{report.lost_messages} lost, {report.invalid_requests} requests invalid, "
        f"{report.over_window_requests} over the limit, {report.refused_turns} inputs refused",
        style="red" if bad else "green",
    )


def _table(report: Report) -> Table:
    table = Table("#", "trigger", "strategy", "verdict", "reason", "before", "after", "blocks dropped", "floor")
    for number, row in enumerate(report.compactions, start=1):
        cells = (row["trigger"], row["strategy"], row["verdict"], row["reason"])
        figures = (row["tokens_before"], row["tokens_after"], row["blocks_dropped"], row["floor"])
        table.add_row(str(number), *(cell or "" for cell in cells), *("" if n is None else str(n) for n in figures))
    return table
