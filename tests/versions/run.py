"""Runs a part of the tests with the oldest, the pinned and the newest versions, on each Python that is installed.

`python -m tests.versions.run oldest pinned newest types` runs all; each name alone runs its part.
`oldest` installs exactly the lowest versions that pyproject.toml allows, `newest` what pip chooses without
constraints, `pinned` what constraints.txt says, each into an environment of its own (`pinned` uses .venv where that
has the wanted Python); `types` runs both type checkers in .venv for every supported version of Python.

`--python` names versions of Python such as `3.12,3.13`, or `every` for all that are found on PATH and in pyenv's
folder; without it, the tests run on the Python that runs this file. Prints a table at the end. Exits with 1 if a
part fails, after the others. Needs no package.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MADE: Final = ROOT / ".make"
KINDS: Final = ("oldest", "pinned", "newest", "types")
NOT_BUILT: Final = shutil.ignore_patterns(".*", "build", "*.egg-info", "benchmarks", "docs", "notebooks", "tests")
SHOWN: Final = (
    "langgraph",
    "langgraph-checkpoint",
    "langchain-core",
    "langchain",
    "langchain-openai",
    "sqlalchemy",
    "tenacity",
    "pydantic",
)
COUNT: Final = """
from importlib.metadata import requires
from packaging.requirements import Requirement
found, waiting = set(), ["langgraph-compaction"]
while waiting:
    name = waiting.pop().lower().replace("_", "-")
    if name not in found:
        found.add(name)
        needed = map(Requirement, requires(name) or ())
        waiting += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
print(len(found))
"""
"""Prints how many packages an installation without extras is, this one among them."""
USABLE: Final = "import ensurepip, sqlite3, ssl, venv, platform; print(platform.python_version())"
"""Prints the version of a Python that can make an environment; a shim of pyenv for another version ends with 127."""
PYTHONS: Final = tuple(
    found[1]
    for classifier in PROJECT["classifiers"]
    if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier))
)
"""The supported versions of Python."""
THIS: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
EXTRAS: Final = ("cli", "postgres", "mysql", "encryption", "langchain", "otel")
TESTS: Final = (
    "tests/net/test_net.py::test_a_long_conversation_stays_within_its_window",
    "tests/net/test_net.py::test_a_run_that_died_goes_on_in_another_process",
    "tests/graph/test_event_loop.py",
    "tests/graph/test_tracing.py",
    "tests/graph/middleware/test_runnables.py",
    "tests/nodes/runtime/test_summarizer_call.py",
    "tests/nodes/providers/test_overflow.py",
    "tests/checkpoint/contract/test_graphs.py",
    "tests/checkpoint/messages/test_allowed_types.py",
)
"""Turns at every door, the event loop, spans and the checkpointer: what touches the packages above."""


def floors() -> Iterator[str]:
    """Yield a constraint of pip for each package that the project or one of these extras names."""
    groups = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in EXTRAS)]
    for requirement in sorted({each for group in groups for each in group}):
        if found := re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", requirement):
            yield f"{found[1]}=={found[2]}"


def run(*command: str | Path) -> None:
    """Run a command in the project's folder; raise `CalledProcessError` where it fails."""
    subprocess.run(command, cwd=ROOT, check=True)


def said(*command: str | Path) -> str:
    """Return what a command prints."""
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def candidates(python: str) -> Iterator[Path]:
    """Yield where this version of Python may be: this one, on PATH, in pyenv's folder with the newest first."""
    if python == THIS:
        yield Path(sys.executable)
    for folder in os.get_exec_path():
        yield Path(folder) / f"python{python}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = (path for path in pyenv.glob(f"{python}.*/bin/python") if re.fullmatch(r"[\d.]+", path.parts[-3]))
    yield from sorted(found, key=lambda path: [int(part) for part in path.parts[-3].split(".")], reverse=True)


def interpreter(python: str) -> Path | None:
    """Return the first Python of this version that can make an environment; None if there is none."""
    for path in candidates(python):
        if path.exists():
            told = subprocess.run([path, "-c", USABLE], capture_output=True, text=True, check=False)
            if told.returncode == 0 and told.stdout.startswith(f"{python}."):
                return path
    return None


def place(kind: str, python: str) -> Path:
    """Return the folder of the environment for these versions on this Python."""
    usual = ROOT / ".venv"
    if kind == "pinned" and (usual / "bin" / f"python{python}").exists():
        return usual
    return ROOT / f".venv-{kind}-{python}"


def install(kind: str, python: str) -> None:
    """Make an environment anew, with the project, its extras and the tests' own packages."""
    options: list[str | Path] = []
    if kind == "oldest":
        (MADE / "oldest.txt").write_text("\n".join(floors()))
        options = ["-c", MADE / "oldest.txt"]
    elif kind == "pinned":
        options = ["-c", "constraints.txt"]
    found = interpreter(python)
    if found is None:
        raise FileNotFoundError(f"no Python {python} that can make an environment is on PATH or in pyenv's folder")
    folder = place(kind, python)
    shutil.rmtree(folder, ignore_errors=True)
    run(found, "-m", "venv", "--upgrade-deps", folder)
    pip = (folder / "bin/pip", "--disable-pip-version-check", "install", "-q")
    with tempfile.TemporaryDirectory() as copy:  # setuptools builds in the source folder: two at once would mix there
        source = shutil.copytree(ROOT, Path(copy) / "source", ignore=NOT_BUILT)
        run(*pip, f"{source}[{','.join(EXTRAS)}]", "--group", "test-versions", *options)


def test(kind: str, python: str) -> dict[str, Any]:
    """Install an environment, run the tests in it, and return what the row says of them."""
    MADE.mkdir(exist_ok=True)
    folder = place(kind, python)
    if folder != ROOT / ".venv":
        install(kind, python)
    listed = json.loads(said(folder / "bin/pip", "--disable-pip-version-check", "list", "--format=json"))
    versions = {each["name"].lower(): each["version"] for each in listed}
    shown = {each: versions[each] for each in SHOWN}
    show(f"{kind}, Python {python}: {', '.join(map(' '.join, shown.items()))}")
    results = MADE / f"versions-{kind}-{python}.xml"
    results.unlink(missing_ok=True)
    command = [folder / "bin/pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={results}", *TESTS]
    done = subprocess.run(command, cwd=ROOT, check=False)
    if not results.exists():  # it was killed, or could not collect the tests
        done.check_returncode()
    release = said(folder / "bin/python", "-c", "import platform; print(platform.python_version())").strip()
    packages = int(said(folder / "bin/python", "-c", COUNT))
    found = {"release": release, "versions": shown, "packages": packages, **counts(results)}
    return {**found, "ok": done.returncode == 0}


def counts(results: Path) -> dict[str, int]:
    """Return how many tests passed, failed and were skipped, from the file that pytest writes when it has run."""
    [suite] = ET.parse(results).getroot().iter("testsuite")  # noqa: S314 - our own file
    of = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    failed = of["failures"] + of["errors"]
    return {"passed": of["tests"] - failed - of["skipped"], "failed": failed, "skipped": of["skipped"]}


def check(python: str) -> dict[str, Any]:
    """Run both type checkers for a version of Python and return what the row says of them."""
    bin_ = ROOT / ".venv" / "bin"
    failed = [
        name
        for name, option in (("mypy", "--python-version"), ("pyright", "--pythonversion"))
        if subprocess.run([bin_ / name, option, python], cwd=ROOT, check=False).returncode
    ]
    return {"failed_checkers": failed, "ok": not failed}


def cells(kinds: Iterable[str], pythons: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the kind of versions and the Python version of each cell to run.

    The type checkers take every Python version, because they do not need that Python installed.
    """
    chosen = list(pythons)
    for kind in kinds:
        for python in PYTHONS if kind == "types" else chosen:
            yield kind, python


def row(kind: str, python: str, work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row of a part; a command that fails is a result, too."""
    began = time.monotonic()
    try:
        found = work()
    except (subprocess.CalledProcessError, OSError) as error:
        show(f"{kind}, Python {python}: {error}")
        found = {"error": type(error).__name__, "ok": False}
    return {"kind": kind, "python": python, **found, "seconds": round(time.monotonic() - began)}


def cell(row: Mapping[str, Any] | None) -> str:
    """Return the text of a cell of the table: how many tests passed and failed, or whether the type checkers did."""
    if row is None:
        return ""
    if "passed" in row:
        return f"{row['passed']} passed" + (f", {row['failed']} failed" if row["failed"] else "")
    return "passed" if row["ok"] else "failed"


def table(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table of these rows."""
    found = {(row["kind"], row["python"]): row for row in rows}
    yield f"| Python | {' | '.join(KINDS)} |"
    yield f"|---{'|---' * len(KINDS)}|"
    for python in PYTHONS:
        yield f"| {python} | {' | '.join(cell(found.get((kind, python))) for kind in KINDS)} |"


def show(line: str) -> None:
    """Print a line at once, before the lines of the next process."""
    print(line, flush=True)  # noqa: T201 - a command's output


def main(arguments: list[str]) -> int:
    """Run what was chosen and print the table; 1 if a part failed."""
    parser = argparse.ArgumentParser(description="Runs a part of the tests with several versions.")
    parser.add_argument("kinds", nargs="+", choices=KINDS)
    parser.add_argument("--python", default=THIS, help="versions with commas between, or `every`")
    options = parser.parse_args(arguments)
    every = options.python == "every"
    pythons = [each for each in PYTHONS if interpreter(each)] if every else options.python.split(",")
    rows = list[dict[str, Any]]()
    for kind, python in cells(options.kinds, pythons):
        rows.append(row(kind, python, lambda: check(python) if kind == "types" else test(kind, python)))  # noqa: B023 - called at once
    for line in table(rows):
        show(line)
    return int(not all(each["ok"] for each in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
