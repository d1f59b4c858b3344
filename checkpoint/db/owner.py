"""The owner of work that a process has begun, and whether the owner's process may still run."""

import os
from functools import cache
from pathlib import Path
from uuid import uuid4

_BOOT, _PROCESSES = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")


@cache
def owner() -> str:
    """Return the owner that this process records: where its number is valid, this number, and a random identity.

    Containers may share a host name and process numbers, so only the random identity tells them apart.
    """
    return f"{_place()}/{os.getpid()}/{uuid4().hex}"


def may_run(recorded: str) -> bool:
    """Whether the process of a recorded owner may still run. One that cannot be checked from here counts so."""
    place, _, process = recorded.rpartition("/")[0].rpartition("/")
    if not place or place != _place() or not process.isdigit():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@cache
def _place() -> str:
    """Return the start of the system and the namespace in which process numbers are valid; "" if they are unknown."""
    try:
        return f"{_BOOT.read_text().strip()}/{_PROCESSES.readlink()}"
    except OSError:  # another system than Linux
        return ""


_place()  # read when the module is imported: a run may read no file on its event loop
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=owner.cache_clear)
