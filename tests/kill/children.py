"""Work done in a process forked from this one, which has imported everything and holds no connection."""

import multiprocessing
import signal
from collections.abc import Callable

CONTEXT = multiprocessing.get_context("fork")
PATIENCE_S = 60


def exit_code(work: Callable[[], object]) -> int | None:
    """Run `work` in a forked process and wait for its end; the exit code, or minus the signal that ended it."""
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
    """Run `work` in a forked process; whether it was killed, as it must be, or came to its end."""
    code = exit_code(work)
    assert code in (0, -signal.SIGKILL), f"the child ended with {code}"
    return code != 0
