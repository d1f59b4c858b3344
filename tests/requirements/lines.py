"""The numbered lines of the requirements, and the tests that are marked with each."""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = Path(__file__).with_name("lines.toml")
"""By document and number, the text of each line."""
COUNTS = {"S0": 52, "S1": 45, "S2": 63, "S3": 26, "S4": 47}
"""The number of the last line of each of the five documents."""
UNWRITTEN = frozenset[str]()
"""Numbers whose line is still to be written."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the requirements."""

    name: str
    what: str
    informative: str = ""
    """The reason why the line asks for nothing to be built; empty for every other line."""


@dataclass(frozen=True)
class Test:
    """A test function."""

    path: str
    name: str

    @property
    def at_real_sizes(self) -> bool:
        """Whether it runs with a provider's chat model and its window; `tests/acceptance/conftest.py` checks that."""
        return self.path.startswith("tests/acceptance/")


def names() -> list[str]:
    """Every line's name, in order."""
    every = [f"{document}.{number}" for document, last in COUNTS.items() for number in range(1, last + 1)]
    return [name for name in every if name not in UNWRITTEN]


def lines() -> dict[str, Line]:
    """Every line, by its name."""
    return {
        (name := f"{document}.{number}"): Line(
            name=name, **(entry if isinstance(entry, dict) else {"what": str(entry)})
        )
        for document, entries in tomllib.loads(LINES.read_text(encoding="utf-8")).items()
        for number, entry in entries.items()
    }


def tests() -> dict[str, list[Test]]:
    """The tests marked with each line, found by reading the test files without importing them."""
    found: dict[str, list[Test]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.requirement" not in text:
            continue
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name.startswith("test_"):
                test = Test(str(path.relative_to(ROOT)), function.name)
                for name in dict.fromkeys(_marked(function)):
                    found[name].append(test)
    return found


def _marked(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The lines named by the marks of a test, and by those of its parameters."""
    for decorator in function.decorator_list:
        for call in ast.walk(decorator):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr == "requirement"
            ):
                yield from (str(one.value) for one in call.args if isinstance(one, ast.Constant))


def marks_a_test() -> dict[Test, int]:
    """How many lines each marked test names."""
    count: dict[Test, int] = defaultdict(int)
    for marked in tests().values():
        for test in marked:
            count[test] += 1
    return count
