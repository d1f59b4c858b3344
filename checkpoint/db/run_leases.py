"""Leases that let the runs of one thread take turns, in a database or in the memory of a process.

A run holds the lease of its thread from before it reads the newest checkpoint until it has written its last one. The
rows have a key of their own: they are neither the row of the thread nor the lease of `saver.lease`. The database's
clock says when a stored lease ends, because the clocks of the processes may differ.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from typing import Any, Protocol
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, ref

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ..errors import CheckpointError
from . import tables
from .database import Database
from .owner import may_run, owner
from .statements import database_time, ignoring, insert_if_absent
from .thread_row import LONGEST_LEASE_S
from .transaction import Transaction

LEASE_S = 60.0
"""Seconds after which a stored lease counts as ended, unless its holder prolongs it."""
PLACE_S = 5.0
"""Seconds for which the run that has waited longest keeps its place without trying again."""
HEARTBEATS = 4
"""How often a stored lease is prolonged within `LEASE_S`."""

log = logging.getLogger("langgraph_compaction")
_lease = tables.run_lease.c


@dataclass(eq=False)
class RunLease:
    """The lease of one run, as its holder knows it. A lease that nobody refers to any more is no longer prolonged."""

    thread_id: str
    token: str = field(default_factory=lambda: uuid4().hex)
    process: str = field(default_factory=owner)
    """The owner of the lease, see `owner.owner`. A forked child leaves its parent's leases alone."""
    ended: bool = False
    """Whether the run is over. A call that takes the lease after that gives it back at once."""
    waits: bool = False
    """Whether the lease was asked for in vain: the run then tries to be the next one."""
    until: float = 0.0
    """The end of the lease after the last heartbeat, by the clock of its own process; 0 before the first one."""
    lost: bool = False
    """Whether a stored lease was found to have ended, or to be another run's, before its run was over."""
    passed_on: bool = False
    """Whether another run of this process found the row after this run was over, and may have taken it."""

    def __post_init__(self) -> None:
        _OF_THIS_PROCESS[self.token] = self


_OF_THIS_PROCESS: WeakValueDictionary[str, RunLease] = WeakValueDictionary()
"""The leases of this process by token. A stored lease of this process that is not here has lost its holder."""


class RunLeases(Protocol):
    """Gives the lease of a thread to one run at a time."""

    longest_pause_s: float
    """How long a waiting run may sleep before it tries again."""

    def take(self, lease: RunLease) -> bool:
        """Take the lease of a thread; return False if another run holds it."""
        ...

    def release(self, lease: RunLease) -> bool:
        """Give the lease back; return whether the run still held it.

        False means that the lease was never taken, or that another run may have worked on the thread meanwhile.
        """
        ...


class MemoryRunLeases:
    """Leases among the runs of one process. Runs that wait get the lease in the order in which they came."""

    longest_pause_s = 0.02

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: WeakValueDictionary[str, RunLease] = WeakValueDictionary()
        self._waiting: dict[str, list[ref[RunLease]]] = {}

    def take(self, lease: RunLease) -> bool:
        """Take the lease of a thread; return False if another run holds it, or has waited for longer."""
        thread = lease.thread_id
        with self._lock:
            waiting = [one for known in self._waiting.pop(thread, ()) if (one := known()) and not one.ended]
            if lease not in waiting:
                waiting.append(lease)
            if waiting[0] is lease:
                self._held.setdefault(thread, lease)
            taken = self._held.get(thread) is lease
            if waiting := [one for one in waiting if not (taken and one is lease)]:
                self._waiting[thread] = [ref(one) for one in waiting]
        return taken

    def release(self, lease: RunLease) -> bool:
        """Give the lease back; return whether the run held it."""
        lease.ended = True
        with self._lock:
            if held := self._held.get(lease.thread_id) is lease:
                del self._held[lease.thread_id]
        return held


_IN_MEMORY: WeakKeyDictionary[Any, MemoryRunLeases] = WeakKeyDictionary()
_IN_MEMORY_LOCK = threading.Lock()


def memory_leases(place: Any) -> MemoryRunLeases:
    """Return the leases that all graphs with the same checkpointer, or the same database in memory, share."""
    with _IN_MEMORY_LOCK:
        return _IN_MEMORY.setdefault(place, MemoryRunLeases())


class StoredRunLeases:
    """Leases among the runs of all processes that share a database.

    A run that meets a lease takes the place of the next one, if nobody has it: no other run is given the lease then.
    Without it, a process whose runs follow each other at once would keep all others waiting.
    """

    longest_pause_s = 0.1

    def __init__(self, database: Database, now: Callable[[], float] = time.time, *, lasts_s: float = LEASE_S) -> None:
        self.database = database
        self._now = now
        self._lasts_s = lasts_s
        self._lock = threading.Lock()
        self._held: WeakSet[RunLease] = WeakSet()
        self._owed: dict[RunLease, float] = {}  # leases still to be given back, and when they end by themselves
        self._heart: threading.Thread | None = None

    def take(self, lease: RunLease) -> bool:
        """Take the lease of a thread; return False if another run holds it, or has the place of the next one.

        A lease that was not prolonged in time has ended, and so has the lease of a process that no longer runs.
        """
        taken = not lease.waits and self.database.run_statement(*self._free_lease(lease)) > 0
        if not taken:
            taken = self.database.run_write(lambda transaction: self._take(transaction, lease))
            lease.waits = not taken
        if taken and lease.ended:  # the caller was cancelled meanwhile
            self.release(lease)
        elif taken:
            self._prolong_while_held(lease)
        return taken

    def release(self, lease: RunLease) -> bool:
        """Give the lease back, and the place of the next run; return whether the run still held the lease.

        If the connection is lost, so that the rows may have been deleted by a call whose answer was lost, the lease
        counts as held unless a heartbeat has found it lost. So does a lease whose row another run of this process has
        taken since this call began.

        A lease that cannot be given back because the database fails is given back at a heartbeat. Then this call
        raises the error.
        """
        with self._lock:  # before the lease ends, because a heartbeat forgets leases that have ended
            taken = lease in self._held
            self._held.discard(lease)
        lease.ended = True
        if lease.process != owner():  # this is a forked child, and the run goes on in its parent
            return True
        calls = 0

        def delete() -> int:
            nonlocal calls
            calls += 1
            return self.database.statement(_GIVE_BACK, _rows_of(lease))

        try:
            deleted = self.database.retry(delete)
        except CheckpointError:
            with self._lock:
                self._owed[lease] = self._now() + self._lasts_s
                self._start_heart()
            raise
        return taken and not lease.lost and (deleted > 0 or calls > 1 or lease.passed_on)

    def _free_lease(self, lease: RunLease) -> tuple[sa.Insert, dict[str, Any]]:
        """Return a statement that takes a lease that nobody holds or that has ended, and its parameters.

        It changes no row if that is not certain, or if a run has the place of the next one.
        """
        name, place = _names(lease.thread_id)
        values = {"name": name, "token": lease.token, "owner": owner(), "place": place, "lasts": self._lasts_s}
        return _take_free(self.database.engine.dialect.name), values

    def _take(self, transaction: Transaction, lease: RunLease) -> bool:
        name, place = _names(lease.thread_id)
        now = transaction.execute(sa.select(database_time(transaction.dialect.name))).scalar_one()
        new = self._mine(lease, now + self._lasts_s)
        insert_if_absent(transaction, tables.run_lease, {"name": name, **new})
        both = sa.select(tables.run_lease).where(_lease.name.in_((name, place))).with_for_update()
        rows = {row.name: row for row in transaction.execute(both)}
        held, following = rows.get(name), rows.get(place)
        if held is None:
            return False
        mine = held.token == lease.token
        passed_over = following is not None and not self._is_free(following, lease, now)
        if passed_over or not self._is_free(held, lease, now):
            if mine:
                transaction.execute(sa.delete(tables.run_lease).where(_lease.name == name))
            if not passed_over:
                self._keep_place(transaction, lease, place, following, now)
            return False
        if not mine:
            transaction.execute(sa.update(tables.run_lease).where(_lease.name == name).values(new))
        if following is not None:
            transaction.execute(sa.delete(tables.run_lease).where(_lease.name == place))
        return True

    def _keep_place(
        self, transaction: Transaction, lease: RunLease, place: str, known: sa.Row[Any] | None, now: float
    ) -> None:
        new = self._mine(lease, now + PLACE_S)
        if known is None:
            insert_if_absent(transaction, tables.run_lease, {"name": place, **new})
        elif known.token != lease.token or known.until - now < PLACE_S / 2:
            transaction.execute(sa.update(tables.run_lease).where(_lease.name == place).values(new))

    @staticmethod
    def _mine(lease: RunLease, until: float) -> dict[str, Any]:
        return {"token": lease.token, "owner": owner(), "until": until}

    def _is_free(self, row: sa.Row[Any], lease: RunLease, now: float) -> bool:
        return row.token == lease.token or self._has_ended(row.token, row.owner, row.until, now)

    @staticmethod
    def _has_ended(token: str, by: str, until: float, now: float) -> bool:
        if not now < until <= now + LONGEST_LEASE_S:  # a lease that ends later was written with a wrong clock
            return True
        if by == owner():
            mine = _OF_THIS_PROCESS.get(token)
            if mine is not None and mine.ended:
                mine.passed_on = True
            return mine is None or mine.ended
        return not may_run(by)

    def _prolong_while_held(self, lease: RunLease) -> None:
        with self._lock:
            self._held.add(lease)
            self._start_heart()

    def _start_heart(self) -> None:
        if self._heart is None or not self._heart.is_alive():  # a forked child has no OS thread of its parent
            self._heart = threading.Thread(target=self._beat, name="compaction-run-leases", daemon=True)
            self._heart.start()

    def _beat(self) -> None:
        """Prolong the leases that this process holds, and give back those it still owes; end when there are none."""
        while True:
            time.sleep(self._lasts_s / HEARTBEATS)
            with self._lock:
                self._held = WeakSet(lease for lease in self._held if not lease.ended and lease.process == owner())
                leases = {lease.token: lease for lease in self._held}
                self._owed = {lease: until for lease, until in self._owed.items() if self._now() < until}
                owed = [*self._owed]
                if not leases and not owed:
                    self._heart = None
                    return
            try:
                if leases:
                    self._prolong(leases)
            except CheckpointError as error:
                log.warning(
                    "The lease of a running turn could not be prolonged, and ends after %s s: %s",
                    self._lasts_s,
                    error,
                )
            self._give_back(owed)

    def _give_back(self, owed: list[RunLease]) -> None:
        for lease in owed:
            try:
                self.database.run_statement(_GIVE_BACK, _rows_of(lease))
            except CheckpointError:  # `release` has told it; the next heartbeat tries again
                return
            with self._lock:
                self._owed.pop(lease, None)

    def _prolong(self, leases: Mapping[str, RunLease]) -> None:
        """Prolong leases by their tokens; mark those that are lost."""
        ours = _lease.token.in_(leases)
        until = self._now() + self._lasts_s
        prolonged = database_time(self.database.engine.dialect.name) + self._lasts_s
        if self.database.run_statement(sa.update(tables.run_lease).where(ours).values(until=prolonged)) >= len(
            leases
        ):
            for lease in leases.values():
                lease.until = until
            return
        held = self.database.run_read(
            lambda transaction: {*transaction.execute(sa.select(_lease.token).where(ours)).scalars()}
        )
        for token, lease in leases.items():
            if token not in held and not lease.ended:
                lease.lost = True
                log.warning(
                    "A turn on thread %r has lost its lease, which was not prolonged in time: another run may work "
                    "on the thread",
                    lease.thread_id,
                )


def forget(transaction: Transaction, thread_id: str) -> None:
    """Delete the lease of an erased thread, if a run holds one."""
    transaction.execute(sa.delete(tables.run_lease).where(_lease.name.in_(_names(thread_id))))


@cache
def _take_free(dialect: str) -> sa.Insert:
    """Return the statement of `StoredRunLeases._free_lease`.

    MariaDB has no condition for an existing row, so there the statement only takes a lease without a row.
    """
    now = database_time(dialect)
    names = (_lease.name, _lease.token, _lease.owner)
    new: dict[str, sa.ColumnElement[Any]] = {one.name: sa.bindparam(one.name, type_=one.type) for one in names}
    new["until"] = now + sa.bindparam("lasts", type_=_lease.until.type)
    nobody_waits = ~sa.exists().where(_lease.name == sa.bindparam("place", type_=_lease.name.type))
    rows = sa.select(*new.values()).where(nobody_waits)
    if dialect == "postgresql":  # takes a parameter in the list of a SELECT for text
        rows = sa.select(*(sa.cast(value, value.type) for value in new.values())).where(nobody_waits)
    if dialect not in {"postgresql", "sqlite"}:
        insert: sa.Insert = ignoring(dialect, tables.run_lease).from_select(list(new), rows)
    else:
        until = _lease.until
        ended = (until <= now) | (until > now + LONGEST_LEASE_S)
        kind = postgresql.insert if dialect == "postgresql" else sqlite.insert
        insert = (
            kind(tables.run_lease)
            .from_select(list(new), rows)
            .on_conflict_do_update(
                index_elements=[_lease.name],
                set_={name: value for name, value in new.items() if name != "name"},
                where=(_lease.token == new["token"]) | ended,
            )
        )
    # without this option SQLAlchemy does not keep the row count of an INSERT
    return insert.execution_options(preserve_rowcount=True)


def _names(thread_id: str) -> tuple[str, str]:
    """Return the hashes under which the lease and the place of the next run are stored.

    The thread id itself can be personal data.
    """
    named = thread_id.encode("utf-8", "surrogatepass")
    lease, place = (blake2b(named, digest_size=16, person=person).hexdigest() for person in (b"", b"next"))
    return lease, place


def _rows_of(lease: RunLease) -> dict[str, str]:
    """Return the parameters of `_GIVE_BACK`."""
    name, place = _names(lease.thread_id)
    return {"lease": name, "place": place, "token": lease.token}


_GIVE_BACK = sa.delete(tables.run_lease).where(
    _lease.name.in_([sa.bindparam(name, type_=_lease.name.type) for name in ("lease", "place")]),
    _lease.token == sa.bindparam("token", type_=_lease.token.type),
)
