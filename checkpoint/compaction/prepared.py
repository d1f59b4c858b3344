"""Summaries that are prepared ahead of a compaction: at most one for each thread and namespace.

The row says which messages the prepared compaction removes, and which process prepares it until when. Its ledger row,
which has the trigger `PREPARING`, says how far it is: the verdict is `prepared` with the reason `UNDER_WAY` or
`READY`, or that of a failure. Every writer holds the lock of the thread's row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import ormsgpack
import sqlalchemy as sa

from ..db import tables
from ..db.owner import may_run, owner
from ..db.row_codec import expect_types, intact
from ..db.thread_row import Thread
from . import ledger
from .attempt import AttemptKey, Outcome
from .ledger import Opening

_prepared, _ledger = tables.prepared.c, tables.ledger.c

PREPARED = "prepared"
"""The verdict of a preparation that did not fail."""
UNDER_WAY, READY, SWAPPED, UNUSED = "under_way", "ready", "swapped", "unused"
"""The reasons beside this verdict: not ready yet; not used yet; used by a commit; not used by the next commit."""
PREPARING = "ahead"
"""The trigger of the ledger rows of preparations."""
STALE = "stale"
HOUR_S = 3_600.0
STALE_IN_A_ROW = 2
"""Number of preparations in a row that went stale, after which one compaction is not prepared."""
PAUSE_ENDS = 2
"""Number of commits since the last stale preparation began, after which another one may begin: that of the compaction
which found it stale, and that of the compaction which is not prepared."""

Refusal = Literal["exists", "unused", "stale", "late"]
"""Why a preparation may not begin: the thread has one, too many were not used, the last ones went stale, or a
compaction has begun since the messages were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """A preparation as it is stored."""

    compaction_id: str
    verdict: str
    reason: str
    duration_s: float | None
    owner: str
    until: float
    body: Mapping[str, Any]
    """What the prepared compaction removes, as the caller of `claim` described it, and its failure."""

    @property
    def is_under_way(self) -> bool:
        """Whether the summary is not there yet, and the preparation has not failed."""
        return (self.verdict, self.reason) == (PREPARED, UNDER_WAY)

    @property
    def has_failed(self) -> bool:
        """Whether the preparation ended without a summary."""
        return self.verdict != PREPARED

    def may_end(self, now: float) -> bool:
        """Whether its process may still run and has time left."""
        return now < self.until and may_run(self.owner)


def claim(
    conn: sa.Connection,
    thread: Thread,
    key: AttemptKey,
    opening: Opening,
    body: Mapping[str, Any],
    *,
    now: float,
    until: float,
    unused: int,
    since: float = inf,
) -> Refusal | None:
    """Write the row of a preparation that this process begins, and its ledger row; return why it may not begin.

    `since` is the time at which its messages were read: a compaction that began later removes them without it.
    It may not if the thread has another one, unless the process of that one has died or a commit came since; if
    `unused` preparations of the last hour were not used; or if the last `STALE_IN_A_ROW` went stale, until
    `PAUSE_ENDS` commits have been made since. `body` has the number of commits so far under the key `epoch`.
    """
    if (found := read(conn, thread, key.namespace)) is not None:
        if _stands(found, epoch=body["epoch"], now=now):
            return "exists"
        verdict, reason = (ledger.ABANDONED, "") if found.is_under_way else (found.verdict, found.reason)
        reason = UNUSED if reason == READY else reason
        settle(conn, thread, key.namespace, found.compaction_id, verdict=verdict, reason=reason, now=now)
    here = sa.and_(_ledger.thread == thread.id, _ledger.namespace == key.namespace)
    begun = sa.select(_ledger.id).where(here, _ledger.trigger != PREPARING, _ledger.started_at > since).limit(1)
    if since < inf and conn.execute(begun).first() is not None:
        return "late"
    if (refused := _paused(conn, thread, key.namespace, epoch=body["epoch"], now=now, unused=unused)) is not None:
        return refused
    ledger.note(conn, thread, key, opening, Outcome(verdict=PREPARED, reason=UNDER_WAY, now=now))
    row = {"thread": thread.id, "namespace": key.namespace, "compaction_id": key.compaction_id}
    content = _encoded(thread, key.namespace, key.compaction_id, body)
    conn.execute(sa.insert(tables.prepared).values(**row, owner=owner(), until=until, body=content))
    return None


def refusal(
    conn: sa.Connection, thread: Thread, namespace: str, *, epoch: int, now: float, unused: int
) -> Refusal | None:
    """Return what `claim` would return now if there are `epoch` commits, without writing anything."""
    found = read(conn, thread, namespace)
    if found is not None and _stands(found, epoch=epoch, now=now):
        return "exists"
    return _paused(conn, thread, namespace, epoch=epoch, now=now, unused=unused)


def _stands(found: Preparation, *, epoch: int, now: float) -> bool:
    """Whether a preparation keeps another one from beginning: it may still end, or no commit came since it began."""
    return found.may_end(now) if found.is_under_way else found.body.get("epoch") == epoch


def _paused(
    conn: sa.Connection, thread: Thread, namespace: str, *, epoch: int, now: float, unused: int
) -> Refusal | None:
    """Return why earlier preparations, which went stale or were not used, keep another one from beginning."""
    mine = sa.and_(_ledger.thread == thread.id, _ledger.namespace == namespace, _ledger.trigger == PREPARING)
    newest = sa.select(_ledger.verdict, _ledger.epoch).where(mine).order_by(_ledger.id.desc()).limit(STALE_IN_A_ROW)
    last = conn.execute(newest).all()
    if [row.verdict for row in last] == [STALE] * STALE_IN_A_ROW and epoch < last[0].epoch + PAUSE_ENDS:
        return "stale"
    young = sa.and_(mine, _ledger.started_at > now - HOUR_S, _ledger.reason != SWAPPED)
    too_many = conn.execute(sa.select(sa.func.count()).where(young)).scalar_one() >= unused
    return "unused" if too_many else None


def read(conn: sa.Connection, thread: Thread, namespace: str) -> Preparation | None:
    """Return the preparation of a thread, or None."""
    attempt = sa.and_(_ledger.thread == _prepared.thread, _ledger.compaction_id == _prepared.compaction_id)
    query = (
        sa.select(tables.prepared, _ledger.verdict, _ledger.reason, _ledger.duration_s)
        .join(tables.ledger, attempt)
        .where(_prepared.thread == thread.id, _prepared.namespace == namespace)
    )
    row = conn.execute(query).mappings().one_or_none()
    if row is None:
        return None
    name = row["compaction_id"]
    body = bytes(row["body"])
    with intact(thread.codec.describe(row_name(name))):
        held = thread.codec.unpack(row_name(name), body, bound=namespace)
        expect_types((held, dict))
    return Preparation(
        compaction_id=name,
        verdict=row["verdict"],
        reason=row["reason"],
        duration_s=row["duration_s"],
        owner=row["owner"],
        until=row["until"],
        body=held,
    )


def finish(conn: sa.Connection, thread: Thread, key: AttemptKey, outcome: Outcome, body: Mapping[str, Any]) -> None:
    """Write how a preparation ended, unless another process has given it up meanwhile."""
    content = _encoded(thread, key.namespace, key.compaction_id, body)
    mine = _is(thread, key.namespace, key.compaction_id)
    if conn.execute(sa.update(tables.prepared).where(mine).values(body=content)).rowcount:
        ledger.close(conn, thread, key, outcome)


def settle(
    conn: sa.Connection, thread: Thread, namespace: str, compaction_id: str, *, verdict: str, reason: str, now: float
) -> None:
    """Delete the row of a preparation, and write into the ledger what became of it.

    The cost of a summary that was used is in the row of the compaction that used it.
    """
    if not conn.execute(sa.delete(tables.prepared).where(_is(thread, namespace, compaction_id))).rowcount:
        return
    values: dict[str, Any] = {"verdict": verdict, "reason": reason, "ended_at": now}
    if reason == SWAPPED:
        values |= {"summary_calls": 0, "summary_input_tokens": 0, "summary_output_tokens": 0}
    same = sa.and_(_ledger.thread == thread.id, _ledger.compaction_id == compaction_id)
    conn.execute(sa.update(tables.ledger).where(same).values(values))


def row_name(compaction_id: str) -> str:
    """Return the name of a preparation's row; `RowCodec` binds the row's body to this name."""
    return f"prepared {compaction_id}"


def _is(thread: Thread, namespace: str, compaction_id: str) -> sa.ColumnElement[bool]:
    return sa.and_(
        _prepared.thread == thread.id, _prepared.namespace == namespace, _prepared.compaction_id == compaction_id
    )


def _encoded(thread: Thread, namespace: str, compaction_id: str, body: Mapping[str, Any]) -> bytes:
    return thread.codec.encode(row_name(compaction_id), ormsgpack.packb(dict(body)), bound=namespace)
