"""`inspect`: a report of one thread, as an HTML file, as JSON, or served while the thread goes on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import COMMITTED
from langgraph_compaction.checkpoint.patterns import Pattern
from langgraph_compaction.nodes import CompactionError, SettingsError, ThreadBusyError

from ..exclusive_runs import stored_turn
from ..inspector.page import page
from ..inspector.report import read_report
from ..inspector.serving import HOST, Edit, Server
from ..inspector.thread_data import stamp
from ..offline_edit import pin_stored, unpin_stored
from .options import Db, open_existing
from .output import print_json, print_line
from .threads import threads
from .undo import redo_thread, release_thread, undo_thread

_UNSAFE = Pattern(r"[^0-9A-Za-z_.-]+")


def inspect_thread(
    thread: Annotated[
        str | None,
        typer.Argument(metavar="[THREAD]", help="The id of the thread. Without it, the threads are listed."),
    ] = None,
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

    The report is one file that needs no network. Nothing changes the thread but the buttons of a page of --serve.
    """
    if thread is None:
        if serve or out is not None:
            raise SettingsError("name the thread of the report: `threads` lists them")
        threads(db=db, as_json=as_json)
        return
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
    compactions = sum(attempt["row"]["verdict"] in COMMITTED for attempt in report["attempts"])
    return f"{out}, {decimal(out.stat().st_size)} (requests: {len(report['requests'])}, compactions: {compactions})"


def edits_of(saver: SQLAlchemySaver, thread: str) -> dict[str, Edit]:
    """Return what the page may change: the thread, while no run works on it."""
    leases = CompactionRecords(saver.database).run_leases

    def alone(change: Edit) -> Edit:
        def edit(given: Mapping[str, Any]) -> str:
            try:
                with stored_turn(leases, thread, 0, "--serve"):
                    return change(given)
            except ThreadBusyError as error:
                raise CompactionError(
                    "a run works on this thread: nothing was changed, try it when it is over"
                ) from error

        return edit

    def pin(given: Mapping[str, Any]) -> str:
        pin_stored(saver, thread, str(given.get("message")))
        return "The message is pinned: it stays word for word in every request."

    def unpin(given: Mapping[str, Any]) -> str:
        unpin_stored(saver, thread, str(given.get("message")))
        return "The message is no longer pinned."

    def undo(given: Mapping[str, Any]) -> str:
        return undo_thread(saver, thread, str(given.get("compaction", "last")), force=given.get("force") is True)[1]

    return {
        "undo": alone(undo),
        "redo": alone(lambda _: redo_thread(saver, thread)[1]),
        "release": alone(lambda _: release_thread(saver, thread)[1]),
        "pin": alone(pin),
        "unpin": alone(unpin),
    }


def _serve(saver: SQLAlchemySaver, thread: str, port: int) -> None:
    try:
        serving = Server(
            lambda: read_report(saver, thread), lambda: stamp(saver, thread), port, edits_of(saver, thread)
        )
    except OSError as error:
        raise SettingsError(f"port {port} cannot be used: {error.strerror}; choose another by --port") from error
    with serving:
        print_line(f"http://{HOST}:{serving.server_port}/ follows {thread}; Ctrl-C ends it")
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            print_line("ended")
