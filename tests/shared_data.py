"""Where the real recorded conversations lie: beside the project, never inside it."""

import os
from pathlib import Path

import pytest

_GIVEN = os.environ.get("COMPACTION_DATA")
DATA = Path(_GIVEN) if _GIVEN else Path(__file__).resolve().parents[2] / "shared" / "data"
"""The folder of the recordings: `COMPACTION_DATA`, else `../shared/data` beside the project."""

RECORDINGS = ("tau-bench-airline", "pi-session", "swe-agent", "openhands")


def recordings_found() -> str:
    """One line that says which recordings are there, and how those that are not can be named."""
    absent = [name for name in RECORDINGS if not (DATA / name).is_dir()]
    if not absent:
        return f"recordings: all, in {DATA}"
    there = ", ".join(name for name in RECORDINGS if name not in absent) or "none"
    return f"recordings: {there}; absent: {', '.join(absent)} (`make data` fetches them)"


def shared_data(name: str) -> Path:
    """Return a path in the recordings; without it the test is skipped, or fails where `COMPACTION_DATA` is set."""
    path = DATA / name
    if not path.exists():
        if _GIVEN:
            pytest.fail(f"COMPACTION_DATA names {DATA}, which lacks {name}")
        pytest.skip(
            "the recorded conversations are absent: `make data` fetches them, or COMPACTION_DATA names their folder"
        )
    return path
