"""Execute every notebook in this folder; fail where a cell fails or prints something else than is committed.

    python notebooks/run.py [--write]

With `--write` the outputs are written back into the notebooks, but for those of cells with the tag `not_kept`. Each
is executed in a folder of its own, where it may write what it likes; the command line of this environment is on its
path. The recordings are those of `COMPACTION_DATA` (default: ../shared/data, where `make data` puts them); without
them, nothing is executed. A cell with the tag `varies` may print something else on each machine.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
DATA = Path(os.environ.get("COMPACTION_DATA") or FOLDER.resolve().parents[1] / "shared" / "data")
AT_ONCE = 2
"""Notebooks that are executed side by side; each waits for its kernel more than it works."""


def printed(notebook: Any) -> list[str]:
    """The text that each code cell printed; where the log's lines fall between it is left to chance."""
    found = (cell for cell in notebook.cells if cell.cell_type == "code")
    cells = (cell for cell in found if "varies" not in cell.metadata.get("tags", ()))
    return ["".join(out.text for out in cell.outputs if out.get("name") == "stdout") for cell in cells]


def execute(path: Path, *, write: bool) -> list[str]:
    """Run one notebook; returns what is wrong with it."""
    committed = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        NotebookClient(fresh, timeout=120, kernel_name="python3", coalesce_streams=True).execute(cwd=folder)
    if write:
        for cell in fresh.cells:
            cell.metadata.pop("execution", None)  # wall times would differ each time
            if "not_kept" in cell.metadata.get("tags", ()):
                cell.outputs = []
        nbformat.write(fresh, path)
        return []
    pairs = zip(printed(committed), printed(fresh), strict=True)
    return [
        f"{path.name}, code cell {n}: prints {b!r}, committed {a!r}" for n, (a, b) in enumerate(pairs, 1) if a != b
    ]


def main() -> int:
    """Run all."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    if not DATA.is_dir():
        sys.stderr.write(f"notebooks: not executed, {DATA} is absent: `make data` fetches it\n")
        return bool(os.environ.get("COMPACTION_DATA"))
    os.environ["COMPACTION_DATA"] = str(DATA.resolve())
    paths, wrong = sorted(FOLDER.glob("*.ipynb")), list[str]()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for path, found in zip(paths, pool.map(partial(execute, write="--write" in sys.argv), paths), strict=True):
            sys.stdout.write(f"{path.name}: executed\n")
            wrong += found
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
