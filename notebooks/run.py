"""Execute every notebook in this folder; fail where a cell fails or prints something else than is committed.

    python notebooks/run.py [--write]

With `--write` the outputs are written back into the notebooks.
"""

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def printed(notebook: Any) -> list[str]:
    """The text that each code cell printed; where the log's lines fall between it is left to chance."""
    cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    return ["".join(out.text for out in cell.outputs if out.get("name") == "stdout") for cell in cells]


def execute(path: Path, *, write: bool) -> list[str]:
    """Run one notebook; returns what is wrong with it."""
    committed = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)
    NotebookClient(fresh, timeout=120, kernel_name="python3").execute(cwd=str(FOLDER))
    if write:
        for cell in fresh.cells:
            cell.metadata.pop("execution", None)  # wall times would differ each time
        nbformat.write(fresh, path)
        return []
    pairs = zip(printed(committed), printed(fresh), strict=True)
    return [
        f"{path.name}, code cell {n}: prints {b!r}, committed {a!r}" for n, (a, b) in enumerate(pairs, 1) if a != b
    ]


def main() -> int:
    """Run all."""
    wrong: list[str] = []
    for path in sorted(FOLDER.glob("*.ipynb")):
        wrong += execute(path, write="--write" in sys.argv)
        sys.stdout.write(f"{path.name}: executed\n")
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
