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


_TRY, _LOOK = "Try it", "Look at the threads in a database (--db URL)"
_COMPACTIONS, _TIDY = "Preview, undo or branch a compaction", "Delete or import threads"

COMMANDS = {
    "demo": Listed(
        "demo_command",
        "demo",
        _TRY,
        "Run a long conversation with compactions, a failed compaction and an undo.",
    ),
    "chat": Listed(
        "chat_command", "chat", _TRY, "Chat with an agent, and see how many tokens of its context window are used."
    ),
    "replay": Listed(
        "replay_command", "replay", _TRY, "Run a recorded conversation through the agent's graph, turn by turn."
    ),
    "presets": Listed(
        "presets_command",
        "presets",
        _TRY,
        "List the presets, or print one preset as YAML with all settings.",
    ),
    "evaluate": Listed(
        "evaluate_command",
        "evaluate",
        _TRY,
        "Measure, without a model, which facts of recorded conversations each preset keeps.",
    ),
    "threads": Listed(
        "threads_command", "threads", _LOOK, "List the threads, the most recently changed thread first."
    ),
    "inspect": Listed(
        "inspect_command",
        "inspect",
        _LOOK,
        "Write an HTML report of a thread: request sizes, compactions and all messages.",
    ),
    "history": Listed(
        "threads_command",
        "history",
        _LOOK,
        "List the attempts at a compaction of a thread, the oldest first.",
    ),
    "show": Listed(
        "show_command",
        "show",
        _LOOK,
        "Show one attempt: sizes, summary, and the removed and shortened messages.",
    ),
    "diff": Listed(
        "show_command",
        "diff",
        _LOOK,
        "Show a diff of the messages before a compaction and the messages now.",
    ),
    "transcript": Listed(
        "show_command",
        "transcript",
        _LOOK,
        "Print all messages of a conversation in order, also the removed messages.",
    ),
    "recall": Listed(
        "recall_command",
        "recall",
        _LOOK,
        "Search the messages that compactions removed or shortened.",
    ),
    "checkpoints": Listed("threads_command", "checkpoints", _LOOK, "List a thread's checkpoints, the newest first."),
    "stats": Listed(
        "threads_command",
        "stats",
        _LOOK,
        "Show the size of the stored data by kind, in bytes.",
    ),
    "preview": Listed(
        "preview_command",
        "preview",
        _COMPACTIONS,
        "Show what a compaction would do now, and change nothing.",
    ),
    "undo": Listed(
        "undo_command",
        "undo",
        _COMPACTIONS,
        "Undo a compaction and all later compactions, and restore the removed messages.",
    ),
    "release": Listed(
        "undo_command",
        "release",
        _COMPACTIONS,
        "Allow automatic compactions of a thread again, after an undo.",
    ),
    "branch": Listed(
        "undo_command",
        "branch",
        _COMPACTIONS,
        "Start a new thread from the messages before a compaction.",
    ),
    "forget": Listed(
        "undo_command",
        "forget",
        _TIDY,
        "Erase all data of a thread.",
    ),
    "prune": Listed(
        "prune_command",
        "prune",
        _TIDY,
        "Erase old checkpoints, and the messages that only these checkpoints use.",
    ),
    "import-checkpoints": Listed(
        "import_command",
        "import_command",
        _TIDY,
        "Copy the threads of a SqliteSaver or PostgresSaver, and compare each copied state.",
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
    help="Compact long LangGraph conversations, and look at, undo and measure compactions.",
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
