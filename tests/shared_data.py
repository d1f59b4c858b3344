"""Where the real recorded conversations lie: beside the project, never inside it."""

import os
from pathlib import Path

import pytest

_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(name: str) -> Path:
    """Return a path in the shared data; without it the test is skipped, or fails where `CI` is set."""
    path = _DATA / name
    if not path.exists():
        reason = f"the recorded conversations are not there: ../shared/data/{name}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path
