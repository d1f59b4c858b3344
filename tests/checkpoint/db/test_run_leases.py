"""The leases by which the runs of one thread take turns, in each database."""

import os
import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.checkpoint.db import run_leases, tables
from langgraph_compaction.checkpoint.db.owner import owner
from langgraph_compaction.checkpoint.db.run_leases import LEASE_S, PLACE_S, RunLease, StoredRunLeases
from langgraph_compaction.checkpoint.db.thread_row import LONGEST_LEASE_S
from langgraph_compaction.checkpoint.errors import DatabaseError
from tests.checkpoint.samples import Clock


def stored(database: Database, lease: RunLease) -> int:
    """How many rows the database holds of a lease."""
    with database.read() as conn:
        return len(conn.execute(sa.select(tables.run_lease).where(tables.run_lease.c.token == lease.token)).all())


def rewrite(database: Database, lease: RunLease, **values: object) -> None:
    """Change a stored lease."""
    with database.write() as conn:
        conn.execute(sa.update(tables.run_lease).where(tables.run_lease.c.token == lease.token).values(values))


def test_one_at_a_time(database: Database, thread_id: str) -> None:
    """A lease is given to one run, again to the same run, and to the next one when it is given back."""
    first, second = StoredRunLeases(database), StoredRunLeases(database)
    mine, yours = RunLease(thread_id), RunLease(thread_id)
    assert first.take(mine)
    assert first.take(mine)  # a transaction that is repeated after a lost connection
    assert not second.take(yours)
    assert second.take(RunLease(f"another {thread_id}"))
    second.release(yours)  # that it does not hold
    assert not second.take(RunLease(thread_id))
    first.release(mine)
    assert second.take(RunLease(thread_id))


def test_a_lease_has_the_name_that_other_versions_give_it() -> None:
    """Several versions of the package may use one database, and each must find the leases of the others."""
    database = Database.open("memory")
    database.setup()
    leases, first, waiting = StoredRunLeases(database), RunLease("t"), RunLease("t")
    assert leases.take(first)
    assert not leases.take(waiting)
    with database.read() as conn:
        names = set(conn.execute(sa.select(tables.run_lease.c.name)).scalars())
    assert names == {"883e609a05d85c187a019cad93c12237", "4260bdeee61ef74ff07bae88286d9e8f"}


def elapse(database: Database, seconds: float) -> None:
    """Let time pass: the rows of all leases end earlier."""
    with database.write() as conn:
        conn.execute(sa.update(tables.run_lease).values(until=tables.run_lease.c.until - seconds))


def owned_by(*, host: str = "", namespace: str = "", process: int = os.getppid()) -> dict[str, object]:
    """Return the owner of a lease that another process holds."""
    here = owner().split("/")
    return {"owner": "/".join((host or here[0], namespace or here[1], f"{process}", "another"))}


NEVER = 2**22 + 1
"""A number that no process has."""

ENDED: dict[str, tuple[dict[str, object], bool]] = {
    "held": ({}, False),
    "its time is over": ({"until": time.time() - 60}, True),
    "ends late": ({"until": time.time() + LONGEST_LEASE_S - 60}, False),
    "written with a wrong clock": ({"until": time.time() + 10**6}, True),
    "its process has ended": (owned_by(process=NEVER), True),
    "another process of this host": (owned_by(), False),
    "another host": (owned_by(host="elsewhere", process=NEVER), False),
    "a container of this host": (owned_by(namespace="pid:[1]", process=NEVER), False),
    "a container with this process's number": (owned_by(namespace="pid:[1]", process=os.getpid()), False),
    "a system without boots and namespaces": ({"owner": f"/{NEVER}/another"}, False),
    "the form of earlier versions": ({"owner": f"{socket.gethostname()}/{NEVER}"}, False),
    "this process, but no run of it": ({"token": "lost"}, True),
}


@pytest.mark.parametrize("case", ENDED)
def test_a_lease_without_a_holder_is_given_on(case: str, database: Database, thread_id: str) -> None:
    """Nobody waits for a process that has died; one that may still run is waited for."""
    leases, holder = StoredRunLeases(database), RunLease(thread_id)
    assert leases.take(holder)
    values, ended = ENDED[case]
    if values:
        rewrite(database, holder, **values)
    assert leases.take(RunLease(thread_id)) is ended
    assert not holder.ended


@pytest.mark.parametrize("ahead", [-120.0, 120.0])
def test_clocks_that_differ_end_no_lease(database: Database, thread_id: str, ahead: float) -> None:
    """Hosts may be minutes apart: the database's clock says when a lease has ended, and when a place is free."""
    ours, others = StoredRunLeases(database), StoredRunLeases(database, lambda: time.time() + ahead)
    mine, yours, last = (RunLease(thread_id) for _ in range(3))
    assert ours.take(mine)
    assert not others.take(yours)
    ours._prolong({mine.token: mine})
    assert not others.take(yours)
    assert ours.release(mine)
    assert not ours.take(last)
    assert others.take(yours)
    others._prolong({yours.token: yours})
    assert not ours.take(last)
    assert others.release(yours)


def test_who_waits_is_not_passed_over(database: Database, thread_id: str) -> None:
    """A process whose runs follow each other at once gives way, but only while the one that waits asks again."""
    ours, others = (StoredRunLeases(database) for _ in range(2))
    first, waiting, again, last = (RunLease(thread_id) for _ in range(4))
    assert ours.take(first)
    for _ in range(4):  # a place is kept for `PLACE_S` seconds, and prolonged by asking
        elapse(database, 0.6 * PLACE_S)
        assert not others.take(waiting)
    ours.release(first)
    assert not ours.take(again)
    assert others.take(waiting)
    assert not ours.take(again)
    assert not others.take(last)
    others.release(waiting)
    assert not others.take(last)
    elapse(database, PLACE_S + 1)
    assert others.take(last)


def test_a_heartbeat_prolongs_the_lease(database: Database, thread_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the run goes on, however long the model takes; the OS thread ends when no run holds a lease."""
    clock, beats, proceed = Clock(), threading.Semaphore(0), threading.Semaphore(0)

    def sleep(_: float) -> None:
        beats.release()
        assert proceed.acquire(timeout=20)

    monkeypatch.setattr(run_leases, "time", SimpleNamespace(sleep=sleep))
    leases, lease, others = StoredRunLeases(database, clock), RunLease(thread_id), {*threading.enumerate()}
    assert leases.take(lease)
    [heart] = {*threading.enumerate()} - others
    assert beats.acquire(timeout=20)
    clock.time += LEASE_S - 1
    elapse(database, LEASE_S - 1)
    proceed.release()
    assert beats.acquire(timeout=20)
    assert lease.until == clock.time + LEASE_S
    elapse(database, LEASE_S - 1)
    assert not leases.take(RunLease(thread_id))
    leases.release(lease)
    proceed.release()
    heart.join(20)
    assert not heart.is_alive()


def test_a_run_learns_whether_it_held_its_lease(database: Database, thread_id: str) -> None:
    """Until it gave the lease back; also a run that another one has followed after the lease's time was over."""
    ours, others = StoredRunLeases(database), StoredRunLeases(database)
    first, waiting, late, following = (RunLease(thread_id) for _ in range(4))
    assert ours.take(first)
    assert not others.take(waiting)
    assert not others.release(waiting)
    assert ours.release(first)
    assert ours.take(late)
    elapse(database, LEASE_S + 1)
    assert others.take(following)
    assert not ours.release(late)
    assert others.release(following)
    assert stored(database, waiting) == stored(database, late) == stored(database, following) == 0


def test_a_lost_answer_is_no_lost_lease(database: Database, thread_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is lost after the lease was deleted lets the second attempt find nothing."""
    leases, lease, statement = StoredRunLeases(database), RunLease(thread_id), database.statement
    answers = [False]

    def lost(*given: Any) -> int:
        deleted = statement(*given)
        if answers:
            answers.pop()
            error = OperationalError(
                "DELETE", {}, Exception("server closed the connection"), connection_invalidated=True
            )
            raise DatabaseError("lost") from error
        return deleted

    assert leases.take(lease)
    monkeypatch.setattr(database, "statement", lost)
    assert leases.release(lease)
    assert not answers
    assert stored(database, lease) == 0


def test_a_lease_is_given_back_after_an_outage(
    database: Database, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs of other processes need not wait until it ends by itself."""
    beats, proceed = threading.Semaphore(0), threading.Semaphore(0)

    def sleep(_: float) -> None:
        beats.release()
        assert proceed.acquire(timeout=20)

    def down(*_: Any) -> int:
        raise DatabaseError("cannot connect")

    monkeypatch.setattr(run_leases, "time", SimpleNamespace(sleep=sleep))
    leases, lease, others = StoredRunLeases(database), RunLease(thread_id), {*threading.enumerate()}
    assert leases.take(lease)
    [heart] = {*threading.enumerate()} - others
    assert beats.acquire(timeout=20)
    with monkeypatch.context() as outage:
        outage.setattr(database, "statement", down)
        with pytest.raises(DatabaseError):
            leases.release(lease)
        proceed.release()
        assert beats.acquire(timeout=20)
        assert stored(database, lease)
    proceed.release()
    assert beats.acquire(timeout=20)
    assert not stored(database, lease)
    proceed.release()
    heart.join(20)
    assert not heart.is_alive()


def test_an_erased_thread_leaves_no_lease(database: Database, thread_id: str) -> None:
    """`forget` erases the lease of a run that still works on the thread, so that a new run need not wait."""
    records, lease = CompactionRecords(database), RunLease(thread_id)
    with database.write() as conn:
        records.store.threads.lock(conn, thread_id)
    assert records.run_leases.take(lease)
    records.forget(thread_id)
    assert stored(database, lease) == 0
