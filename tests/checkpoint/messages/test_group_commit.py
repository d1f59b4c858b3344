import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any

import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.checkpoint.db.thread_row import Lease, Thread, check_lease, holding_lease
from langgraph_compaction.checkpoint.errors import LeaseError
from langgraph_compaction.checkpoint.messages.group_commit import GroupCommit
from langgraph_compaction.checkpoint.messages.message_store import (
    MessageStore,
)
from langgraph_compaction.checkpoint.messages.sequence_runs import (
    Runs,
)
from tests.checkpoint.listening import listening
from tests.checkpoint.samples import talk

STORE = MessageStore()
PATIENCE_S = 20
Work = Callable[[sa.Connection, Thread], Any]


@pytest.fixture
def together(database: Database) -> GroupCommit:
    """Return what groups the writers of a database of each kind."""
    return GroupCommit(database, STORE)


def waiting(together: GroupCommit) -> int:
    """Return how many wait while somebody writes."""
    return sum(len(queue._jobs) for queues in together._queues.values() for queue in queues.values())


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


def say(number: int) -> Work:
    """Return work that stores a message."""

    def work(conn: sa.Connection, thread: Thread) -> Runs:
        return STORE.put(conn, thread, talk(1, start=number))

    return work


def broken(_conn: sa.Connection, _thread: Thread) -> Any:
    """Fail."""
    raise ZeroDivisionError


def meet(
    together: GroupCommit, jobs: Sequence[tuple[str, Work]], contexts: Sequence[Context] = ()
) -> list[Future[Any]]:
    """Let the first write until all others wait for it, in their order, and return what became of each."""
    entered, runs = threading.Event(), [one.run for one in contexts] or [Context().run for _ in jobs]

    def lead(conn: sa.Connection, thread: Thread) -> Any:
        if not entered.is_set():
            entered.set()
            wait_for(lambda: waiting(together) == len(jobs) - 1)
        return jobs[0][1](conn, thread)

    with ThreadPoolExecutor(len(jobs)) as pool:
        found = [pool.submit(runs[0], together.run, jobs[0][0], lead)]
        wait_for(entered.is_set)
        for run, (thread_id, work) in zip(runs[1:], jobs[1:], strict=True):
            found.append(pool.submit(run, together.run, thread_id, work))
            wait_for(lambda: waiting(together) >= len(found) - 1 or found[0].done())
    return found


@contextmanager
def commits(database: Database) -> Generator[list[None]]:
    """Count the transactions that are committed."""
    counted: list[None] = []

    def count(_conn: object) -> None:
        counted.append(None)

    with listening(database.engine, "commit", count):
        yield counted


def said(database: Database, thread_id: str) -> list[str | None]:
    """Return the ids of a thread's messages, in the order in which they were stored."""
    with database.read() as conn:
        thread = STORE.find(conn, thread_id, lock=False)
        if thread is None:
            return []
        found = STORE.get(conn, thread, ((0, thread.next_seq),) if thread.next_seq else ())
        return [message.id for message in found]


def ids(*numbers: int) -> list[str | None]:
    """Return the ids of messages by their numbers."""
    return [talk(1, start=number)[0].id for number in numbers]


def test_who_waits_is_written_with_who_writes(database: Database, together: GroupCommit, thread_id: str) -> None:
    """Four writers of one conversation make one transaction, in their order, and each gets its own answer."""
    with commits(database) as counted:
        found = meet(together, [(thread_id, say(number)) for number in range(4)])
    assert [one.result() for one in found] == [((number, 1),) for number in range(4)]
    assert len(counted) == 1
    assert said(database, thread_id) == ids(0, 1, 2, 3)


@pytest.mark.parametrize("culprit", range(3))
def test_an_error_reaches_only_who_caused_it(
    database: Database, together: GroupCommit, thread_id: str, culprit: int
) -> None:
    """What was written with work that fails is written again without it, under numbers without a gap."""
    jobs = [(thread_id, say(number)) for number in range(3)]
    jobs[culprit] = (thread_id, broken)
    found = meet(together, jobs)
    assert isinstance(found.pop(culprit).exception(), ZeroDivisionError)
    assert [one.result() for one in found] == [((0, 1),), ((1, 1),)]
    assert said(database, thread_id) == ids(*(number for number in range(3) if number != culprit))


def test_a_lease_is_that_of_who_asks_and_not_of_who_writes(
    database: Database, together: GroupCommit, thread_id: str
) -> None:
    """A writer without the lease is refused, although the holder's thread would have written for it."""
    lease = Lease("secret", 60.0)

    def taken(_conn: sa.Connection, thread: Thread) -> None:
        thread.lease, thread.lease_until = lease.token, 1_060.0

    def checked(number: int) -> Work:
        def work(conn: sa.Connection, thread: Thread) -> Any:
            check_lease(thread, 1_000.0)
            return say(number)(conn, thread)

        return work

    together.run(thread_id, taken)
    with holding_lease(thread_id, lease):
        holder = copy_context()
    jobs = [(thread_id, checked(number)) for number in range(3)]
    first, second, third = meet(together, jobs, [holder, holder.copy(), Context()])
    assert (first.result(), second.result()) == (((0, 1),), ((1, 1),))
    assert isinstance(third.exception(), LeaseError)
    assert said(database, thread_id) == ids(0, 1)


@pytest.fixture
def interruptible() -> Generator[None]:
    """Let SIGINT interrupt, also where the shell that started the tests has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("fails", [False, True])
def test_ctrl_c_while_waiting_takes_back_what_was_to_be_written(
    database: Database, together: GroupCommit, thread_id: str, fails: bool
) -> None:
    """Who is interrupted is gone from the queue, and those behind are written."""
    entered = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def lead(conn: sa.Connection, thread: Thread) -> Any:
        entered.set()
        wait_for(lambda: waiting(together) == 1)
        signal.pthread_kill(main, signal.SIGINT)
        wait_for(lambda: waiting(together) == 0)
        return (broken if fails else say(0))(conn, thread)

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(together.run, thread_id, lead)
        wait_for(entered.is_set)
        with pytest.raises(KeyboardInterrupt):
            together.run(thread_id, say(1))
        assert isinstance(found.exception(PATIENCE_S), ZeroDivisionError) == fails
    together.run(thread_id, say(2))
    assert said(database, thread_id) == ids(*([] if fails else [0]), 2)
