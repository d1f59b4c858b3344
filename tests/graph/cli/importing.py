"""Runs `import-checkpoints` in tests."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.testing import CliRunner, Result

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph.cli.main import app
from tests.graph.cli.foreign import OFFICIAL, Saver


def run(source: str, target: str, *more: str) -> Result:
    """Run the command, with stdout and stderr separate."""
    return CliRunner().invoke(app, ["import-checkpoints", "--from", source, "--to", target, *more])


def imported(source: str, target: str, *more: str, code: int = 0) -> dict[str, Any]:
    """Return the figures of `--json`, the only output."""
    result = run(source, target, *more, "--json")
    assert (result.exit_code, result.stderr) == (code, "")
    return json.loads(result.stdout)


def refused(source: str, target: str, *more: str, code: int = 2) -> str:
    """Return the error, which is one line without a traceback."""
    result = run(source, target, *more)
    assert (result.exit_code, type(result.exception)) == (code, SystemExit)
    (line,) = result.stderr.splitlines()
    return line


def told_in_list(source: str, target: str) -> str:
    """Return the one line about a failure; the figures are on stdout."""
    result = run(source, target)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    return line


@contextmanager
def both(source: str, target: str) -> Iterator[tuple[Saver, Saver]]:
    """Open both databases with their savers."""
    kind = "sqlite" if source.startswith("sqlite") else "postgresql"
    with OFFICIAL[kind](source) as before, SQLAlchemySaver.from_url(target) as after:
        yield before, after
