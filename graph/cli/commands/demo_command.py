"""`demo`: a long agent conversation in a small window, without a key or a network."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Annotated, Any, Literal
from uuid import uuid4

import typer
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from langgraph_compaction.checkpoint.db.urls import place
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.summary.summarizers import summarizer_of

from ...chat_model import environment_model
from ...lab.demo.investigation import Investigation, problems
from ...lab.demo.scripted_reader import QUESTIONS
from ..open_database import open_or_temporary, report_errors
from ..output.printing import Output, print_lines, words
from ..output.size_chart import chart
from ..output.terminal import described


def demo(
    summarizer: Annotated[
        Literal["digest", "model"],
        typer.Option(help="The summarizer: `digest` (no model), or `model` (an OpenAI model, with OPENAI_API_KEY)."),
    ] = "digest",
    db: Annotated[
        str | None, typer.Option(help="The URL of a database for the thread. Default: the thread is not stored.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with the figures.")] = False,
) -> None:
    """Run a long conversation with compactions, a failed compaction and an undo.

    A scripted model reads the files of Python's standard library with real tools, and one summary fails on purpose.
    The exit code is 1 if a check of the demo fails.
    """
    console, started = Output(quiet=as_json), perf_counter()
    with report_errors():
        chosen = summarizer_of(environment_model() if summarizer == "model" else "digest")
        with open_or_temporary(db) as saver:
            work = Investigation(saver, tiktoken_counter(), chosen, thread=f"demo-{uuid4().hex[:8]}")
            console.print(_opening(work), soft_wrap=True)
            if db and saver.database.durable:
                console.print(f"It is thread {work.thread} in {place(saver.database.engine.url)}.\n", soft_wrap=True)
            _follow(work, console)
            figures = {**work.figures(), "seconds": round(perf_counter() - started, 1)}
    failed = problems(figures)
    console.print(_page(work, figures, width=console.width), *(Text(problem, "red") for problem in failed), sep="\n")
    if as_json:
        print_lines([{**figures, "problems": failed}])
    if failed:
        raise typer.Exit(1)


def _opening(work: Investigation) -> str:
    sizes, name = work.sizes, work.summarizer.name
    how = "extracted without a model" if name == "digest" else f"by {name}"
    return (
        "The model is scripted; tools, tokens, database and compactions are real.\n"
        f"An agent reads the standard library of Python {platform.python_version()}, which is ten times as\n"
        f"long as its model's window of {sizes.window:,} tokens. A request holds at most {sizes.limit:,};\n"
        f"at {sizes.trigger:,} tokens old messages leave, and a summary takes their place\n"
        f"(here {how}). One summary is made to fail.\n"
    )


def _follow(work: Investigation, console: Output) -> None:
    """Run the demonstration: print each compaction, and show turn and size in the last line of a terminal."""
    with console.status("") as status:
        for event in work.work():
            if event is not None:
                console.print(f"turn {work.turn:>2}: {described(event)}", soft_wrap=True)
            size = f"{work.requests[-1] if work.requests else 0:,} of {work.sizes.limit:,} tokens"
            status.update(f"turn {work.turn} of {len(QUESTIONS)}: {size}; {work.tool_tokens:,} read")


def _page(work: Investigation, figures: dict[str, Any], *, width: int) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for name, value in _figures(figures):
        table.add_row(f"  {name}", value)
    return Group(
        Text(f"\nEach of the {len(work.requests)} requests, in tokens", "bold"),
        chart(work.requests, work.sizes, width),
        Text("At the end", "bold"),
        table,
        words(f"\nThe last answer: {figures['answer']}\n"),
        words(_next(), "dim"),
    )


def _next() -> str:
    command = "langgraph-compaction"
    if shutil.which(command) is None:  # in an environment that is not active: the script as it was called
        command = os.path.relpath(sys.argv[0])
    return (
        f"What to try next:\n  {command} chat\n      talk to an agent, and watch its window\n"
        f"  {command} demo --db sqlite:///demo.db\n"
        "      keep the thread, for the commands `threads`, `inspect` and `undo`\n"
        "  README.md\n      an agent of your own in ten lines"
    )


def _figures(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    tokens, over, lost = figures["tool_tokens"], figures["over_limit_requests"], figures["lost_messages"]
    yield "tool calls", f"{figures['tool_calls']} in {figures['turns']} turns"
    yield "tokens from tools", f"{tokens:,}, {tokens / figures['window']:.1f} windows"
    yield (
        "largest request",
        f"{figures['max_request_tokens']:,} of {figures['limit']:,} tokens; {over or 'none'} over",
    )
    yield "messages", f"{figures['messages_in_state']} in the state, {figures['messages_in_archive']} in the archive"
    order = "in order" if figures["in_order"] else "out of order"
    yield "messages lost", f"{lost or 'none'} of {figures['messages_said']}, {order}"
    if (rollback := figures["rollback"]) is not None:
        same, before, after = rollback["identical"], rollback["before"][:8], rollback["after"][:8]
        yield (
            "failed summary",
            f"conversation is {'identical' if same else 'DIFFERENT'} (its hash: {before} → {after})",
        )
    for fact in figures["facts"]:
        yield "said in turn 1", f"{fact['said']} {fact['where'] or 'only in the archive'}"
    sizes = f"{decimal(figures['stored_bytes'])}; {decimal(figures['unshared_bytes'])} if nothing were shared"
    yield "checkpoints", f"{figures['checkpoints']} read back, in {sizes}"
    undone = figures["undone"]
    back = f"{undone['originals'] - undone['missing']} of {undone['originals']} originals back unchanged"
    yield "last one undone", f"{undone['messages_before']} → {undone['messages_after']} messages in view; {back}"
    yield "time", f"{figures['seconds']} s"
