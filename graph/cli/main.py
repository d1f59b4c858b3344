"""The command line `langgraph-compaction`."""

import logging

import typer

from .chat import chat
from .demo import demo
from .import_command import import_command
from .presets_command import presets
from .prune_command import prune
from .replay import replay
from .show_command import diff, show, transcript
from .stored import checkpoints, history, stats, threads
from .undo_command import branch, forget, release, undo

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Keeps a long conversation inside its model's window: compaction as a transaction, nothing lost.",
)


@app.callback()
def root() -> None:
    """Commands stand below; each has --help."""
    logging.getLogger("langgraph_compaction").addHandler(logging.NullHandler())  # the pages tell of rollbacks


app.command()(replay)
app.command()(demo)
app.command()(chat)
app.command()(presets)
app.command()(threads)
app.command()(checkpoints)
app.command()(history)
app.command()(stats)
app.command()(show)
app.command()(diff)
app.command()(transcript)
app.command()(undo)
app.command()(release)
app.command()(branch)
app.command()(forget)
app.command()(prune)
app.command("import-checkpoints")(import_command)
