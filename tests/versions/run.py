"""Runs a part of the tests with the oldest, the pinned and the newest versions, on each Python that is installed.

`python -m tests.versions.run oldest pinned newest types` runs all; each name alone runs its part.
`oldest` installs exactly the lowest versions that pyproject.toml allows, `newest` what pip chooses without
constraints, `pinned` what constraints.txt says, each into an environment of its own (`pinned` uses .venv where that
has the wanted Python); `types` runs both type checkers in .venv for every supported version of Python.

`--python` names versions of Python such as `3.12,3.13`, or `every` for all that are found on PATH and in pyenv's
folder; without it, the tests run on the Python that runs this file. Prints how each part ended. Exits with 1 if a
part fails, after the others. Needs no package.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
KINDS: Final = ("oldest", "pinned", "newest", "types")
NOT_BUILT: Final = shutil.ignore_patterns(".*", "build", "*.egg-info", "benchmarks", "docs", "notebooks", "tests")
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
"""Turns at every door, the event loop, spans and the checkpointer: what touches the packages that may vary."""


def floors() -> Iterator[str]:
    """Yield a constraint of pip for each package that the project or one of these extras names."""
    groups = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in EXTRAS)]
    for requirement in sorted({each for group in groups for each in group}):
        if found := re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", requirement):
            yield f"{found[1]}=={found[2]}"


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


def install(kind: str, python: str, folder: Path) -> None:
    """Make an environment anew, with the project, its extras and the tests' own packages."""
    options: list[str | Path] = ["-c", "constraints.txt"] if kind == "pinned" else []
    if kind == "oldest":
        (made := ROOT / ".make").mkdir(exist_ok=True)
        (made / "oldest.txt").write_text("\n".join(floors()))
        options = ["-c", made / "oldest.txt"]
    found = interpreter(python)
    if found is None:
        raise FileNotFoundError(f"no Python {python} that can make an environment is on PATH or in pyenv's folder")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([found, "-m", "venv", "--upgrade-deps", folder], check=True)
    pip = (folder / "bin/pip", "--disable-pip-version-check", "install", "-q")
    with tempfile.TemporaryDirectory() as copy:  # setuptools builds in the source folder: two at once would mix there
        source = shutil.copytree(ROOT, Path(copy) / "source", ignore=NOT_BUILT)
        run(*pip, f"{source}[{','.join(EXTRAS)}]", "--group", "test-versions", *options)


def run(*command: str | Path) -> None:
    """Run a command in the project's folder; raise `CalledProcessError` where it fails."""
    subprocess.run(command, cwd=ROOT, check=True)


def test(kind: str, python: str) -> None:
    """Run the tests in an environment with these versions."""
    folder = ROOT / ".venv"
    if kind != "pinned" or not (folder / "bin" / f"python{python}").exists():
        install(kind, python, folder := ROOT / f".venv-{kind}-{python}")
    run(folder / "bin/pip", "--disable-pip-version-check", "list")
    run(folder / "bin/pytest", "-q", "-p", "no:cacheprovider", *TESTS)


def check(python: str) -> None:
    """Run both type checkers for a version of Python."""
    for name, option in (("mypy", "--python-version"), ("pyright", "--pythonversion")):
        run(ROOT / ".venv" / "bin" / name, option, python)


def main(arguments: list[str]) -> int:
    """Run what was chosen and print how it ended; 1 if a part failed."""
    parser = argparse.ArgumentParser(description="Runs a part of the tests with several versions.")
    parser.add_argument("kinds", nargs="+", choices=KINDS)
    parser.add_argument("--python", default=THIS, help="versions with commas between, or `every`")
    options = parser.parse_args(arguments)
    every = options.python == "every"
    pythons = [each for each in PYTHONS if interpreter(each)] if every else options.python.split(",")
    ended = list[str]()
    failed = False
    for kind in options.kinds:  # the type checkers need no Python but this one
        for python in PYTHONS if kind == "types" else pythons:
            try:
                check(python) if kind == "types" else test(kind, python)
            except (subprocess.CalledProcessError, OSError) as error:
                failed = True
                ended.append(f"{kind}, Python {python}: {error}")
            else:
                ended.append(f"{kind}, Python {python}: passed")
    print("\n".join(ended), flush=True)  # noqa: T201 - a command's output
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
