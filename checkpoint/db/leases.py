"""A thread leased to one writer: others are refused, and nothing they were told was saved is lost.

The lease stands in the thread's row and is looked at under its lock. Who holds it is known by context: what is
called inside `with saver.lease(...)`, LangGraph's background tasks included, and nothing else.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from ..errors import LeaseError
from .thread_row import Thread

LONGEST_S = 86_400.0
"""A lease that would end later than this from now was written by a clock that was wrong, and is over."""


class Lease(NamedTuple):
    """What a holder carries: its secret and how many seconds each write prolongs the lease."""

    token: str
    ttl: float


_HELD: ContextVar[Mapping[str, Lease] | None] = ContextVar("compaction_leases", default=None)


@contextmanager
def holding(thread_id: str, lease: Lease) -> Generator[None]:
    """Make this context the holder."""
    before = _HELD.set({**(_HELD.get() or {}), thread_id: lease})
    try:
        yield
    finally:
        _HELD.reset(before)


def check(thread: Thread, now: float) -> None:
    """Raise LeaseError unless this context may write to the locked thread; prolong the lease it holds."""
    mine = (_HELD.get() or {}).get(thread.thread_id)
    if mine is None:
        if is_live(thread, now):
            raise LeaseError(
                f"thread {thread.thread_id!r} is leased to another writer: write inside a lease of your own"
            )
    elif thread.lease != mine.token:
        raise LeaseError(f"the lease of thread {thread.thread_id!r} has ended and others may have written since")
    else:
        thread.lease_until = now + mine.ttl


def take(thread: Thread, lease: Lease, now: float) -> bool:
    """Take the locked thread's lease; False where another writer holds it."""
    if is_live(thread, now):
        return False
    thread.lease, thread.lease_until = lease.token, now + lease.ttl
    return True


def release(thread: Thread, lease: Lease) -> None:
    """Give the locked thread's lease back, unless another writer has it by now."""
    if thread.lease == lease.token:
        thread.lease = thread.lease_until = None


def is_live(thread: Thread, now: float) -> bool:
    """Say whether somebody holds the thread."""
    return thread.lease is not None and thread.lease_until is not None and now < thread.lease_until <= now + LONGEST_S
