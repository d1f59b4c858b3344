"""Runs the command line in tests."""

import json
from typing import Any

from typer.testing import CliRunner, Result

from langgraph_compaction.graph.cli.main import app

COLORS: dict[str, str | None] = {"FORCE_COLOR": "1", "NO_COLOR": None, "TERM": "xterm", "COLORTERM": None}
"""These environment variables make the output use the colors of a terminal with 8 colors."""


def call(*words: str, expect: int = 0, width: int = 200, colors: bool = False) -> Result:
    """Run the command line in a terminal of this width, with or without colors."""
    screen = {"COLUMNS": str(width), "TERMINAL_WIDTH": str(width), **(COLORS if colors else {})}
    result = CliRunner().invoke(app, words, env=screen)
    assert result.exit_code == expect, result.output
    return result


def lines(*words: str) -> list[dict[str, Any]]:
    """Run the command line with `--json`, and return the parsed lines."""
    return [json.loads(line) for line in call(*words, "--json").stdout.splitlines()]
