"""`inspect`: a report of one thread, as an HTML file, as JSON, or served while the thread goes on."""

from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.patterns import Pattern
from langgraph_compaction.nodes import SettingsError
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, approximate_counter, tiktoken_counter

from ...inspector.page import page
from ...inspector.report import Report, report_of
from ...inspector.serving import HOST, Server
from ...inspector.thread_data import ThreadData, read, stamp
from ..find_compaction import is_compaction
from ..open_database import open_existing
from ..output.printing import Output, print_lines, words
from .threads_command import Db, Thread

_UNSAFE = Pattern(r"[^0-9A-Za-z_.-]+")

JsonInstead = Annotated[
    bool, typer.Option("--json", help="Print the data of the report as JSON, instead of writing a file.")
]


def inspect(
    thread: Thread,
    *,
    db: Db,
    out: Annotated[Path | None, typer.Option(help="The file to write. Default: THREAD.html.")] = None,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Serve the report on this machine and update it, instead of writing a file."),
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port for --serve. 0 means any free port.")] = 8321,
    as_json: JsonInstead = False,
) -> None:
    """Write an HTML report of a thread: request sizes, compactions and all messages.

    The report is one file that needs no network. The thread is not changed.
    """
    with open_existing(db, thread) as saver:
        if as_json:
            print_lines([_report(saver, thread)])
        elif serve:
            _serve(saver, thread, port)
        else:
            _write(_report(saver, thread), out or Path(file_name(thread)))


def file_name(thread: str) -> str:
    """Return a safe file name for a thread's id."""
    return f"{_UNSAFE.sub('_', thread).lstrip('.')[:100] or 'thread'}.html"


def _report(saver: SQLAlchemySaver, thread: str) -> Report:
    # before the data: if the thread changes in between, the next poll sees another stamp and loads the data again
    known = stamp(saver, thread)
    data = read(saver, thread)
    return report_of(data, _counter(data), stamp=known)


def _counter(data: ThreadData) -> TokenCounter:
    """Return the token counter for the report, which should count as the thread's graph did.

    It is the approximate counter if every ledger row of the thread names this counter, else tiktoken's counter.
    """
    approximate = approximate_counter()
    return approximate if {row.counter for row in data.attempts} == {approximate.name} else tiktoken_counter()


def _write(report: Report, out: Path) -> None:
    text = page(report)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"the page cannot be written to {out}: {error.strerror}; name another place by --out"
        ) from error
    rows = [attempt["row"] for attempt in report["attempts"]]
    compactions = sum(is_compaction(row["trigger"], row["verdict"]) for row in rows)
    counts = f"requests: {len(report['requests'])}, compactions: {compactions}"
    told = f"{out}, {decimal(out.stat().st_size)} ({counts})"
    Output().print(words(told), soft_wrap=True)


def _serve(saver: SQLAlchemySaver, thread: str, port: int) -> None:
    try:
        serving = Server(lambda: _report(saver, thread), lambda: stamp(saver, thread), port)
    except OSError as error:
        raise SettingsError(f"port {port} cannot be used: {error.strerror}; choose another by --port") from error
    with serving:
        told = f"http://{HOST}:{serving.server_port}/ follows {thread}; Ctrl-C ends it"
        Output().print(words(told), soft_wrap=True)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            Output().print("ended")
