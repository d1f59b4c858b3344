"""Runs tests of LangGraph and LangChain with our checkpointers and our middleware: `make foreign`.

The sources of the installed versions are downloaded when this runs, into .make/foreign; nothing of theirs is in this
project. Prints a table, and writes each column of a suite that ran to its end into benchmarks/results/foreign.json.
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
COLUMNS: Final = (*SAVERS, "middleware")
"""The columns of the table; `plain` is shown as theirs."""
SHOWN: Final = ("langgraph", "langgraph-checkpoint", "langchain-core")
"""What every suite runs on: the versions that a row names beside that of the suite's own package."""


ENDED: Final = (0, 1)
"""Exit codes of pytest after all tests have run: all passed, or some failed."""


@dataclass(frozen=True)
class Suite:
    """Tests of one of their packages, and the columns that they run in."""

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


@dataclass(frozen=True)
class Played:
    """The tests of a suite that ended in one column, and why the others did not; None if there are no others."""

    found: Outcomes
    cut: str | None = None


@dataclass
class Report:
    """What a run has found."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)

    def add(self, name: str, column: str, theirs: Played | None, played: Played) -> None:
        """Add a column of a suite; what did not run to its end is compared as far as it ran, and not kept."""
        is_theirs = column in THEIRS
        if played.cut is not None:
            self.not_run.append(f"{name}, {column}: {played.cut} after {len(played.found)} tests")
        known, new = dict[str, int](), 0
        if not is_theirs and theirs is not None:
            different = differences(name, column, theirs, played.found)
            for test, why in different.items():
                if why is None:
                    new += 1
                    self.new.append(f"{name}, {column}: {test}: {played.found[test].why}")
                else:
                    known[why] = known.get(why, 0) + 1
            if theirs.cut is None and played.cut is None:
                self.stale += [f"{name}, {column}: {pattern}" for pattern in unused(name, column, different)]
        if played.cut is None and (theirs is None or theirs.cut is None):
            shown = "theirs" if is_theirs else column
            self.rows.append({"suite": name, "column": shown, **counts(played.found), "known": known, "new": new})

    @property
    def failed(self) -> bool:
        """Whether the command has to fail."""
        return bool(self.not_run or self.new or self.stale)


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


def play(name: str, column: str, seconds: float) -> Played:
    """Run a suite in one column for at most so many seconds."""
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
            code = process.wait(seconds)
            cut = None if code in ENDED else f"ended with code {code}, see {log}"
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
            cut = f"stopped for time ({seconds:.0f} s)"
    found = dict(outcomes(results))
    return Played(found, cut if found else cut or f"no test ran, see {log}")


def outcomes(results: Path) -> Iterator[tuple[str, Outcome]]:
    """Yield tests and their outcomes; of a test with two lines the failure counts, which is written last."""
    for line in results.read_text().splitlines() if results.exists() else ():
        found = json.loads(line)
        yield found["test"], Outcome(found["outcome"], found["why"])


def reason(name: str, column: str, test: str) -> str | None:
    """Return why a test is known to end otherwise with ours."""
    known = KNOWN.get(name, ())
    return next((why for columns, pattern, why in known if column in columns and fnmatch(test, pattern)), None)


def unused(name: str, column: str, different: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the patterns of known differences that none of these tests fits."""
    for columns, pattern, _ in KNOWN.get(name, ()):
        if column in columns and not any(fnmatch(test, pattern) for test in different):
            yield pattern


def counts(found: Outcomes) -> dict[str, int]:
    """Return how many tests of a column passed and failed."""
    return {kind: sum(each.outcome == kind for each in found.values()) for kind in ("passed", "failed")}


def cell(row: Mapping[str, Any]) -> str:
    """Return what the table says of a column of a suite."""
    return f"{row['passed']} passed, {row['failed']} failed"


def show(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201 - a command's output


def differences(name: str, column: str, theirs: Played, ours: Outcomes) -> dict[str, str | None]:
    """Return the tests that fail with ours and not with theirs, each with its known reason or None.

    A test that theirs did not reach is not compared.
    """
    return {
        test: reason(name, column, test)
        for test, found in ours.items()
        if found.outcome == "failed"
        and (theirs.found[test].outcome != "failed" if test in theirs.found else theirs.cut is None)
    }


def missing(name: str, column: str) -> str | None:
    """Return the variable that has to name a server for this column of a suite; None if nothing is missing."""
    server = SUITES[name].server if column == "theirs" else column
    variable = SERVERS.get(server or "")
    return None if variable is None or os.environ.get(variable) else variable


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table of these rows."""
    cells = {(row["suite"], row["column"]): cell(row) for row in rows}
    yield f"| suite | {' | '.join(COLUMNS)} |"
    yield f"|---{'|---' * len(COLUMNS)}|"
    for name in dict.fromkeys(row["suite"] for row in rows):
        yield f"| {name} | {' | '.join(cells.get((name, column), '') for column in COLUMNS)} |"


def run(name: str, columns: list[str], until: float) -> Report:
    """Run a suite in these columns and in theirs, up to a time of the monotonic clock."""
    report = Report()
    theirs: Played | None = None
    for column in SUITES[name].columns:
        if column not in (*THEIRS, *columns):
            continue
        if variable := missing(name, column):
            report.not_run.append(f"{name}, {column}: {variable} is not set")
            continue
        if (left := until - time.monotonic()) < 1:
            report.not_run.append(f"{name}, {column}: no time was left")
            continue
        played = play(name, column, left)
        theirs = played if column in THEIRS else theirs
        report.add(name, column, theirs, played)
        show(f"{name}, {column}: {cell(counts(played.found))}")
    return report


def with_origin(row: dict[str, Any], began: Mapping[str, str]) -> dict[str, Any]:
    """Return a row with the versions that it was found with, and the date and commit of the run."""
    packages = dict.fromkeys((SUITES[row["suite"]].package, *SHOWN))
    return {**row, "versions": {"python": python_version()} | {each: version(each) for each in packages}, **began}


def main() -> int:
    """Run what was chosen, keep each suite when it ends, print the table; 1 if something is new, stale or not run."""
    install()
    began = origin()  # the code that is tested
    until = time.monotonic() + 60 * float(os.environ.get("MINUTES") or 90)
    columns = (os.environ.get("COLUMN") or ",".join(COLUMNS)).split(",")
    report = Report()
    for name in (os.environ.get("SUITE") or ",".join(SUITES)).split(","):
        found = run(name, columns, until)
        keep(RESULTS / "foreign.json", [with_origin(row, began) for row in found.rows], "suite", "column")
        report.rows += found.rows
        report.not_run += found.not_run
        report.new += found.new
        report.stale += found.stale
    for line in table(report.rows):
        show(line)
    for kind in ("not_run", "new", "stale"):
        for line in getattr(report, kind):
            show(f"{kind.replace('_', ' ')}: {line}")
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
