"""Runs the command line in tests."""

import json
from typing import Any

from typer.testing import CliRunner, Result

from langgraph_compaction.graph.cli.main import app


def call(*words: str, expect: int = 0) -> Result:
    """Run the command line."""
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
    assert result.exit_code == expect, result.output
    return result


def lines(*words: str) -> list[dict[str, Any]]:
    """Run the command line with `--json`, and return the parsed lines."""
    return [json.loads(line) for line in call(*words, "--json").stdout.splitlines()]
