"""Runs tests of LangGraph and LangChain with our checkpointers and our middleware: `make foreign`.

The sources of the installed versions are downloaded when this runs, into .make/foreign; nothing of theirs is in this
project. Prints a table and fails where a test passes with theirs and not with ours, unless `known.py` says why.
SUITE names suites to run, COLUMN columns, MINUTES is how long all of it may take.
"""

import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from typing import Final

from known import KNOWN

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


@dataclass(frozen=True)
class Suite:
    """Tests of one of their packages, and the columns that they run in."""

    package: str
    files: tuple[str, ...]
    columns: tuple[str, ...] = SAVERS


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
        "langgraph-checkpoint-postgres", ("test_sync.py", "test_async.py", "test_*delta*.py", "test_prune.py")
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
        run = [
            *PIP,
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            package,
            "-d",
            HERE,
            f"{package}=={version(package)}",
        ]
        subprocess.run(run, check=True)
        with tarfile.open(HERE / f"{name}.tar.gz") as archive:
            wanted = (each for each in archive if each.name.startswith((f"{name}/tests/", f"{name}/pyproject.toml")))
            archive.extractall(HERE, wanted, filter="data")
    return place


def install() -> None:
    """Install what their tests import, beside the environment."""
    if not PACKAGES.exists():
        subprocess.run([*PIP, "install", "-q", "--no-deps", "--target", PACKAGES, *NEEDED], check=True)


def play(name: str, column: str, seconds: float) -> Outcomes:
    """Run a suite in one column for at most so many seconds; return the tests that ended."""
    suite = SUITES[name]
    folder = fetch(suite.package)
    results = HERE / f"{name}-{column}.jsonl"
    results.unlink(missing_ok=True)
    files = sorted({path for pattern in suite.files for path in (folder / "tests").glob(pattern)})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "-p",
        "ours_in_their_place",
    ]
    environment = {
        **os.environ,
        "FOREIGN_COLUMN": column,
        "FOREIGN_RESULTS": str(results),
        "NO_DOCKER": "true",
        "PYTHONPATH": os.pathsep.join(map(str, (PACKAGES, Path(__file__).parent))),
    }
    log = HERE / f"{name}-{column}.txt"
    with log.open("w") as file:
        process = subprocess.Popen(  # its own options would show every frame of a failure
            [*command, "-o", "addopts=", *files], cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
            show(f"{name}, {column}: stopped after {seconds:.0f} s")
    found = list(outcomes(results))
    if not found:
        sys.exit(f"{name}, {column}: no test ran, see {log}")
    return dict(found)


def outcomes(results: Path) -> Iterator[tuple[str, Outcome]]:
    """Yield tests and their outcomes; of a test with two lines the failure counts, which is written last."""
    for line in results.read_text().splitlines() if results.exists() else ():
        found = json.loads(line)
        yield found["test"], Outcome(found["outcome"], found["why"])


def reason(name: str, column: str, test: str) -> str | None:
    """Return why a test is known to end otherwise with ours."""
    known = KNOWN.get(name, ())
    return next((why for columns, pattern, why in known if column in columns and fnmatch(test, pattern)), None)


def cell(found: Outcomes) -> str:
    """Return the counts of a column."""
    counts = {kind: sum(each.outcome == kind for each in found.values()) for kind in ("passed", "failed")}
    return f"{counts['passed']} passed, {counts['failed']} failed"


def show(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201 - a command's output


def differences(name: str, column: str, theirs: Outcomes, ours: Outcomes) -> dict[str, str | None]:
    """Return the tests that fail with ours and not with theirs, each with its known reason or None."""
    return {
        test: reason(name, column, test)
        for test, found in ours.items()
        if found.outcome == "failed" and (test not in theirs or theirs[test].outcome != "failed")
    }


def main() -> int:
    """Run the suites, print the table, and return 1 where something is new."""
    install()
    until = time.monotonic() + 60 * float(os.environ.get("MINUTES") or 60)
    chosen = (os.environ.get("SUITE") or ",".join(SUITES)).split(",")
    columns = os.environ.get("COLUMN")
    rows = [f"| suite | {' | '.join((*SAVERS, 'middleware'))} |", f"|---{'|---' * (len(SAVERS) + 1)}|"]
    new, reasons = list[str](), dict[str, int]()
    for name in chosen:
        cells = dict[str, str]()
        theirs: Outcomes = {}
        for column in SUITES[name].columns:
            is_theirs = column in THEIRS
            if columns and not is_theirs and column not in columns.split(","):
                continue
            if (left := until - time.monotonic()) < 1:
                show(f"{name}, {column}: no time left")
                continue
            found = play(name, column, left)
            theirs = found if is_theirs else theirs
            cells["theirs" if is_theirs else column] = cell(found)
            for test, why in () if is_theirs else differences(name, column, theirs, found).items():
                if why is None:
                    new.append(f"{name}, {column}: {test}: {found[test].why}")
                else:
                    reasons[f"{name}: {why}"] = reasons.get(f"{name}: {why}", 0) + 1
            show(f"{name}, {column}: {cell(found)}")
        rows.append(f"| {name} | {' | '.join(cells.get(column, '') for column in (*SAVERS, 'middleware'))} |")
    show("\n".join(rows))
    for why, count in sorted(reasons.items()):
        show(f"known: {why} ({count})")
    for line in new:
        show(f"new: {line}")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
