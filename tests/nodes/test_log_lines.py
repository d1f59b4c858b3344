"""Log lines are English sentences; words of the requirements in another language stand in brackets behind."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEVELS = frozenset({"debug", "info", "warning", "error", "exception"})


def log_lines() -> Iterator[tuple[str, str]]:
    """Where each message is logged, and its text."""
    for folder in ("checkpoint", "graph", "nodes"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
                    owner = node.func.value
                    if isinstance(owner, ast.Name) and owner.id == "log" and isinstance(node.args[0], ast.Constant):
                        yield f"{file.relative_to(ROOT)}:{node.lineno}", str(node.args[0].value)


LINES = [(where, text) for where, text in log_lines() if text != "%s"]


@pytest.mark.parametrize(("where", "text"), LINES, ids=[where for where, _ in LINES])
def test_a_log_line_leads_with_english(where: str, text: str) -> None:
    """It begins as an English sentence; Chinese stands in brackets only."""
    without = re.sub(r"\([^()]*[一-鿿][^()]*\)", "()", text)
    assert re.match(r"[A-Z][a-z]* ", text), where
    assert without.isascii(), where


def test_every_logging_module_is_seen() -> None:
    """The search above finds the lines that people look for."""
    assert len(LINES) >= 15
    assert any("压缩失败，已回滚" in text for _, text in LINES)
