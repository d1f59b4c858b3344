"""`inspect`: a report of one thread, as an HTML file, as JSON, or served while the thread goes on."""

from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.patterns import Pattern
from langgraph_compaction.nodes import SettingsError

from ..inspector.page import page
from ..inspector.report import read_report
from ..inspector.serving import HOST, Server
from ..inspector.thread_data import stamp
from .options import Db, Thread, is_compaction, open_existing
from .output import print_json, print_line

_UNSAFE = Pattern(r"[^0-9A-Za-z_.-]+")


def inspect_thread(
    thread: Thread,
    *,
    db: Db,
    out: Annotated[Path | None, typer.Option(help="The file to write. Default: THREAD.html.")] = None,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Serve the report on this machine and update it, instead of writing a file."),
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port for --serve. 0 means any free port.")] = 8321,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the data of the report as JSON, instead of writing a file.")
    ] = False,
) -> None:
    """Write an HTML report of a thread: request sizes, compactions and all messages.

    The report is one file that needs no network. The thread is not changed.
    """
    with open_existing(db, thread) as saver:
        if as_json:
            print_json([read_report(saver, thread)])
        elif serve:
            _serve(saver, thread, port)
        else:
            print_line(write_report(saver, thread, out or Path(file_name(thread))))


def file_name(thread: str) -> str:
    """Return a safe file name for a thread's id."""
    return f"{_UNSAFE.sub('_', thread).lstrip('.')[:100] or 'thread'}.html"


def write_report(saver: SQLAlchemySaver, thread: str, out: Path) -> str:
    """Write the report of a thread to a file; return a line with its path, or raise `SettingsError`."""
    report = read_report(saver, thread)
    text = page(report)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"the page cannot be written to {out}: {error.strerror}; name another place by --out"
        ) from error
    compactions = sum(
        is_compaction(attempt["row"]["trigger"], attempt["row"]["verdict"]) for attempt in report["attempts"]
    )
    return f"{out}, {decimal(out.stat().st_size)} (requests: {len(report['requests'])}, compactions: {compactions})"


def _serve(saver: SQLAlchemySaver, thread: str, port: int) -> None:
    try:
        serving = Server(lambda: read_report(saver, thread), lambda: stamp(saver, thread), port)
    except OSError as error:
        raise SettingsError(f"port {port} cannot be used: {error.strerror}; choose another by --port") from error
    with serving:
        print_line(f"http://{HOST}:{serving.server_port}/ follows {thread}; Ctrl-C ends it")
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            print_line("ended")
