"""The command line `langgraph-compaction`."""

import logging
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

import langgraph_compaction

from ..control_characters import visible


class Listed(NamedTuple):
    """A command as the help lists it, which imports none of the commands."""

    panel: str
    summary: str
    """The first paragraph of the docstring of the command's function."""
    module: str = ""
    """The file with the function; empty if it has the name of the command."""


_TRY, _LOOK, _CHANGE = "Try it", "Look at the threads in a database (--db URL)", "Change, delete or copy threads"

COMMANDS = {
    "demo": Listed(_TRY, "Run a long conversation with compactions, a failed compaction and an undo."),
    "chat": Listed(_TRY, "Chat with an agent, and see how many tokens of its context window are used."),
    "presets": Listed(_TRY, "List the presets, or print one preset as YAML with all settings."),
    "replay": Listed(_TRY, "Run a recorded conversation through the agent's graph, turn by turn."),
    "evaluate": Listed(_TRY, "Measure, without a model, which facts of recorded conversations each preset keeps."),
    "threads": Listed(_LOOK, "List the threads, or the checkpoints of one thread, the newest first."),
    "inspect": Listed(
        _LOOK, "Write an HTML report of a thread: request sizes, compactions and all messages.", "inspect_thread"
    ),
    "history": Listed(_LOOK, "List the attempts at a compaction of a thread, the oldest first."),
    "show": Listed(_LOOK, "Show what an attempt at a compaction did, or what a compaction would do now."),
    "transcript": Listed(_LOOK, "Print all messages of a conversation, also those that the model does not see."),
    "recall": Listed(_LOOK, "Search the messages that compactions removed or shortened."),
    "undo": Listed(_CHANGE, "Undo a compaction and all later ones: the model sees the messages again."),
    "forget": Listed(_CHANGE, "Erase all data of a thread, or of all threads with a prefix or with metadata."),
    "prune": Listed(_CHANGE, "Erase old checkpoints, and the messages that only these checkpoints use."),
    "import-checkpoints": Listed(
        _CHANGE,
        "Copy the threads of a SqliteSaver or PostgresSaver, and compare each copied state.",
        "import_checkpoints",
    ),
    "export-checkpoints": Listed(
        _CHANGE,
        "Copy threads to a SqliteSaver or PostgresSaver, and compare each copied state.",
        "export_checkpoints",
    ),
}
"""The commands in the order of the help."""

CONTEXT = {"help_option_names": ["-h", "--help"]}
_LISTING = f"{__name__}.listing"
"""Key in a context's `meta` while the help lists the commands, which needs none of their modules."""


class Commands(TyperGroup):
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
        module = import_module(f"{__package__}.{listed.module or cmd_name}")
        alone = typer.Typer(add_completion=False, context_settings=CONTEXT)
        alone.command(cmd_name, rich_help_panel=listed.panel)(getattr(module, listed.module or cmd_name))
        command = typer.main.get_command(alone)
        # typer would break the paragraphs where the source does
        command.help = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
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

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the arguments."""
        with _printable_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name."""
        with _printable_errors():
            return super().invoke(ctx)


@contextmanager
def _printable_errors() -> Generator[None]:
    """Print an error of this package as one red line, and exit; usage errors repeat arguments as `visible` text."""
    try:
        yield
    except Exception as error:
        if (formatted := getattr(error, "format_message", None)) is not None:  # raised by click or by typer
            text = visible(formatted())
            error.format_message = lambda: text  # type: ignore[attr-defined] # both libraries have it
        elif type(error).__module__.startswith("langgraph_compaction."):
            _exit(error)
        raise


def _exit(error: Exception) -> None:
    """Print an error of this package, and exit; do nothing for another error."""
    from langgraph_compaction.checkpoint import CheckpointError  # noqa: PLC0415 - slow, and not for the help
    from langgraph_compaction.nodes import CompactionError  # noqa: PLC0415 - the same

    from .options import exit_code  # noqa: PLC0415 - the same
    from .output import complain  # noqa: PLC0415 - the same

    if isinstance(error, CompactionError | CheckpointError):
        complain(str(error))
        raise typer.Exit(exit_code(error)) from error


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    context_settings=CONTEXT,
    help="Compact long LangGraph conversations, and look at, undo and measure compactions.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"langgraph-compaction {langgraph_compaction.__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Every command has --help."""
    # the commands themselves print each compaction that was rolled back
    logging.getLogger("langgraph_compaction").addHandler(logging.NullHandler())


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def run(application: typer.Typer = app) -> None:
    """Run the command line; logs and warnings of libraries, and unexpected errors, are printed as `visible` text."""
    logging.captureWarnings(capture=True)
    # `lastResort` is Python's handler for log records that no other handler takes; it writes to stderr
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Visible())
    try:
        application()
    except Exception:  # noqa: BLE001 - printed with its traceback, as Python would
        sys.stderr.write(visible(traceback.format_exc()))
        sys.exit(1)
