"""The command line as a whole: its help, its version, and what its help imports."""

import inspect
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer

from langgraph_compaction.graph.cli.main import COMMANDS, app
from tests.graph.cli.commanding import call

ROOT = typer.main.get_command(app)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_lists_a_command_with_the_first_sentences_of_its_own_help(name: str) -> None:
    """The list is written by hand, so that it can be printed without importing the commands."""
    command = ROOT.get_command(typer.Context(ROOT), name)
    assert command.name == name
    assert " ".join(command.help.partition("\n\n")[0].split()) == COMMANDS[name].summary


@pytest.mark.parametrize("name", COMMANDS)
def test_a_paragraph_of_the_help_is_broken_only_by_the_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one of any width, a paragraph is one line."""
    monkeypatch.setattr(
        "typer.rich_utils.MAX_WIDTH", 2_000
    )  # read when the module is loaded, maybe by an earlier test
    command = ROOT.get_command(typer.Context(ROOT), name)
    shown = [line.strip() for line in call(name, "--help", width=2_000).stdout.splitlines()]
    assert {" ".join(part.split()) for part in inspect.cleandoc(command.callback.__doc__).split("\n\n")} <= {*shown}


def test_the_help_imports_neither_langgraph_nor_sqlalchemy() -> None:
    """It is printed in a fraction of the time that these imports take."""
    code = (
        "import sys; from langgraph_compaction.graph.cli.main import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: print({'langgraph', 'langchain_core', 'sqlalchemy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "import-checkpoints" in done.stdout
    assert done.stdout.splitlines()[-1] == "set()"


def test_version() -> None:
    """The installed version, and nothing else."""
    assert call("--version").stdout == f"langgraph-compaction {version('langgraph-compaction')}\n"


def test_a_misspelt_command_is_named_with_the_nearest_one() -> None:
    """A usage error, which exits with 2."""
    assert "Did you mean 'history'?" in call("histroy", expect=2).output
