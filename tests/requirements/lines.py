"""The numbered lines of the requirements: what each asks for, the code that guards it, the tests that hold it."""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUARDS = Path(__file__).with_name("guards")
"""One file a document: by number of the line what it asks for, and where it is guarded."""
LINES = {"S0": 48, "S1": 44, "S2": 57, "S3": 24, "S4": 43}
"""How many lines each of the five documents has."""


@dataclass(frozen=True)
class Guard:
    """A piece of code that makes a line true; it stands exactly once in its file."""

    path: str
    code: str

    @property
    def place(self) -> tuple[int, int]:
        """Where it begins and ends in its file, in characters; raises `ValueError` where it is not there once."""
        text = (ROOT / self.path).read_text(encoding="utf-8")
        if text.count(self.code) != 1:
            raise ValueError(f"{self.path} has {self.code!r} {text.count(self.code)} times, and not once")
        begin = text.index(self.code)
        return begin, begin + len(self.code)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the requirements."""

    name: str
    what: str
    guards: tuple[Guard, ...] = ()
    informative: str = ""
    """Why there is nothing to build, where the line only tells."""
    superseded: str = ""
    """The invariant that forbids it."""


@dataclass(frozen=True)
class Test:
    """A test function."""

    path: str
    name: str


def names() -> list[str]:
    """Every line's name, in order."""
    return [f"{document}.{number}" for document, last in LINES.items() for number in range(1, last + 1)]


def lines() -> dict[str, Line]:
    """Every line, by its name."""
    return {
        (name := f"{document}.{number}"): Line(
            name=name,
            what=entry["what"],
            guards=tuple(Guard(*given.split(": ", 1)) for given in entry.get("guards", ())),
            informative=entry.get("informative", ""),
            superseded=entry.get("superseded", ""),
        )
        for document in LINES
        for number, entry in tomllib.loads((GUARDS / f"{document}.toml").read_text(encoding="utf-8")).items()
    }


def tests() -> dict[str, list[Test]]:
    """The tests marked with each line."""
    found: dict[str, list[Test]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
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
