"""Runs work in a forked process, which has all imports and no open connection."""

import multiprocessing
import signal
from collections.abc import Callable

CONTEXT = multiprocessing.get_context("fork")
PATIENCE_S = 60


def exit_code(work: Callable[[], object]) -> int | None:
    """Run `work` in a forked process; return its exit code, or minus the signal that ended it."""
    child = CONTEXT.Process(target=work)
    child.start()
    child.join(PATIENCE_S)
    if child.exitcode is None:
        child.kill()
        child.join()
    code = child.exitcode
    child.close()
    return code


def is_killed(work: Callable[[], object]) -> bool:
    """Run `work` in a forked process; return whether it was killed, or false if it came to its end."""
    code = exit_code(work)
    assert code in (0, -signal.SIGKILL), f"the child ended with {code}"
    return code != 0
