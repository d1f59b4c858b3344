"""The command line `langgraph-compaction`."""

import typer

from .chat import chat
from .demo import demo
from .replay import replay

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Keeps a long conversation inside its model's window: compaction as a transaction, nothing lost.",
)


@app.callback()
def root() -> None:
    """Commands stand below; each has --help."""


app.command()(replay)
app.command()(demo)
app.command()(chat)
