"""Print what a killed turn costs: `python -m tests.kill.durability_report` from the root of the repository."""

import sys
import tempfile
from pathlib import Path

from tests.kill.durability import compare


def report() -> str:
    """The comparison as a table."""
    lines = [f"{'durability':<12}{'writer':<10}{'a plain graph loses':<24}ours loses (places killed at)"]
    with tempfile.TemporaryDirectory() as folder:
        for row in compare(Path(folder)):
            ours = set().union(*row.ours.values())
            lines.append(
                f"{row.durability:<12}{row.pace:<10}{_names(row.bare):<24}{_names(ours)} ({len(row.ours)} places)"
            )
    return "\n".join(lines)


def _names(lost: set[str]) -> str:
    return ", ".join(sorted(lost)) or "nothing"


if __name__ == "__main__":
    sys.stdout.write(f"{report()}\n")
