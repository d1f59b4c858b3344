"""Builds the wheel and the sdist, and tries the wheel as a user installs it: in a new environment, without extras.

`python -m tests.versions.dist` writes both into `dist/`, checks what a package index checks, installs the wheel with
the newest versions of what it needs, and runs the README's first example. Prints the packages and their megabytes.
Needs no package. Raises `CalledProcessError` where a command fails.
"""

import re
import shutil
import subprocess
import tempfile
import venv
from pathlib import Path
from typing import Final

from tests.versions.run import NOT_BUILT

ROOT: Final = Path(__file__).parents[2]
DIST: Final = ROOT / "dist"
PIP: Final = ("-m", "pip", "--disable-pip-version-check")
EXAMPLE: Final = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def run(*command: str | Path, at: Path = ROOT) -> str:
    """Return what a command prints; raise `CalledProcessError` where it fails."""
    return subprocess.run(command, cwd=at, check=True, stdout=subprocess.PIPE, text=True).stdout


def new_environment(folder: Path) -> Path:
    """Return the folder of the programs of a new environment."""
    venv.create(folder, with_pip=True)
    return folder / "bin"


def pip(programs: Path, *wanted: str | Path) -> None:
    """Install into an environment."""
    run(programs / "python", *PIP, "install", "-q", *wanted)


def build(programs: Path, folder: Path) -> Path:
    """Write wheel and sdist, check them, and return the path of the wheel. `folder` gets a copy of the source."""
    shutil.rmtree(DIST, ignore_errors=True)
    source = shutil.copytree(ROOT, folder / "source", ignore=NOT_BUILT)  # setuptools writes into it
    pip(programs, "--upgrade", "pip>=25.1")  # which knows groups
    pip(programs, "--group", "dist")
    run(programs / "python", "-m", "build", "--outdir", DIST, source)  # the wheel is built from the sdist
    run(programs / "python", "-m", "twine", "check", "--strict", *DIST.iterdir())
    [wheel] = DIST.glob("*.whl")
    return wheel


def check(programs: Path, folder: Path) -> None:
    """Run the README's first example; raise `AssertionError` where it prints something else than is shown there."""
    code, shown = EXAMPLE.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    printed = run(programs / "python", "-W", "error", "-c", code, at=folder)
    assert printed == shown, printed


def main() -> None:
    """Build, try, and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(new_environment(folder / "build"), folder)
        user = new_environment(folder / "user")
        empty = megabytes(folder / "user")
        pip(user, wheel)
        check(user, folder)
        listed = run(user / "python", *PIP, "list", "--format=freeze", "--exclude=pip", "--exclude=setuptools")
        sizes = [f"{path.name}: {path.stat().st_size / 1e6:.2f} MB" for path in sorted(DIST.iterdir())]
        added = f"{len(listed.splitlines())} packages, {megabytes(folder / 'user') - empty:.0f} MB without extras"
        print(listed, *sizes, added, sep="\n")  # noqa: T201 - a command's output


def megabytes(folder: Path) -> float:
    """Return the size of all files below a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*")) / 1e6


if __name__ == "__main__":
    main()
