"""Runs a part of the tests with the oldest, the pinned and the newest versions.

`python tests/versions/run.py oldest pinned newest types` runs all; each name alone runs its part.
`oldest` installs exactly the lowest versions that pyproject.toml allows, `newest` what pip chooses without
constraints, each into an environment of its own; `pinned` is .venv with constraints.txt; `types` runs both type
checkers for every supported version of Python. Prints a table at the end. Needs no package.
"""

import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENVIRONMENTS: Final = {"oldest": ".venv-oldest", "pinned": ".venv", "newest": ".venv-newest"}
SHOWN: Final = (
    "langgraph",
    "langgraph-checkpoint",
    "langchain-core",
    "langchain",
    "sqlalchemy",
    "tenacity",
    "pydantic",
)
COUNT: Final = """
import platform
from importlib.metadata import requires
from packaging.requirements import Requirement
found, waiting = set(), ["langgraph-compaction"]
while waiting:
    name = waiting.pop().lower().replace("_", "-")
    if name not in found:
        found.add(name)
        needed = map(Requirement, requires(name) or ())
        waiting += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
print(platform.python_version(), len(found))
"""
"""Prints the version of Python, and how many packages an installation without extras is, this one among them."""
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
EXTRAS: Final = ("cli", "postgres", "mysql", "encryption", "langchain", "otel")
TESTS: Final = (
    "tests/graph/test_turn.py",
    "tests/graph/test_rollback.py",
    "tests/graph/test_overflow.py",
    "tests/graph/test_event_loop.py",
    "tests/graph/middleware/test_runnables.py",
    "tests/graph/middleware/test_faults.py",
    "tests/nodes/runtime/test_summarizer_call.py",
    "tests/nodes/test_compact_messages.py",
    "tests/nodes/providers/test_overflow.py",
    "tests/checkpoint/contract/test_graphs.py",
    "tests/checkpoint/messages/test_allowed_types.py",
)
"""Turns, failures, the event loop, the middleware and the checkpointer: what touches the packages below."""


def floors() -> Iterator[str]:
    """Yield a constraint of pip for each package that the project or one of these extras names."""
    groups = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in EXTRAS)]
    for requirement in sorted({each for group in groups for each in group}):
        if found := re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", requirement):
            yield f"{found[1]}=={found[2]}"


def run(*command: str | Path) -> None:
    """Run a command in the project's folder; end with its code where it fails."""
    if code := subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(code)


def said(*command: str | Path) -> str:
    """Return what a command prints."""
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def install(name: str, *options: str | Path) -> None:
    """Make an environment anew, with the project, its extras and the tests' own packages."""
    place = ROOT / ENVIRONMENTS[name]
    shutil.rmtree(place, ignore_errors=True)
    run(sys.executable, "-m", "venv", "--upgrade-deps", place)
    pip = (place / "bin/pip", "--disable-pip-version-check", "install", "-q")
    run(*pip, f".[{','.join(EXTRAS)}]", "--group", "test-versions", *options)


def installed(name: str) -> dict[str, str]:
    """Return the version of each package in an environment, by its name in lower case."""
    lines = said(ROOT / ENVIRONMENTS[name] / "bin/pip", "list", "--format=freeze").split()
    return {package.lower(): version for package, _, version in (line.partition("==") for line in lines)}


def test(name: str) -> list[str]:
    """Install an environment, run the tests in it, and return its row of the table."""
    if name == "oldest":
        constraints = ROOT / ".make" / "oldest.txt"
        constraints.parent.mkdir(exist_ok=True)
        constraints.write_text("\n".join(floors()))
        install(name, "-c", constraints)
    elif name == "newest":
        install(name)
    bin_ = ROOT / ENVIRONMENTS[name] / "bin"
    versions = installed(name)
    shown = [versions.get(package, "-") for package in SHOWN]
    show(f"{name}: {', '.join(map(' '.join, zip(SHOWN, shown, strict=True)))}")
    began = time.monotonic()
    run(bin_ / "pytest", "-q", "-p", "no:cacheprovider", *TESTS)
    python, packages = said(bin_ / "python", "-c", COUNT).split()
    return [name, python, *shown, packages, f"passed, {time.monotonic() - began:.0f} s"]


def check(python: str) -> list[str]:
    """Run both type checkers for a version of Python and return its row of the table."""
    bin_ = ROOT / ENVIRONMENTS["pinned"] / "bin"
    run(bin_ / "mypy", "--python-version", python)
    run(bin_ / "pyright", "--pythonversion", python)
    return ["pinned", python, *[""] * len(SHOWN), "", "mypy and pyright only"]


def show(line: str) -> None:
    """Print a line at once, before the lines of the next process."""
    print(line, flush=True)  # noqa: T201 - a command's output


def main(chosen: list[str]) -> None:
    """Run what was chosen, and print the table."""
    rows = [["versions", "Python", *SHOWN, "packages", "result"]]
    for name in chosen:
        rows += [check(python) for python in PYTHONS] if name == "types" else [test(name)]
    rows.insert(1, ["---"] * len(rows[0]))
    show("\n".join(f"| {' | '.join(row)} |" for row in rows))


if __name__ == "__main__":
    main(sys.argv[1:])
