"""docs/requirements.md: each numbered line of the five documents, and the acceptance tests that hold it."""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "requirements.md"
LINES = Path(__file__).with_name("lines.toml")
"""By document and number, the text of each line."""

DOCUMENTS = {
    "S0": "selective compaction and a summary in one transaction (`selective`)",
    "S1": "typed rules by priority, a summary as a fallback (`typed_rules`)",
    "S2": "progressive strategies, key information always kept (`progressive`)",
    "S3": "three layers of defense (`layered_defence`)",
    "S4": "recent rounds, confirmation, configuration (`recent_rounds`)",
}

HEAD = """\
# Requirements

This package combines five systems that compact conversations, S0 to S4, each described in a document of its own. A
*requirement* is a numbered line of such a document. The column *held by* names the tests in `tests/acceptance` with
the mark `requirement` and the number of the line, or says why the line requires nothing.

What the documents call the events of a session or the items of a conversation is here what the model is given. The
conversation itself, the state's `messages`, stays as it was said.

These tests use the chat models of OpenAI and Anthropic, with windows of 128,000 and 200,000 tokens (80,000 where the
document sets that). The models return scripted answers; for each provider, one test sends its requests over HTTP to
a local server. Settings are the defaults of the preset, and the agent's own model writes the summaries.

`python -m tests.write_pages` writes this page."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the requirements."""

    name: str
    what: str
    informative: str = ""
    """The reason why the line asks for nothing to be built; empty for every other line."""


def lines() -> dict[str, Line]:
    """Every line, by its name."""
    return {
        (name := f"{document}.{number}"): Line(
            name=name, **(entry if isinstance(entry, dict) else {"what": str(entry)})
        )
        for document, entries in tomllib.loads(LINES.read_text(encoding="utf-8")).items()
        for number, entry in entries.items()
    }


def marked() -> dict[str, list[str]]:
    """The tests marked with each line, found by reading the test files without importing them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests" / "acceptance").glob("test_*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name.startswith("test_"):
                for name in dict.fromkeys(_marks(function)):
                    found[name].append(function.name)
    return found


def _marks(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The lines named by the marks of a test, and by those of its parameters."""
    for decorator in function.decorator_list:
        for call in ast.walk(decorator):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "requirement":
                yield from (str(name.value) for name in call.args if isinstance(name, ast.Constant))


def page() -> str:
    """The whole page."""
    tests = marked()
    parts = [HEAD]
    for document, title in DOCUMENTS.items():
        rows = [_row(line, tests[line.name]) for line in lines().values() if line.name.startswith(f"{document}.")]
        parts.append(
            "\n".join([f"## {document}: {title}\n", "| line | asks for | held by |", "|---|---|---|", *rows])
        )
    return "\n\n".join(parts) + "\n"


def _row(line: Line, tests: list[str]) -> str:
    held_by = ", ".join(f"`{name}`" for name in tests) or f"nothing: {line.informative}"
    return (
        "| "
        + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in (line.name, line.what, held_by))
        + " |"
    )
