"""The command line: `langgraph-compaction`, or `python -m langgraph_compaction`."""

import sys
from importlib.util import find_spec

from langgraph_compaction.checkpoint.extras import how_to_install


def run() -> None:
    """Run the command line; without the extra `cli`, exit with a line that says how to install it."""
    for name in ("rich", "typer"):
        if find_spec(name) is None:
            sys.exit(f"the command line needs {name}: {how_to_install('cli')}")
    from langgraph_compaction.graph.cli.main import run as run_commands  # noqa: PLC0415 - it needs the extra

    run_commands()


if __name__ == "__main__":
    run()
