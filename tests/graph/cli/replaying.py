"""Runs `replay` in tests, and builds conversations for it."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from langgraph_compaction.graph.cli.main import app

FIGURES = {"invalid_requests": 0, "over_window_requests": 0, "refused_turns": 0, "lost_messages": 0}
READ = {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}}
SYSTEM = {"role": "system", "content": "You read files and tell what stands there."}


def run(*args: object, width: int = 100, env: dict[str, str | None] | None = None) -> Result:
    """Run the command, with stdout and stderr separate."""
    screen = {"COLUMNS": str(width), "TERMINAL_WIDTH": str(width)}
    return CliRunner().invoke(app, ["replay", *map(str, args)], env={**screen, **(env or {})})


def one_line(result: Result) -> str:
    """Return the error on stderr, which must be one line without a traceback."""
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    return line


def rounds(count: int, words: int = 60) -> list[dict[str, Any]]:
    """Return a system message, and rounds of a user message, a tool call, its result and an answer."""
    return [SYSTEM, *(message for number in range(count) for message in _round(number, words))]


def _round(number: int, words: int) -> list[dict[str, Any]]:
    function = {"name": "read", "arguments": f'{{"path": "file-{number}.txt"}}'}
    found = " ".join(f"word-{number}-{word}" for word in range(words))
    return [
        {"role": "user", "content": f"What stands in file-{number}.txt?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": found},
        {"role": "assistant", "content": f"It holds {words} words, the first is word-{number}-0."},
    ]


def written(path: Path, value: Any) -> Path:
    """Write a value as JSON."""
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def replayed(*args: object) -> list[dict[str, Any]]:
    """Return the lines of `--json`, the only output; the command must succeed."""
    result = run(*args, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]
