"""The command line `langgraph-compaction`."""

import logging
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

import langgraph_compaction

from .output.printing import Group, print_text
from .output.printing import run as run_app


class Listed(NamedTuple):
    """A command as the help lists it."""

    module: str
    """The file below `commands/` that holds the command's function."""
    function: str
    panel: str
    summary: str
    """The first paragraph of the function's docstring."""


_TRY, _LOOK = "Try it", "Look at what a database keeps (--db URL)"
_COMPACTIONS, _TIDY = "Undo, or try out, a compaction", "Tidy up a database"

COMMANDS = {
    "demo": Listed(
        "demo_command",
        "demo",
        _TRY,
        "Watch a long agent conversation stay inside its window: compacted, failed safely, nothing lost.",
    ),
    "chat": Listed("chat_command", "chat", _TRY, "Talk to an agent in the terminal, and watch its window."),
    "replay": Listed(
        "replay_command", "replay", _TRY, "Run a recorded conversation through the real graph, turn by turn."
    ),
    "presets": Listed(
        "presets_command",
        "presets",
        _TRY,
        "List the presets, or print one as YAML with every setting and what it means.",
    ),
    "evaluate": Listed(
        "evaluate_command",
        "evaluate",
        _TRY,
        "Measure without a model how much presets and strategies keep of real conversations.",
    ),
    "threads": Listed("threads_command", "threads", _LOOK, "List the threads, the one written to last first."),
    "inspect": Listed(
        "inspect_command",
        "inspect",
        _LOOK,
        "Write a report of a thread: its sizes turn by turn, what each compaction did, and all that was said.",
    ),
    "history": Listed(
        "threads_command",
        "history",
        _LOOK,
        "List a thread's compactions, the oldest first, with the verdict of each.",
    ),
    "show": Listed(
        "show_command",
        "show",
        _LOOK,
        "Show one compaction: its figures, its summary, and the messages that left or were shortened.",
    ),
    "diff": Listed(
        "show_command",
        "diff",
        _LOOK,
        "Compare the conversation a compaction began with and the one in view now, line by line.",
    ),
    "transcript": Listed(
        "show_command",
        "transcript",
        _LOOK,
        "Print the whole conversation in order: the messages in view and those that compactions archived.",
    ),
    "recall": Listed(
        "recall_command",
        "recall",
        _LOOK,
        "Find messages that compactions took out of a thread's view, in their original words.",
    ),
    "checkpoints": Listed("threads_command", "checkpoints", _LOOK, "List a thread's checkpoints, the newest first."),
    "stats": Listed(
        "threads_command",
        "stats",
        _LOOK,
        "Show the bytes a thread takes, by kind, and the size of its messages if each checkpoint had its own copies.",
    ),
    "preview": Listed(
        "preview_command",
        "preview",
        _COMPACTIONS,
        "Show what a compaction of a thread would do now, without doing it.",
    ),
    "undo": Listed(
        "undo_command",
        "undo",
        _COMPACTIONS,
        "Undo a compaction and all that were built on it: the messages that they replaced return.",
    ),
    "release": Listed(
        "undo_command",
        "release",
        _COMPACTIONS,
        "Allow automatic compactions of a thread again, after an `undo`.",
    ),
    "branch": Listed(
        "undo_command",
        "branch",
        _COMPACTIONS,
        "Create a new thread with the messages that a compaction began with. The thread itself is not changed.",
    ),
    "forget": Listed(
        "undo_command",
        "forget",
        _TIDY,
        "Erase a thread everywhere: checkpoints, messages, snapshots, summaries, ledger and archive.",
    ),
    "prune": Listed(
        "prune_command",
        "prune",
        _TIDY,
        "Erase old checkpoints of threads, and the messages that nothing else holds.",
    ),
    "import-checkpoints": Listed(
        "import_command",
        "import_command",
        _TIDY,
        "Carry the threads of a SqliteSaver or PostgresSaver over, and verify them state by state.",
    ),
}
"""The commands in the order of the help."""

_LISTING = f"{__name__}.listing"
"""Key in a context's `meta` while the help lists the commands, which needs none of their modules."""


class Commands(Group):
    """The commands, each of which is imported when it is run or when its own help is printed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {
            name: TyperCommand(name, help=listed.summary, rich_help_panel=listed.panel)
            for name, listed in COMMANDS.items()
        }

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, without options while the help lists it; return `None` if there is no such command."""
        if ctx.meta.get(_LISTING) or (listed := COMMANDS.get(cmd_name)) is None:
            return self.commands.get(cmd_name)
        module = import_module(f"{__package__}.commands.{listed.module}")
        alone = typer.Typer(add_completion=False, context_settings=CONTEXT)
        alone.command(cmd_name, rich_help_panel=listed.panel)(getattr(module, listed.function))
        command = typer.main.get_command(alone)
        command.epilog = " ".join(
            f"{option.opts[0]} defaults to the variable {option.envvar}."
            for option in command.params
            if option.envvar
        )
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with one line for each command."""
        ctx.meta[_LISTING] = True
        super().format_help(ctx, formatter)


CONTEXT = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    context_settings=CONTEXT,
    help="Keeps a long conversation inside its model's window: compaction as a transaction, nothing lost.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_text(f"langgraph-compaction {langgraph_compaction.__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Every command has --help."""
    logging.getLogger("langgraph_compaction").addHandler(
        logging.NullHandler()
    )  # the commands themselves print each compaction that was rolled back


def run() -> None:
    """Run the command line, as the script `langgraph-compaction` does."""
    run_app(app)
