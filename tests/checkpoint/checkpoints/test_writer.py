"""Writers that wait for each other share a transaction, and nothing else."""

import linecache
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from types import FrameType
from typing import Any

import pytest

from langgraph_compaction.checkpoint import Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.checkpoints.writer import Change, Writer, _Turns
from langgraph_compaction.checkpoint.db.thread_row import Lease, Threads, check_lease, holding_lease
from langgraph_compaction.checkpoint.errors import LeaseError
from langgraph_compaction.checkpoint.messages import items
from langgraph_compaction.checkpoint.messages.message_codec import loads, stored_bytes
from tests.checkpoint.contract.steps import Steps
from tests.checkpoint.samples import talk

PATIENCE_S = 20
Work = Callable[[Change], None]


@pytest.fixture
def threads(database: Database) -> Threads:
    """Return the thread rows of a database of each kind."""
    return Threads(known=database.known_threads)


@pytest.fixture
def writer(database: Database, threads: Threads) -> Writer:
    """Return what writes to a database of each kind."""
    return Writer(database, threads)


def waiting(writer: Writer, thread_id: str) -> int:
    """Return how many wait while somebody writes."""
    return len(writer._turns(thread_id).waiting()) - 1


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


def say(number: int) -> Work:
    """Return work that stores a message."""

    def work(change: Change) -> None:
        change.batch.add_message(stored_bytes(talk(1, start=number)[0]))

    return work


def broken(_change: Change) -> None:
    """Fail."""
    raise ZeroDivisionError


def meet(writer: Writer, jobs: Sequence[tuple[str, Work]], contexts: Sequence[Context] = ()) -> list[Future[Any]]:
    """Let one write until the jobs wait for it, in their order, and return what became of each job."""
    entered, runs = threading.Event(), [one.run for one in contexts] or [Context().run for _ in jobs]
    thread_id = jobs[0][0]

    def lead(_change: Change) -> None:
        entered.set()
        wait_for(lambda: waiting(writer, thread_id) == len(jobs))

    with ThreadPoolExecutor(len(jobs) + 1) as pool:
        leader = pool.submit(writer.run, thread_id, lead)
        wait_for(entered.is_set)
        found: list[Future[Any]] = []
        for run, (name, work) in zip(runs, jobs, strict=True):
            found.append(pool.submit(run, writer.run, name, work))
            wait_for(lambda: waiting(writer, thread_id) >= len(found) or leader.done())
    leader.result()
    return found


def said(database: Database, thread_id: str) -> list[str | None]:
    """Return the ids of a thread's messages, in the order in which they were stored."""
    with database.read() as conn:
        thread = Threads().find(conn, thread_id, lock=False)
        if thread is None:
            return []
        found: dict[int, bytes] = {}
        items.open_rows(thread.codec, items.all_rows(conn, thread), found)
        assert [*found] == [*range(thread.next_seq)]
        return [loads(body).id for body in found.values()]


def ids(*numbers: int) -> list[str | None]:
    """Return the ids of messages by their numbers."""
    return [talk(1, start=number)[0].id for number in numbers]


def test_who_waits_is_written_with_who_waits(
    database: Database, writer: Writer, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four writers of one conversation write together after the one that they waited for, in their order."""
    written: list[Change] = []
    committed = Writer._note_committed
    monkeypatch.setattr(Writer, "_note_committed", lambda self, change: written.append(committed(self, change)))
    found = meet(writer, [(thread_id, say(number)) for number in range(4)])
    assert len({one.result() for one in found}) == 1
    assert len(written) == 2
    assert said(database, thread_id) == ids(0, 1, 2, 3)


@pytest.mark.parametrize("culprit", range(3))
def test_an_error_reaches_only_who_caused_it(
    database: Database, writer: Writer, thread_id: str, culprit: int
) -> None:
    """What was written with work that fails is written again without it, under numbers without a gap."""
    jobs = [(thread_id, say(number)) for number in range(3)]
    jobs[culprit] = (thread_id, broken)
    found = meet(writer, jobs)
    assert isinstance(found.pop(culprit).exception(), ZeroDivisionError)
    assert all(one.exception() is None for one in found)
    assert said(database, thread_id) == ids(*(number for number in range(3) if number != culprit))


def test_a_lease_is_that_of_who_asks_and_not_of_who_writes(
    database: Database, writer: Writer, threads: Threads, thread_id: str
) -> None:
    """A writer without the lease is refused, and its holder is not, whoever writes for them."""
    lease = Lease("secret", 60.0)
    with database.write() as conn:
        thread = threads.lock(conn, thread_id)
        thread.lease, thread.lease_until = lease.token, 1_060.0
        threads.save(conn, thread)

    def checked(number: int) -> Work:
        def work(change: Change) -> None:
            check_lease(change.thread, 1_000.0)
            say(number)(change)

        return work

    with holding_lease(thread_id, lease):
        holder = copy_context()
    for contexts in ([holder, Context(), holder.copy()], [Context(), holder, Context()]):
        jobs = [(thread_id, checked(number)) for number in range(3)]
        for one, context in zip(meet(writer, jobs, contexts), contexts, strict=True):
            assert isinstance(one.exception(), LeaseError) == (lease not in context_leases(context, thread_id))
    assert said(database, thread_id) == ids(0, 2, 1)


def context_leases(context: Context, thread_id: str) -> list[Lease]:
    """Return the lease that a context holds on a thread."""
    held = [value for variable, value in context.items() if variable.name == "compaction_leases" and value]
    return [one[thread_id] for one in held]


@pytest.fixture
def interruptible() -> Generator[None]:
    """Let SIGINT interrupt, also where the shell that started the tests has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("fails", [False, True])
def test_ctrl_c_while_waiting_takes_back_what_was_to_be_written(
    database: Database, writer: Writer, thread_id: str, fails: bool
) -> None:
    """Who is interrupted is gone from the queue, and those behind are written."""
    entered = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def lead(change: Change) -> None:
        if not entered.is_set():  # work that fails is tried in a transaction again
            entered.set()
            wait_for(lambda: waiting(writer, thread_id) == 1)
            signal.pthread_kill(main, signal.SIGINT)
            wait_for(lambda: waiting(writer, thread_id) == 0)
        (broken if fails else say(0))(change)

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(writer.run, thread_id, lead)
        wait_for(entered.is_set)
        with pytest.raises(KeyboardInterrupt):
            writer.run(thread_id, say(1))
        assert isinstance(found.exception(PATIENCE_S), ZeroDivisionError) == fails
    writer.run(thread_id, say(2))
    assert said(database, thread_id) == ids(*([] if fails else [0]), 2)


@pytest.mark.parametrize("fails", [False, True])
def test_ctrl_c_of_who_writes_for_others_loses_nothing(
    database: Database, writer: Writer, thread_id: str, fails: bool
) -> None:
    """Wherever the writer of a queue is interrupted, those who wait are written, and nobody waits for ever."""
    place, ended = 0, False
    while not ended:
        place, name = place + 1, f"{thread_id}-{place}"
        turns = writer._turns(name)
        turns.lock = lock = threading.RLock()  # type: ignore[assignment] # this OS thread leads, with others in the queue
        with ThreadPoolExecutor(2) as pool:
            with lock:
                found = [pool.submit(writer.run, name, say(number)) for number in range(2)]
                wait_for(partial(has, turns, 2))
                with suppress(ZeroDivisionError), interrupted_at(place) as state:
                    writer.run(name, broken if fails else say(2))
                ended = not state.reached
            for one in found:
                one.result(PATIENCE_S)
        assert {*ids(0, 1)} <= {*said(database, name)}


def has(turns: _Turns, count: int) -> bool:
    """Whether this many wait for their turn."""
    return len(turns.waiting()) == count


class Interrupt:
    """Raises KeyboardInterrupt at one of the lines in which a writer handles its queue."""

    def __init__(self, place: int) -> None:
        self.left = place
        self.reached = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Any:
        """Count the lines; not those of a `with`, where Python lets no interrupt keep the lock from its release."""
        if frame.f_code not in QUEUE:
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and not line.startswith("with "):
            self.left -= 1
            if not self.left:
                self.reached = True
                raise KeyboardInterrupt
        return self


QUEUE = frozenset(one.__code__ for one in (Writer._take_turn, Writer._lead, Writer._write))


@contextmanager
def interrupted_at(place: int) -> Generator[Interrupt]:
    """Interrupt the `with` block at the line with this number, if there is one."""
    interrupt, before = Interrupt(place), sys.gettrace()
    sys.settrace(interrupt)
    try:
        with suppress(KeyboardInterrupt):
            yield interrupt
    finally:
        sys.settrace(before)


ERASURES: dict[str, Callable[[SQLAlchemySaver], object]] = {
    "delete": lambda saver: saver.delete_thread("t"),
    "delete runs": lambda saver: saver.delete_for_runs(["run"]),
    "prune": lambda saver: saver.prune(["t"]),
    "sweep": lambda saver: saver.sweep(older_than=-60),
}


@pytest.mark.parametrize("erase", ERASURES.values(), ids=ERASURES)
def test_what_is_erased_is_forgotten_at_once(erase: Callable[[SQLAlchemySaver], object]) -> None:
    """Nothing of an erased thread is remembered, and not only when there are many others."""
    with SQLAlchemySaver.from_url("memory") as saver:
        saver.setup()
        Steps(saver, "t").put({"messages": talk(20)}, run_id="run")
        assert saver.database.known_threads.get("t") is not None
        erase(saver)
        assert saver.database.known_threads.get("t") is None
