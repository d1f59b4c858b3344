"""The owner of work that a process has begun, and whether the owner's process may still run."""

import os
import socket


def owner() -> str:
    """Return the owner that this process records: the name of this host and the number of this process."""
    return f"{socket.gethostname()}/{os.getpid()}"


def may_run(recorded: str) -> bool:
    """Whether the process of a recorded owner may still run. One on another host cannot be checked, and counts so."""
    host, _, process = recorded.rpartition("/")
    if host != socket.gethostname() or not process.isdigit():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
