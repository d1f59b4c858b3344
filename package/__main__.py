"""The command line: `langgraph-compaction`, or `python -m langgraph_compaction`."""

import sys

from langgraph_compaction.checkpoint.extras import how_to_install

EXTRA = {"jinja2", "rich", "typer"}
"""Packages of the extra `cli`. If one is missing, the command line says how to install the extra."""


def run() -> None:
    """Run the command line; without the extra `cli`, exit with a line that says how to install it."""
    try:
        from langgraph_compaction.graph.cli.main import run as run_commands  # noqa: PLC0415 - it needs the extra
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRA:
            raise
        sys.exit(f"the command line needs {missing}: {how_to_install('cli')}")
    run_commands()


if __name__ == "__main__":
    run()
