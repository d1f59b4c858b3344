"""No text in a message makes a compaction take quadratic time."""

import subprocess
import sys
from pathlib import Path

import pytest

MINUTES = 5
"""Far more than all texts need together; each of them alone took longer where a pattern was quadratic."""


@pytest.mark.slow
@pytest.mark.parametrize("role", ["user", "assistant", "tool", "call"])
def test_a_compaction_of_hostile_texts_ends(role: str) -> None:
    """Whatever a user, a model, a tool or a call's argument says, the compaction comes to an end."""
    command = [sys.executable, str(Path(__file__).with_name("hostile.py")), role]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 * MINUTES, check=False)
    except subprocess.TimeoutExpired as stuck:
        pytest.fail(f"never ended: {bytes(stuck.stdout or b'').decode().splitlines()[-1:]}")
    assert done.stdout.endswith("all ended\n"), done.stdout.splitlines()[-1:] + done.stderr.splitlines()[-3:]
