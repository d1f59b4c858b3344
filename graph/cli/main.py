"""The command line `langgraph-compaction`."""

import logging

import typer

from .chat import chat
from .demo import demo
from .replay import replay

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
