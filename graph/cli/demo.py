"""`demo`: a long agent conversation in a small window, without a key or a network."""

import platform
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any
from uuid import uuid4

import typer
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from langgraph_compaction.checkpoint.db.urls import place
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter

from ..lab.demo.investigation import Investigation, problems
from ..lab.demo.questions import QUESTIONS
from .chat_screens import describe
from .inspect_thread import write_report
from .options import open_or_temporary, url_of
from .output import Output, print_json, words
from .size_chart import chart, print_window

_NEXT = """
What to try next:
  langgraph-compaction chat
      talk to an agent, and watch its window
"""
_KEEP = """  langgraph-compaction demo --db sqlite:///demo.db
      keep the thread, for the commands `history`, `show`, `undo` and `inspect`"""
_KEPT = """  langgraph-compaction inspect {thread} --db {url}
      a report of the thread; `history`, `show` and `undo` take the same arguments"""


def demo(
    db: Annotated[
        str | None, typer.Option(help="The URL of a database for the thread. Default: the thread is not stored.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the report of `inspect` about the thread to this HTML file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with the figures.")] = False,
) -> None:
    """Run a long conversation with compactions, a failed compaction and an undo.

    A scripted model reads the files of Python's standard library with real tools, and one summary fails on purpose.
    The exit code is 1 if a check of the demo fails.
    """
    console, started = Output(quiet=as_json), perf_counter()
    with open_or_temporary(db) as saver:
        work = Investigation(saver, tiktoken_counter(), thread=f"demo-{uuid4().hex[:8]}")
        console.print(_opening(work), soft_wrap=True)
        kept = db is not None and saver.database.durable
        if kept:
            console.print(f"It is thread {work.thread} in {place(saver.database.engine.url)}.\n", soft_wrap=True)
        with console.status("") as status:
            for event in work.work():
                console.print(f"turn {work.turn:>2}: {describe(event)}", soft_wrap=True)
                status.update(f"turn {work.turn} of {len(QUESTIONS)}")
        figures = {**work.figures(), "seconds": round(perf_counter() - started, 1)}
        usages = work.usages
        report = write_report(saver, work.thread, out) if out else None
        url = url_of(saver)
    failed = problems(figures)
    table = Table.grid(padding=(0, 2))
    for name, value in _figures(figures):
        table.add_row(f"  {name}", value)
    console.print(Text(f"\nEach of the {len(work.requests)} requests, in tokens", "bold"))
    console.print(chart(work.requests, work.sizes, console.width))
    console.print(Text("The window before and after the last compaction, in tokens", "bold"))
    print_window(console, usages)
    console.print(Text("\nAt the end", "bold"), table, sep="\n")
    console.print(words(f"\nThe last answer: {figures['answer']}\n"))
    console.print(
        words(_NEXT + (_KEPT.format(thread=work.thread, url=url) if kept else _KEEP), "dim"), soft_wrap=True
    )
    if report:
        console.print(words(f"\nOpen the report in a browser: {report}"), soft_wrap=True)
    for problem in failed:
        console.print(problem, style="red")
    if as_json:
        print_json([{**figures, "problems": failed}])
    if failed:
        raise typer.Exit(1)


def _opening(work: Investigation) -> str:
    sizes = work.sizes
    return (
        "The model is scripted; tools, tokens, database and compactions are real.\n"
        f"An agent reads the standard library of Python {platform.python_version()}, which is ten times as\n"
        f"long as its model's window of {sizes.window:,} tokens. A request holds at most {sizes.limit:,};\n"
        f"at {sizes.trigger:,} tokens old messages leave, and a summary takes their place\n"
        "(here extracted without a model). One summary is made to fail.\n"
    )


def _figures(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    tokens, over, lost = figures["tool_tokens"], figures["over_limit_requests"], figures["lost_messages"]
    yield "tool calls", f"{figures['tool_calls']} in {figures['turns']} turns"
    yield "tokens from tools", f"{tokens:,}, {tokens / figures['window']:.1f} windows"
    largest = f"{figures['max_request_tokens']:,} of {figures['limit']:,} tokens"
    yield "largest request", f"{largest}; {over or 'none'} over"
    order = "in order" if figures["in_order"] else "out of order"
    yield "messages", f"{figures['messages_said']} said, {figures['messages_in_view']} in view"
    yield "messages lost", f"{lost or 'none'}, {order}"
    if figures["rollback"] is not None:
        yield "failed summary", f"conversation is {'identical' if figures['rollback'] else 'DIFFERENT'}"
    yield "database", f"{figures['checkpoints']} checkpoints in {decimal(figures['stored_bytes'])}"
    undone = figures["undone"]
    back = f"{undone['originals'] - undone['missing']} of {undone['originals']} originals back unchanged"
    yield "last one undone", f"{undone['messages_before']} → {undone['messages_after']} messages in view; {back}"
    yield "time", f"{figures['seconds']} s"
