"""Writes what a command found into a file of `benchmarks/results`, each row with its date and commit; reads it."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results"


def origin() -> dict[str, str]:
    """Return today's date and the commit that is checked out; `-dirty` follows it where files were changed."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {"date": datetime.now(UTC).date().isoformat(), "commit": described.stdout.strip() or "unknown"}


def read(name: str) -> Any:
    """Return what the file of results with this name holds."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def keep(path: Path, rows: Iterable[Mapping[str, Any]], *names: str) -> None:
    """Write rows into a file, each in place of the one that has the same values under these names."""
    kept = [*(json.loads(path.read_text(encoding="utf-8")) if path.exists() else ()), *rows]
    by_name = {tuple(row[name] for name in names): row for row in kept}
    path.write_text(json.dumps(list(by_name.values()), indent=1) + "\n", encoding="utf-8")
