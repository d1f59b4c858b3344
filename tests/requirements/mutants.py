"""Breaks code that the tests of a requirement execute, and counts how often those tests fail.

`python -m tests.requirements.mutants --seed N [--count 40]` chooses lines of the requirements by the seed. It runs
all tests marked with them once under coverage.py and records which product lines each test executes. For each chosen
line of the requirements it takes the product lines that its tests execute and that the tests of the fewest other
chosen lines execute: those are most likely the code that the requirement is about. One of them is changed (a number
one higher or lower, a comparison flipped, a condition negated, a call left out, a text misspelt), in a copy of the
project, and only the tests marked with that line run again.

What the figure means: of the changes in code near a requirement, the share that its own marked tests notice. It is no
share of all defects that the whole suite finds: code that only an unmarked test checks counts as not noticed, changes
that have no effect (an unreachable default, a log text) cannot be noticed, and code that runs at import (constants,
defaults of settings) or in a child process is never changed. Exits with 1 where fewer than three in four are noticed.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import coverage
from rich.console import Console
from rich.progress import track

from tests.requirements.lines import ROOT, Line, lines, tests

PRODUCT = ("checkpoint", "graph", "nodes")
NEEDED = (*PRODUCT, "package", "tests", "benchmarks", "notebooks", "docs", "pyproject.toml", "README.md")
SECONDS = 300
"""How long the marked tests of one mutant may take; a change that makes them hang counts as noticed."""
ALL_SECONDS = 1800
"""How long all marked tests of the chosen lines may take together, without any change and with their lines traced."""
COPIES = 2
"""How many mutants are tried side by side, each in a copy of the project."""
NEAREST = 25
"""From how many product lines, those that the fewest other requirements execute first, one is chosen."""
WANTED = 0.75

FLIPPED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}

Place = tuple[str, int]
"""A file of the product, relative to the project's root, and the number of one of its lines."""


@dataclass(frozen=True)
class Mutation:
    """One change of one file: the text between two offsets, in characters, is replaced."""

    path: str
    begin: int
    end: int
    new: str

    def __str__(self) -> str:
        """Return the change for people: file, line, old and new code."""
        text = (ROOT / self.path).read_text(encoding="utf-8")
        number = text.count("\n", 0, self.begin) + 1
        return f"{self.path}:{number}: {' '.join(text[self.begin : self.end].split())!r} -> {self.new!r}"

    def apply(self, root: Path) -> str:
        """Change the file of a copy; return the file's text before the change."""
        file = root / self.path
        text = file.read_text(encoding="utf-8")
        file.write_text(text[: self.begin] + self.new + text[self.end :], encoding="utf-8")
        return text


def mutations(path: str) -> dict[int, list[Mutation]]:
    """Return every possible change of a file by the number of the line where the changed code begins."""
    text = (ROOT / path).read_text(encoding="utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offset(line: int, column: int) -> int:
        row = text[starts[line - 1] : starts[line]]
        return starts[line - 1] + len(row.encode()[:column].decode())  # the parser counts columns in bytes

    found: dict[int, list[Mutation]] = defaultdict(list)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.expr | ast.stmt) and node.end_lineno:
            begin, end = offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset or 0)
            found[node.lineno] += [Mutation(path, begin, end, new) for new in _changed(node, text)]
    return found


def _changed(node: ast.expr | ast.stmt, text: str) -> Iterator[str]:  # noqa: C901 - one case a kind of change
    """Yield the code that may stand in a node's place."""

    def source(part: ast.AST) -> str:
        return ast.get_source_segment(text, part) or ""

    match node:
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield str(value + 1)
            if value:
                yield str(value - 1)
        case ast.Compare(ops=[op], comparators=[right]):
            yield f"{source(node.left)} {FLIPPED[type(op)]} {source(right)}"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"bool({source(operand)})"
        case ast.BoolOp(op=op, values=values):
            word = " or " if isinstance(op, ast.And) else " and "
            yield "(" + word.join(f"({source(value)})" for value in values) + ")"
        case ast.IfExp():
            yield f"({source(node.orelse)})"
            yield f"({source(node.body)})"
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield source(node).replace(source(value), repr(f"{value.value}x"), 1)
        case ast.Expr(value=ast.Call() | ast.YieldFrom() | ast.Await()) | ast.Raise() | ast.Delete():
            yield "pass"
        case _:
            return


class Copies:
    """Copies of the project, each used by one run of pytest at a time."""

    def __init__(self, folder: Path) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(COPIES):
            root = folder / str(number)
            root.mkdir()
            for name in NEEDED:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, root / name)
            package = root / "installed" / "langgraph_compaction"
            package.mkdir(parents=True)
            for part in (*(root / "package").iterdir(), *(root / name for name in PRODUCT)):
                (package / part.name).symlink_to(part)
            self._free.put(root)

    def reached(self, chosen: Sequence[str]) -> dict[str, set[Place]]:
        """Run tests without any change; return by test the product lines it executes. Raise where one fails."""
        root = self._free.get()
        try:
            data = root / ".coverage"
            only = ",".join(f"{root}/{name}/*" for name in PRODUCT)
            if not _passes(
                root, ["-m", "coverage", "run", f"--include={only}"], chosen, "tests.requirements.tracing"
            ):
                raise RuntimeError("the marked tests fail without any change: run them first")
            return _by_test(root, data)
        finally:
            self._free.put(root)

    def notices(self, chosen: Sequence[str], mutation: Mutation) -> bool:
        """Whether one of these tests fails in a copy that has this change."""
        root = self._free.get()
        before = mutation.apply(root)
        try:
            return not _passes(root, [], [*chosen, "-x"], "no:cacheprovider")
        finally:
            (root / mutation.path).write_text(before, encoding="utf-8")
            self._free.put(root)


def _by_test(root: Path, file: Path) -> dict[str, set[Place]]:
    data = coverage.CoverageData(str(file))
    data.read()
    reached: dict[str, set[Place]] = defaultdict(set)
    for path in data.measured_files():
        for number, names in data.contexts_by_lineno(path).items():
            for name in filter(None, names):
                reached[name].add((str(Path(path).relative_to(root)), number))
    return reached


def _passes(root: Path, prefix: Sequence[str], chosen: Sequence[str], plugin: str, seconds: float = SECONDS) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(root / "installed"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *prefix, "-m", "pytest", "-q", "-p", plugin, *chosen]
    try:
        return not subprocess.run(
            command, cwd=root, env=environment, capture_output=True, timeout=seconds, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return False


@dataclass(frozen=True)
class Mutant:
    """One line of the requirements, the ids of its tests, and one change of code that they execute."""

    line: Line
    tests: tuple[str, ...]
    mutation: Mutation


def mutants(
    chosen: dict[Line, tuple[str, ...]], reached: dict[str, set[Place]], choose: random.Random
) -> list[Mutant]:
    """Choose one change for each line of the requirements whose tests execute code that can be changed."""
    places = {line: set[Place]().union(*(reached.get(name, ()) for name in ids)) for line, ids in chosen.items()}
    reach = Counter(place for found in places.values() for place in found)
    possible = {path: mutations(path) for path in sorted({path for path, _ in reach})}
    found: list[Mutant] = []
    for line, ids in chosen.items():
        known = [place for place in places[line] if possible[place[0]].get(place[1])]
        nearest = sorted(known, key=lambda place: (reach[place], place))[:NEAREST]
        if nearest:
            path, number = choose.choice(nearest)
            found.append(Mutant(line, ids, choose.choice(possible[path][number])))
    return found


def verdicts(seed: int, count: int, console: Console) -> list[tuple[Mutant, bool]]:
    """Try one mutant for each of `count` lines, and return whether its tests noticed it."""
    choose = random.Random(seed)  # noqa: S311 - a run can be repeated by its seed
    marked = tests()
    held = {line: marked[name] for name, line in lines().items() if marked.get(name)}
    sample = choose.sample(list(held), min(count, len(held)))
    chosen = {line: tuple(f"{test.path}::{test.name}" for test in held[line]) for line in sample}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(COPIES) as pool:
        copies = Copies(Path(folder).resolve())
        reached = copies.reached(sorted({name for ids in chosen.values() for name in ids}))
        found = mutants(chosen, reached, choose)
        noticed = pool.map(lambda one: copies.notices(one.tests, one.mutation), found)
        return list(zip(found, track(noticed, "mutants", total=len(found), console=console), strict=True))


def main() -> None:
    """Read the command line, try the mutants and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    given, console = parser.parse_args(), Console(highlight=False, soft_wrap=True)
    found = verdicts(given.seed, given.count, console)
    for mutant, noticed in found:
        console.print(f"{'noticed ' if noticed else 'SURVIVED'} {mutant.line.name:6} {mutant.mutation}", markup=False)
    count = sum(noticed for _, noticed in found)
    console.print(f"{count} of {len(found)} noticed (seed {given.seed})")
    sys.exit(count < WANTED * len(found))


if __name__ == "__main__":
    main()
