"""Runs tests of LangGraph and LangChain with our checkpointers and our middleware: `make foreign`.

The sources of the installed versions are downloaded when this runs, into .make/foreign; nothing of theirs is in this
project. Prints each column of a suite, and writes those that ran to their end into benchmarks/results/foreign.json.
Fails where a test passes with theirs and not with ours, unless `known.py` says why; where an entry of `known.py` fits
no such test; and where something that was chosen did not run to its end.
SUITE names suites to run, COLUMN columns, MINUTES is how long all of it may take.
"""

import json
import os
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any, Final

from tests.foreign.known import KNOWN, SERVERS
from tests.kept_results import RESULTS, keep, origin

ROOT: Final = Path(__file__).parents[2]
HERE: Final = ROOT / ".make" / "foreign"
PACKAGES: Final = HERE / "packages"
"""What their tests import and ours do not: kept out of .venv, where it would add plugins to our tests."""
NEEDED: Final = (
    *("langchain-tests", "pycryptodome", "py-cpuinfo", "pytest-benchmark", "pytest-mock", "pytest-recording"),
    *("pytest-socket", "redis", "syrupy", "toml", "vcrpy", "wrapt"),
)
PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check")
THEIRS: Final = ("theirs", "plain")
SAVERS: Final = ("theirs", "sqlite", "postgresql", "mariadb")
COLUMNS: Final = (*SAVERS, "plain", "middleware")
SHOWN: Final = ("langgraph", "langgraph-checkpoint", "langchain-core")
"""What every suite runs on: the versions that a row names beside that of the suite's own package."""


@dataclass(frozen=True)
class Suite:
    """Tests of one of their packages, and the columns that they run in, theirs first."""

    package: str
    files: tuple[str, ...]
    columns: tuple[str, ...] = SAVERS
    server: str | None = None
    """The database server that their own class needs."""


SUITES: Final = {
    "pregel": Suite("langgraph", ("test_pregel.py", "test_pregel_async.py", "test_large_cases*.py")),
    "time-travel": Suite("langgraph", ("test_time_travel*.py",)),
    "interrupts": Suite("langgraph", ("test_interrupt*.py", "test_strict_resume.py")),
    "subgraphs": Suite("langgraph", ("test_subgraph*.py", "test_parent_command*.py")),
    "delta": Suite("langgraph", ("test_delta_channel_[!b]*.py",)),
    "sqlite-saver": Suite(
        "langgraph-checkpoint-sqlite",
        ("test_sqlite.py", "test_aiosqlite.py", "test_*delta*.py", "test_writes_task_path_migration.py"),
    ),
    "postgres-saver": Suite(
        "langgraph-checkpoint-postgres",
        ("test_sync.py", "test_async.py", "test_*delta*.py", "test_prune.py"),
        server="postgresql",
    ),
    "agents": Suite("langchain", ("unit_tests/agents",), ("plain", "middleware")),
}


@dataclass(frozen=True)
class Outcome:
    """How a test ended."""

    outcome: str
    why: str


Outcomes = Mapping[str, Outcome]


def fetch(package: str) -> Path:
    """Download the source of the installed version and return the folder with its tests."""
    name = f"{package.replace('-', '_')}-{version(package)}"
    place = HERE / name
    if not (place / "tests").exists():
        wanted = f"{package}=={version(package)}"
        command = [*PIP, "download", "-q", "--no-deps", "--no-binary", package, "-d", HERE, wanted]
        subprocess.run(command, check=True)
        with tarfile.open(HERE / f"{name}.tar.gz") as archive:
            members = (one for one in archive if one.name.startswith((f"{name}/tests/", f"{name}/pyproject.toml")))
            archive.extractall(HERE, members, filter="data")
    return place


def play(name: str, column: str, seconds: float) -> tuple[Outcomes, str | None]:
    """Run a suite in one column for at most so many seconds; return what ended, and why the rest did not."""
    suite = SUITES[name]
    folder = fetch(suite.package)
    results, log = (HERE / f"{name}-{column}.{end}" for end in ("jsonl", "txt"))
    results.unlink(missing_ok=True)
    files = sorted({path for pattern in suite.files for path in (folder / "tests").glob(pattern)})
    options = ("-q", "--tb=short", "-p", "no:cacheprovider", "-p", "ours_in_their_place", "-o", "addopts=")
    environment = {
        **os.environ,
        "FOREIGN_COLUMN": column,
        "FOREIGN_RESULTS": str(results),
        "NO_DOCKER": "true",
        "PYTHONPATH": os.pathsep.join(map(str, (PACKAGES, Path(__file__).parent))),
    }
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *files],
            cwd=folder,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            code = process.wait(seconds)
            cut = None if code in {0, 1} else f"ended with code {code}, see {log}"  # 1: some tests failed
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
            cut = f"stopped for time ({seconds:.0f} s)"
    found = dict(outcomes(results))
    return found, cut if found else cut or f"no test ran, see {log}"


def outcomes(results: Path) -> Iterator[tuple[str, Outcome]]:
    """Yield tests and their outcomes; of a test with two lines the failure counts, which is written last."""
    for line in results.read_text().splitlines() if results.exists() else ():
        found = json.loads(line)
        yield found["test"], Outcome(found["outcome"], found["why"])


def missing(name: str, column: str) -> str | None:
    """Return the variable that has to name a server for this column of a suite; None if nothing is missing."""
    server = SUITES[name].server if column == "theirs" else column
    variable = SERVERS.get(server or "")
    return None if variable is None or os.environ.get(variable) else variable


def compare(
    name: str, column: str, theirs: Outcomes, ours: Outcomes, *, is_whole: bool
) -> tuple[Counter[str], list[str], list[str]]:
    """Return the known reasons of the tests that fail with ours alone, those without one, and reasons without a test.

    A test that theirs did not reach, because it was cut short, is not compared.
    """
    entries = [(pattern, why) for columns, pattern, why in KNOWN.get(name, ()) if column in columns]
    different = [
        test
        for test, found in ours.items()
        if found.outcome == "failed" and (theirs[test].outcome != "failed" if test in theirs else is_whole)
    ]
    reasons = {test: next((why for pattern, why in entries if fnmatch(test, pattern)), None) for test in different}
    known = Counter(why for why in reasons.values() if why is not None)
    new = [f"{test}: {ours[test].why}" for test, why in reasons.items() if why is None]
    stale = [pattern for pattern, _ in entries if not any(fnmatch(test, pattern) for test in different)]
    return known, new, stale


def row(name: str, column: str, found: Outcomes, known: Mapping[str, int], new: int) -> dict[str, Any]:
    """Return what is kept of a column of a suite, with the versions that it was found with."""
    counts = {kind: sum(each.outcome == kind for each in found.values()) for kind in ("passed", "failed")}
    packages = dict.fromkeys((SUITES[name].package, *SHOWN))
    versions = {"python": python_version()} | {each: version(each) for each in packages}
    shown = "theirs" if column in THEIRS else column
    return {"suite": name, "column": shown, **counts, "known": dict(known), "new": new, "versions": versions}


def run(name: str, columns: list[str], until: float) -> list[str]:
    """Run a suite in these columns and in theirs, up to a time of the monotonic clock; return what is wrong."""
    wrong: list[str] = []
    began = origin()  # the code that is tested
    theirs, is_whole = dict[str, Outcome](), False
    for column in SUITES[name].columns:
        if column not in (*THEIRS, *columns):
            continue
        if variable := missing(name, column):
            wrong.append(f"{name}, {column}: not run: {variable} is not set")
            continue
        if (left := until - time.monotonic()) < 1:
            wrong.append(f"{name}, {column}: not run: no time was left")
            continue
        found, cut = play(name, column, left)
        known, new, stale = Counter[str](), list[str](), list[str]()
        if column in THEIRS:
            theirs, is_whole = dict(found), cut is None
        else:
            known, new, stale = compare(name, column, theirs, found, is_whole=is_whole)
        wrong += [f"{name}, {column}: new: {each}" for each in new]
        if cut is not None:
            wrong.append(f"{name}, {column}: {cut} after {len(found)} tests")
        elif is_whole:
            wrong += [f"{name}, {column}: stale: {each}" for each in stale]
            kept = row(name, column, found, known, len(new))
            keep(RESULTS / "foreign.json", [{**kept, **began}], "suite", "column")
            show(f"{name}, {column}: {kept['passed']} passed, {kept['failed']} failed")
    return wrong


def show(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201 - a command's output


def main() -> int:
    """Run what was chosen, keep each column when it ends; 1 if something is new, stale or not run."""
    if not PACKAGES.exists():
        subprocess.run([*PIP, "install", "-q", "--no-deps", "--target", PACKAGES, *NEEDED], check=True)
    until = time.monotonic() + 60 * float(os.environ.get("MINUTES") or 90)
    columns = (os.environ.get("COLUMN") or ",".join(COLUMNS)).split(",")
    suites = (os.environ.get("SUITE") or ",".join(SUITES)).split(",")
    wrong = [line for name in suites for line in run(name, columns, until)]
    for line in wrong:
        show(line)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
