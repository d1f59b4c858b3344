"""Breaks functions that the tests of the requirements enter, and counts how often those tests fail.

`python -m tests.requirements.mutants [--seed 0] [--draw 60] [--minutes 60] [--jobs 1] [--named] [PATH ...]` runs all
tests that are marked with a line of the requirements (or those of them below PATH) once under coverage.py and records
which product lines each one executes; the record is kept in `.make`, for each test until it or the product changes.
Then it draws functions by the seed, and in each one change of a line that is executed: a number one higher or lower,
a comparison flipped, a condition negated, a call left out, a text misspelt. Each change is made in a copy of the
project, and only the tests that execute the line run, until one fails: first those of the file with the same name,
then a few that execute the fewest product lines, then those of the folder that mirrors the file's. Where none fails,
all tests of that folder run. Some lines run only once in a process, and are recorded for the first test alone; so the
test that fails in the folder may be a marked one.

What the figures mean: of the changes in functions that the requirements need, the share that the marked tests notice,
and how many more the tests beside them do: those of one function that no line of the requirements names.
Changes that have no effect (an unreachable default) cannot be noticed: those that are listed with a reason in
`without_effect.toml` are not drawn. Code that runs at import (constants, defaults of settings) or in a child process
is never changed. When the minutes are over, no further change is tried. The minutes do not include the recording.
With `--jobs 2`, two changes are tried at the same time, each in its own copy of the project.
A seed draws other changes after the product, a mark or the list of changes without effect has changed.

With `--named`, the changes of `NAMED` are tried instead, each against the tests that are marked with its line alone.

The counts, with seed, date and commit, are written to `benchmarks/results/mutants.json`. Exits with 1 where the
marked tests notice fewer than 19 in 20 of the changes that were tried, or miss a named one.
"""

import argparse
import gc
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import Any

import coverage
import pytest
from rich.console import Console

from tests.kept_results import origin
from tests.requirements.lines import ROOT, tests
from tests.requirements.mutations import Mutation, mutations_by_function
from tests.requirements.named import NAMED
from tests.requirements.without_effect import listed, without_effect

PRODUCT = ("checkpoint", "graph", "nodes")
NEEDED = (*PRODUCT, "package", "tests", "benchmarks", "notebooks", "docs", "pyproject.toml", "README.md")
HEAVY = (
    *("hypothesis", "langchain.agents", "langchain_anthropic", "langchain_openai", "langgraph.prebuilt"),
    *("langgraph.checkpoint.sqlite", "numpy", "sqlalchemy.dialects.sqlite", "tiktoken", "typer.testing", "yaml"),
)
"""Modules that are imported once, before a process is forked for each change."""
OPTIONS = (
    *("-q", "-x", "-p", "no:cacheprovider", "-m", "not slow"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # of the modules imported before the fork
)
FOR_TESTS = {"nodes/testing.py"}
"""Files of the product that only tests use."""
SECONDS = 300
"""How long a marked test may take: longer, it hangs, which counts as noticed. So long the tests beside may run."""
SMALLEST = 15
"""The number of tests that are tried after those of the changed file: those that execute the fewest product lines."""
WANTED = 0.95
RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"
MARKED, BESIDE = "marked", "beside"
VERDICTS = {MARKED: "noticed ", BESIDE: "beside  ", "": "SURVIVED"}

CONSOLE = Console(highlight=False, soft_wrap=True)

Place = tuple[str, int]
"""A file of the product, relative to the project's root, and the number of one of its lines."""
Reached = Mapping[str, frozenset[Place]]
"""For each test, by its id without parameters, the lines of the product that it executes."""


@dataclass(frozen=True)
class Mutant:
    """A change, the function that it is in, and the tests that execute the changed line."""

    function: str
    mutation: Mutation
    tests: tuple[str, ...]


class Copy:
    """A copy of the project, in which changes are tried one after the other."""

    def __init__(self, folder: Path) -> None:
        self.root, self.marked = folder, frozenset(marked(["tests/"]))
        for name in NEEDED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, self.root / name)
        self.installed = self.root / "installed"
        package = self.installed / "langgraph_compaction"
        package.mkdir(parents=True)
        for part in (*(self.root / "package").iterdir(), *(self.root / name for name in PRODUCT)):
            (package / part.name).symlink_to(part)
        compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
        subprocess.run([*compiling, *PRODUCT, "package"], cwd=self.root, check=True)

    def reached(self, chosen: Sequence[str]) -> Reached:
        """Run tests without any change; return the product lines that each one executes.

        A test that fails, as one that measures the event loop may do under coverage.py, is named and left out.
        """
        only = ",".join(f"{self.root}/{name}/*" for name in PRODUCT)
        command = [sys.executable, "-m", "coverage", "run", f"--include={only}", "-m", "pytest", "-q"]
        environment = {**os.environ, "PYTHONPATH": str(self.installed), "PYTHONDONTWRITEBYTECODE": "1"}
        plugin = ["-p", "tests.requirements.tracing", "-p", "no:cacheprovider", "-m", "not slow"]
        done = subprocess.run(
            [*command, *plugin, *chosen], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise RuntimeError(f"the marked tests do not run:\n{done.stdout[-2_000:]}")
        failing = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        if failing:
            sys.stderr.write("\n".join(["Left out, because they fail without any change:", *failing, ""]))
        left_out = {line.split()[1].partition("[")[0] for line in failing}
        data = coverage.CoverageData(str(self.root / ".coverage"))
        data.read()
        found: dict[str, set[Place]] = defaultdict(set)
        for path in data.measured_files():
            for number, names in data.contexts_by_lineno(path).items():
                for name in {*names} - {"", *left_out}:
                    found[name].add((str(Path(path).relative_to(self.root)), number))
        return {name: frozenset(places) for name, places in found.items()}

    def notices(self, mutant: Mutant) -> str:
        """Return who notices the change: the marked tests, those of the file's folder, or nobody (an empty text).

        A marked test notices a change when it fails or hangs. Of the folder only a failure within `SECONDS` counts,
        because it may hold very many tests. The first test that fails there decides.
        """
        before = mutant.mutation.apply(self.root)
        try:
            if not self._passes(mutant.tests):
                return MARKED
            if self._passes([mirrored(mutant.mutation.path)], most=SECONDS):
                return ""
            return MARKED if self.failed().partition("[")[0] in self.marked else BESIDE
        finally:
            (self.root / mutant.mutation.path).write_text(before, encoding="utf-8")

    def failed(self) -> str:
        """Return the id of the test that failed in the last run; empty if none failed, or if the run hung."""
        lines = (self.root / "log").read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line.split()[1] for line in lines if line.startswith(("FAILED ", "ERROR "))), "")

    def check(self, chosen: Sequence[str]) -> None:
        """Raise where tests fail without any change."""
        if not self._passes(chosen):
            raise RuntimeError(f"tests fail without any change:\n{(self.root / 'log').read_text()[-2_000:]}")

    def _passes(self, chosen: Sequence[str], *, most: float | None = None) -> bool:
        """Whether tests pass.

        Tests of which none ends within `SECONDS` hang, which counts as a failure. With `most`, tests that have not
        failed after so many seconds count as passed.
        """
        log = self.root / "log"
        log.unlink(missing_ok=True)
        child = os.fork()
        if not child:
            self._run(chosen)
        begin = grown = time.monotonic()
        size = 0
        while (now := time.monotonic()) - grown < SECONDS and (most is None or now - begin < most):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status) == 0
            if (there := log.stat().st_size if log.exists() else 0) != size:
                size, grown = there, now
            time.sleep(0.05)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return most is not None

    def _run(self, chosen: Sequence[str]) -> None:
        """Run tests in this process, a forked one that has not imported the product, and end the process."""
        code = 1
        try:
            os.setsid()
            silent = os.open(self.root / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(silent, stream)
            os.chdir(self.root)
            sys.path[:0] = [str(self.root), str(self.installed)]
            for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
                del sys.modules[name]
            code = int(pytest.main([*OPTIONS, *chosen]))
        except BaseException:  # noqa: BLE001 - a forked process must not go on with what its parent does
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)


def mirrored(path: str) -> str:
    """Return the folder of tests nearest to a file of the product: `tests/nodes/gate` for `nodes/gate/judge.py`."""
    folder = Path("tests", path).parent
    while not any((ROOT / folder).glob("test_*.py")):
        folder = folder.parent
    return str(folder)


def changeable(root: Path, reached: Reached) -> dict[str, list[Mutation]]:
    """Return the possible changes of executed lines below `root`, by the function that they are in.

    Those that have no effect are left out.
    """
    executed = frozenset[Place]().union(*reached.values())
    left_out = without_effect(root)
    found: dict[str, list[Mutation]] = {}
    for path in sorted({path for path, _ in executed} - FOR_TESTS):
        for function, changes in mutations_by_function(root, path).items():
            found[function] = [one for one in changes if (path, one.line) in executed and one not in left_out]
    return {name: changes for name, changes in sorted(found.items()) if changes}


def mutants(root: Path, reached: Reached, choose: random.Random, count: int) -> list[Mutant]:
    """Draw so many functions of the files below `root`, and one change in each."""
    possible = changeable(root, reached)
    by_reach = sorted(reached, key=lambda name: (len(reached[name]), name))
    found: list[Mutant] = []
    for function in choose.sample(list(possible), min(count, len(possible))):
        change = choose.choice(possible[function])
        place = (change.path, change.line)
        entering = [name for name in by_reach if place in reached[name]]
        folder, file = mirrored(change.path) + "/", f"/test_{Path(change.path).stem}.py:"
        own = [name for name in entering if file in name]
        near = [name for name in entering if name.startswith(folder)]
        found.append(Mutant(function, change, tuple(dict.fromkeys([*own, *entering[:SMALLEST], *near, *entering]))))
    return found


def marked(paths: Sequence[str]) -> list[str]:
    """Return the ids of the tests that are marked with a line of the requirements and lie below one of the paths."""
    known = {f"{test.path}::{test.name}" for held in tests().values() for test in held}
    return sorted(name for name in known if name.startswith(tuple(paths)))


def reached_by(chosen: Sequence[str], copy: Copy) -> Reached:
    """Return the lines that tests execute.

    A test is run for it if it has not been recorded yet, or if its file, a helper of the tests or the product has
    changed since, marks aside.
    """
    state = hashlib.sha256()
    for name in (*PRODUCT, "package", "tests"):
        for file in sorted((copy.root / name).rglob("*.py")):
            if not file.name.startswith("test_") and file.parent.name != "requirements":
                state.update(file.read_bytes())
    record = ROOT / ".make" / f"reached-{state.hexdigest()[:16]}.json"
    known: dict[str, tuple[str, list[Place]]] = json.loads(record.read_text("utf-8")) if record.exists() else {}
    files = {name: unmarked_hash(copy.root / name.partition("::")[0]) for name in chosen}
    missing = [name for name in chosen if name not in known or known[name][0] != files[name]]
    if missing:
        found = copy.reached(missing)
        known |= {name: (files[name], sorted(found.get(name, ()))) for name in missing}
        record.write_text(json.dumps(known), encoding="utf-8")
    executed = {name: frozenset((path, number) for path, number in known[name][1]) for name in chosen}
    return {name: places for name, places in executed.items() if places}


def unmarked_hash(file: Path) -> str:
    """Return the hash of a file of tests without the lines that mark a test with requirements."""
    lines = file.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("@pytest.mark.requirement(")]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


def drawn_by(seed: int, count: int, paths: Sequence[str], copy: Copy) -> list[Mutant]:
    """Draw changes by a seed; print how many functions they are drawn from."""
    reached = reached_by(marked(paths), copy)
    found = mutants(copy.root, reached, random.Random(seed), count)  # noqa: S311 - a run can be repeated by its seed
    entered = len(changeable(copy.root, reached))
    CONSOLE.print(f"{len(reached)} tests enter {entered} functions; seed {seed}")
    return found


def named(copy: Copy) -> list[Mutant]:
    """Return the changes of `NAMED`."""
    return [Mutant(f"{one.line}, {one.what}", one.mutation(copy.root), one.tests) for one in NAMED]


def tried(chosen: Sequence[Mutant], minutes: float, copies: Sequence[Copy]) -> list[str]:
    """Try changes until the minutes are over; print one line for each change, and return who noticed it.

    There is one worker process for each copy, so as many changes are tried at the same time as there are copies.
    """
    for name in HEAVY:
        import_module(name)
    gc.collect()
    gc.freeze()  # a forked process would copy all that its garbage collector visits
    copies[0].check([name for mutant in chosen[:3] for name in mutant.tests[:5]])
    context = multiprocessing.get_context("fork")
    free, end = context.SimpleQueue(), time.monotonic() + 60 * minutes
    for number in range(len(copies)):
        free.put(number)
    with ProcessPoolExecutor(len(copies), context, initializer=_take_copy, initargs=(copies, free)) as workers:
        noticed = list(workers.map(_tried, chosen, repeat(end)))
    return [one for one in noticed if one is not None]


_OWN: list[Copy] = []
"""The copy of a worker process."""


def _take_copy(copies: Sequence[Copy], free: Any) -> None:
    _OWN.append(copies[free.get()])


def _tried(mutant: Mutant, end: float) -> str | None:
    """Try a change in a worker process, print a line, and return who noticed it; `None` after the time `end`."""
    if time.monotonic() > end:
        return None
    [copy] = _OWN
    noticed = copy.notices(mutant)
    found = f"{VERDICTS[noticed]} {mutant.function}: {mutant.mutation} ({len(mutant.tests)} tests)"
    CONSOLE.print(" ".join(filter(None, (found, copy.failed()))), markup=False)
    return noticed


def write_results(kind: str, **figures: Any) -> None:
    """Write the figures of a run under its kind, and leave those of the other kind as they are."""
    known: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    known[kind] = {**figures, **origin()}
    RESULTS.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """Read the command line, try the changes and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draw", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=1, choices=range(1, 65), metavar="1-64")
    parser.add_argument("--named", action="store_true")
    parser.add_argument("paths", nargs="*", default=["tests/"])
    given = parser.parse_args()
    with ExitStack() as folders:
        folders_of = [folders.enter_context(tempfile.TemporaryDirectory()) for _ in range(given.jobs)]
        copies = [Copy(Path(folder).resolve()) for folder in folders_of]
        chosen = named(copies[0]) if given.named else drawn_by(given.seed, given.draw, given.paths, copies[0])
        noticed = tried(chosen, given.minutes, copies)
    figures = {
        "tried": len(noticed),
        "not_tried": len(chosen) - len(noticed),
        "noticed_by_marked": noticed.count(MARKED),
        "noticed_beside": noticed.count(BESIDE),
    }
    if given.named:
        write_results("named", **figures, changes=dict(zip((one.function for one in chosen), noticed, strict=False)))
    else:
        write_results("drawn", **figures, seed=given.seed, paths=given.paths, listed_without_effect=len(listed()))
    CONSOLE.print(
        f"{figures['noticed_by_marked']} of {len(noticed)} noticed by marked tests, {figures['noticed_beside']} more "
        f"by those beside them; {figures['not_tried']} not tried"
    )
    wanted = len(noticed) if given.named else WANTED * len(noticed)
    sys.exit(not noticed or figures["noticed_by_marked"] < wanted)


if __name__ == "__main__":
    main()
