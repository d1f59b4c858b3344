"""`demo`: the main job, without any input of the user's."""

import platform
from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter
from typing import Annotated, Literal
from uuid import uuid4

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from langgraph_compaction.checkpoint import CheckpointError
from langgraph_compaction.checkpoint.db.urls import place
from langgraph_compaction.nodes import CompactionError, Summarizer
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.summary.summarizers import summarizer_of

from ...chat_model import environment_model
from ...lab.demo.demo_questions import QUESTIONS
from ...lab.demo.findings import Findings, findings
from ...lab.demo.investigation import Investigation
from ..output.demo_page import HEADER, opening, page, row
from ..output.printing import Output, complain, print_lines
from ..storage import storage


def demo(
    summarizer: Annotated[
        Literal["digest", "model"], typer.Option(help="Who summarizes: digest, or model (from OPENAI_API_KEY).")
    ] = "digest",
    db: Annotated[
        str | None, typer.Option(help="URL of the database to keep all of it; else it ends with the command.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with the figures.")] = False,
) -> None:
    """Watch a long agent conversation stay inside its window: compacted, failed safely, nothing lost.

    A scripted model works through Python's standard library with real tools, and one summary is made to fail.
    Exits with 1 where anything did not come out as it must.
    """
    console = Output(quiet=as_json)
    try:
        chosen = summarizer_of(environment_model() if summarizer == "model" else "digest")
        shown = _run(console, chosen, db)
    except (CompactionError, CheckpointError) as error:
        complain(str(error))
        raise typer.Exit(1) from error
    if as_json:
        print_lines([shown.as_json()])
    if shown.problems():
        raise typer.Exit(1)


def _run(console: Output, summarizer: Summarizer, db: str | None) -> Findings:
    started = perf_counter()
    with storage(db) as saver:
        work = Investigation(saver, tiktoken_counter(), summarizer, thread=f"demo-{uuid4().hex[:8]}")
        limit = work.standing.limit
        console.print(opening(work.standing, python=platform.python_version(), summarizer=summarizer.name))
        if db and saver.database.durable:
            console.print(f"It is thread {work.thread} in {place(saver.database.engine.url)}.\n", soft_wrap=True)
        console.print(HEADER, style="bold")
        with _progress(console, limit) as (progress, task):
            for event in work.work():
                if event == "attempt":
                    console.print(row(work.attempts[-1]))
                elif event == "question":
                    progress.update(task, turn=work.turn)
                else:
                    progress.update(task, completed=work.model.sizes[-1], read=work.tool_tokens)
        shown = findings(work, perf_counter() - started)
        console.print(page(shown, work.model.sizes, work.standing, width=console.width))
    return shown


@contextmanager
def _progress(console: Output, limit: int) -> Generator[tuple[Progress, TaskID]]:
    """The last line while the work goes on: turn, how full the window is, and how much was read."""
    columns = (
        TextColumn(f"turn {{task.fields[turn]}} of {len(QUESTIONS)}"),
        BarColumn(24),
        TextColumn(f"{{task.completed:,}} of {limit:,} tokens; {{task.fields[read]:,}} read"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress, progress.add_task("", total=limit, turn=1, read=0)
