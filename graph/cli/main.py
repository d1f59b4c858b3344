"""The command line `langgraph-compaction`."""

import logging

import typer

from .chat import chat
from .demo import demo
from .import_command import import_command
from .prune_command import prune
from .replay import replay
from .stored import checkpoints, history, stats, threads

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
app.command()(threads)
app.command()(checkpoints)
app.command()(history)
app.command()(stats)
app.command()(prune)
app.command("import-checkpoints")(import_command)
