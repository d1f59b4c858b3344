"""The command line `langgraph-compaction`."""

import logging

import typer

from .commands.chat_command import chat
from .commands.demo_command import demo
from .commands.evaluate_command import evaluate
from .commands.import_command import import_command
from .commands.inspect_command import inspect
from .commands.presets_command import presets
from .commands.preview_command import preview
from .commands.prune_command import prune
from .commands.recall_command import recall
from .commands.replay_command import replay
from .commands.show_command import diff, show, transcript
from .commands.threads_command import checkpoints, history, stats, threads
from .commands.undo_command import branch, forget, release, undo
from .output.printing import Group
from .output.printing import run as run_app

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Keeps a long conversation inside its model's window: compaction as a transaction, nothing lost.",
)


@app.callback()
def root() -> None:
    """Every command has --help."""
    logging.getLogger("langgraph_compaction").addHandler(
        logging.NullHandler()
    )  # the commands themselves print each compaction that was rolled back


_TRY, _LOOK = "Try it", "Look at what a database keeps (--db URL)"
_COMPACTIONS, _TIDY = "Undo, or try out, a compaction", "Tidy up a database"

app.command(rich_help_panel=_TRY)(demo)
app.command(rich_help_panel=_TRY)(chat)
app.command(rich_help_panel=_TRY)(replay)
app.command(rich_help_panel=_TRY)(presets)
app.command(rich_help_panel=_TRY)(evaluate)
app.command(rich_help_panel=_LOOK)(threads)
app.command(rich_help_panel=_LOOK)(inspect)
app.command(rich_help_panel=_LOOK)(history)
app.command(rich_help_panel=_LOOK)(show)
app.command(rich_help_panel=_LOOK)(diff)
app.command(rich_help_panel=_LOOK)(transcript)
app.command(rich_help_panel=_LOOK)(recall)
app.command(rich_help_panel=_LOOK)(checkpoints)
app.command(rich_help_panel=_LOOK)(stats)
app.command(rich_help_panel=_COMPACTIONS)(preview)
app.command(rich_help_panel=_COMPACTIONS)(undo)
app.command(rich_help_panel=_COMPACTIONS)(release)
app.command(rich_help_panel=_COMPACTIONS)(branch)
app.command(rich_help_panel=_TIDY)(forget)
app.command(rich_help_panel=_TIDY)(prune)
app.command("import-checkpoints", rich_help_panel=_TIDY)(import_command)


def run() -> None:
    """Run the command line, as the script `langgraph-compaction` does."""
    run_app(app)
