"""Breaks the guards of the requirements, one at a time, and counts those that no marked test notices.

`python -m tests.requirements.mutants --seed N [--count 40]`: chooses lines by the seed, and of each line's guards one
change: a number one higher or lower, a comparison flipped, a branch or a call left out, a word misspelt. Each runs in
a copy of the project, and only the tests marked with that line. Exits with 1 where more than one in twenty survives.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console
from rich.progress import track

from tests.requirements.lines import ROOT, Guard, Line, lines, tests

PORTIONS = ("checkpoint", "graph", "nodes")
NEEDED = (*PORTIONS, "tests", "benchmarks", "notebooks", "docs", "pyproject.toml", "README.md", "langgraph.json")
SECONDS = 600
COPIES = 2

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


@dataclass(frozen=True)
class Mutation:
    """One change of one file: what stands between two places is replaced."""

    path: str
    begin: int
    end: int
    new: str

    def told(self) -> str:
        """The change, for people."""
        old = (ROOT / self.path).read_text(encoding="utf-8")[self.begin : self.end]
        return f"{self.path}: {' '.join(old.split())!r} -> {self.new!r}"

    def apply(self, root: Path) -> str:
        """Change the file of a copy; returns what stood there."""
        file = root / self.path
        text = file.read_text(encoding="utf-8")
        file.write_text(text[: self.begin] + self.new + text[self.end :], encoding="utf-8")
        return text


def mutations(guard: Guard) -> list[Mutation]:
    """Every change that lies within a guard's code."""
    text = (ROOT / guard.path).read_text(encoding="utf-8")
    first, last = guard.place
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:
        """A place in characters; the parser counts columns in bytes."""
        row = text[starts[line - 1] : starts[line]]
        return starts[line - 1] + len(row.encode()[:column].decode())

    found: list[Mutation] = []
    tree = ast.parse(text)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and _is_text(node.value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt) and node.end_lineno and id(node) not in docstrings:
            begin, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset or 0)
            inside = first <= begin and end <= last
            if inside:
                found += [Mutation(guard.path, begin, end, new) for new in _changed(node, text)]
    return found


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _changed(node: ast.expr | ast.stmt, text: str) -> Iterator[str]:  # noqa: C901 - one case a kind of change
    """What may stand in a node's place."""

    def source(part: ast.AST) -> str:
        return ast.get_source_segment(text, part) or ""

    match node:
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield str(value + 1)
            if value:
                yield str(value - 1)
        case ast.Constant(value=str(value)) if value.strip():
            yield repr(f"{value}x")
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
        case ast.Expr(value=ast.Call() | ast.YieldFrom() | ast.Await()) | ast.Raise() | ast.Delete():
            yield "pass"
        case _:
            return


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant."""

    line: Line
    mutation: Mutation
    noticed: bool


class Copies:
    """Copies of the project, each used by one mutant at a time."""

    def __init__(self, folder: Path) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(COPIES):
            root = folder / str(number)
            root.mkdir()
            for name in NEEDED:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, root / name)
            package = root / "package" / "langgraph_compaction"
            package.mkdir(parents=True)
            for portion in PORTIONS:
                (package / portion).symlink_to(root / portion)
            self._free.put(root)

    def passes(self, chosen: Sequence[str], mutation: Mutation | None = None) -> bool:
        """Whether these tests pass in a copy, with this change in it."""
        root = self._free.get()
        before = mutation.apply(root) if mutation else ""
        try:
            return _run(root, chosen)
        finally:
            if mutation:
                (root / mutation.path).write_text(before, encoding="utf-8")
            self._free.put(root)


def _run(root: Path, chosen: Sequence[str]) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(root / "package"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *chosen]
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False  # a loop that does not end is noticed too
    return done.returncode == 0


def mutants(seed: int, count: int) -> list[tuple[Line, Mutation]]:
    """As many lines as asked, chosen by the seed, each with one change."""
    choose = random.Random(seed)  # noqa: S311 - it can be repeated, which is the point
    guarded = [line for line in lines().values() if line.guards]
    chosen = choose.sample(guarded, min(count, len(guarded)))
    return [(line, choose.choice([m for guard in line.guards for m in mutations(guard)])) for line in chosen]


def verdicts(seed: int, count: int, console: Console) -> list[Verdict]:
    """Try every mutant; raises `RuntimeError` where the tests are red without any."""
    marked = tests()

    def ids(line: Line) -> list[str]:
        return [f"{test.path}::{test.name}" for test in marked[line.name]]

    chosen = mutants(seed, count)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(COPIES) as pool:
        copies = Copies(Path(folder))
        every = sorted({name for line, _ in chosen for name in ids(line)})
        if not copies.passes(every):
            raise RuntimeError("the marked tests are red without any change: run them first")
        tried = pool.map(lambda one: Verdict(*one, noticed=not copies.passes(ids(one[0]), one[1])), chosen)
        return list(track(tried, "mutants", total=len(chosen), console=console))


def main() -> None:
    """Read the command line and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    given, console = parser.parse_args(), Console(highlight=False, soft_wrap=True)
    found = verdicts(given.seed, given.count, console)
    for verdict in found:
        console.print(
            f"{'noticed ' if verdict.noticed else 'SURVIVED'} {verdict.line.name:6} {verdict.mutation.told()}"
        )
    noticed = sum(verdict.noticed for verdict in found)
    console.print(f"{noticed} of {len(found)} noticed (seed {given.seed})")
    sys.exit(noticed * 20 < len(found) * 19)


if __name__ == "__main__":
    main()
