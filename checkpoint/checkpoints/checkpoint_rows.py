"""The checkpoints of a thread, in rows of their own and in bundles. No message or value is touched, only nodes.

The newest checkpoint of a thread and namespace is the one that arrived last, whatever its id says: a clock that
steps back hides nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby, islice
from typing import Any

import sqlalchemy as sa

from ..db import tables
from ..db.columns import ident
from ..db.statements import any_of, chunks, in_groups, insert_new
from ..db.thread_row import Thread, Threads
from . import checkpoint_bundles, pending_writes
from .checkpoint_row import Stored, opened
from .pending_writes import Write

Place = tuple[str, int]
"""Namespace and number of a checkpoint."""

_checkpoint, _write = tables.checkpoint.c, tables.write.c


def head(conn: sa.Connection, thread: Thread, namespace: str) -> str | None:
    """Return the id of the newest checkpoint, or None."""
    found = conn.execute(_HEAD, {"thread": thread.id, "namespace": namespace}).scalar_one_or_none()
    return found or next((one.id for one in _bundled(conn, thread, namespace)), None)


def number(conn: sa.Connection, thread: Thread, namespace: str, checkpoint_id: str) -> int | None:
    """Return a checkpoint's number, or None where there is no such one."""
    where = {"thread": thread.id, "namespace": namespace, "id": checkpoint_id}
    found: int | None = conn.execute(_NUMBER, where).scalar_one_or_none()
    if found is not None:
        return found
    return next((one.number for one in checkpoint_bundles.named(conn, thread, namespace, checkpoint_id)), None)


def named(conn: sa.Connection, thread: Thread, namespace: str, checkpoint_id: str | None) -> Stored | None:
    """Return the checkpoint with this id or, where none is named, the newest; None where there is no such one."""
    where = {"thread": thread.id, "namespace": namespace}
    if checkpoint_id:
        row = conn.execute(_BY_ID, {**where, "id": checkpoint_id}).mappings().one_or_none()
        bundled = checkpoint_bundles.named(conn, thread, namespace, checkpoint_id)
    else:
        row = conn.execute(_LATEST, where).mappings().one_or_none()
        bundled = _bundled(conn, thread, namespace)
    return next(bundled, None) if row is None else opened(thread, row)


def places(
    conn: sa.Connection,
    thread: Thread,
    namespace: str | None,
    *,
    only: str | None = None,
    before: str | None = None,
    limit: int | None = None,
) -> list[Place]:
    """Return (namespace, number) of a thread's checkpoints, newest first.

    Of one namespace or, with None, of all; `only` and `before` are checkpoint ids. Where there is no checkpoint
    `before`, its id is compared, as ids of one clock sort by time.
    """
    known = _newest_with(conn, thread, namespace, before) if before else None

    def wanted(one: Any) -> bool:
        if (only and one.id != only) or (known is not None and one.number >= known):
            return False
        return before is None or known is not None or one.id < before

    at_once = None if before and known is None else limit
    query = _listing(namespace is not None, bool(only), known is not None, at_once is not None)
    where = {"thread": thread.id, "namespace": namespace, "id": only, "known": known, "most": at_once}
    found: list[Any] = [row for row in conn.execute(query, where) if wanted(row)][:limit]
    for head in checkpoint_bundles.heads(conn, thread, namespace):
        if limit is not None and len(found) >= limit and (not found or found[-1].number > head.last):
            break
        found += filter(wanted, checkpoint_bundles.named_in(conn, thread, head))
        found = sorted(found, key=lambda one: one.number, reverse=True)[:limit]
    return [(one.namespace, one.number) for one in found]


def places_of_all(
    conn: sa.Connection, *, threads: Threads, before: str | None = None, limit: int | None = None
) -> list[tuple[str, list[Place]]]:
    """Return (thread id, its places) of all threads, newest first by checkpoint id; a thread may come up again."""
    rows = conn.execute(sa.select(_checkpoint.thread, _checkpoint.namespace, _checkpoint.number, _checkpoint.id))
    names = dict(conn.execute(sa.select(tables.thread.c.id, tables.thread.c.thread_id)).tuples().all())
    there: dict[int, Thread | None] = {}

    def newest(some: Iterable[tuple[str, str, str, int]]) -> list[tuple[str, str, str, int]]:
        chosen = (one for one in some if before is None or one[0] < before)
        return sorted(chosen, key=lambda one: (ident(one[0]), one[1], one[3]), reverse=True)[:limit]

    found = newest((row.id, names[row.thread], row.namespace, row.number) for row in rows)
    for head in checkpoint_bundles.heads_of_all(conn):
        if limit is not None and len(found) >= limit and (not found or ident(found[-1][0]) > ident(head.high)):
            break
        name = names[head.thread]
        if head.thread not in there:
            there[head.thread] = threads.find(conn, name, lock=False)
        if (thread := there[head.thread]) is not None:
            held = checkpoint_bundles.named_in(conn, thread, head)
            found = newest([*found, *((one.id, name, one.namespace, one.number) for one in held)])
    return [
        (name, [(namespace, number) for _, _, namespace, number in group])
        for name, group in groupby(found, lambda one: one[1])
    ]


def stretch(conn: sa.Connection, thread: Thread, namespace: str, last: str, size: int) -> list[Stored]:
    """Return the checkpoint with the id `last` and up to `size` that arrived before it; none where it is gone."""
    end = number(conn, thread, namespace, last)
    if end is None:
        return []
    query = sa.select(*_COLUMNS).where(_checkpoint.thread == thread.id, _checkpoint.namespace == namespace)
    rows = conn.execute(query.where(_checkpoint.number <= end).order_by(_NEWEST).limit(size)).mappings()
    found = [opened(thread, row) for row in rows]
    return [*found, *islice(_bundled(conn, thread, namespace, end), size - len(found))]


def all_of(conn: sa.Connection, thread: Thread) -> Iterator[Stored]:
    """Yield every checkpoint of a thread, oldest first within its namespace."""
    for bundle in checkpoint_bundles.all_of(conn, thread):
        yield from bundle.held
    yield from _loose(conn, thread)


def at(conn: sa.Connection, thread: Thread, places: Sequence[Place]) -> dict[Place, Stored]:
    """Return the checkpoints at these places, those of them that are there."""
    found: dict[Place, Stored] = {}
    for namespace in {name for name, _ in places}:
        numbers = [number for name, number in places if name == namespace]
        for size, group in in_groups(numbers):
            where = {"thread": thread.id, "namespace": namespace, **group}
            for row in conn.execute(_numbered(size), where).mappings():
                found[namespace, row["number"]] = opened(thread, row)
        left = [number for number in numbers if (namespace, number) not in found]
        found.update(
            ((namespace, one.number), one) for one in checkpoint_bundles.numbered(conn, thread, namespace, left)
        )
    return found


def written(conn: sa.Connection, thread: Thread, many: Iterable[Stored]) -> dict[tuple[str, str], Sequence[Write]]:
    """Return the writes beside checkpoints, by namespace and id, in the order in which LangGraph applies them."""
    found: dict[tuple[str, str], Sequence[Write]] = {}
    loose: dict[str, list[str]] = {}
    for one in many:
        if one.writes is None:
            loose.setdefault(one.namespace, []).append(one.id)
        else:
            found[one.place] = one.writes
    for namespace, ids in loose.items():
        there = pending_writes.of(conn, thread, namespace, ids)
        found.update(((namespace, name), there.get(name, ())) for name in ids)
    return found


def put(conn: sa.Connection, thread: Thread, stored: Stored) -> bool:
    """Insert a checkpoint, or write it again where its id stands; say whether it is new."""
    for bundle in checkpoint_bundles.holding(conn, thread, stored.namespace, stored.id):
        held = (
            replace(stored, number=one.number, writes=one.writes) if one.id == stored.id else one
            for one in bundle.held
        )
        checkpoint_bundles.rewrite(conn, thread, bundle, list(held))
        return False
    key = {"thread": thread.id, "namespace": stored.namespace, "id": stored.id}
    row = {"parent": stored.parent, "run": stored.run}
    if insert_new(conn, tables.checkpoint, {**key, **row, "number": stored.number, "body": stored.closed(thread)}):
        if stored.number % checkpoint_bundles.SIZE == 0:
            checkpoint_bundles.bundle_old(conn, thread)
        return True
    standing = conn.execute(_NUMBER, key).scalar_one()
    _write_again(conn, thread, replace(stored, number=standing))
    return False


def put_writes(
    conn: sa.Connection, thread: Thread, place: tuple[str, str], task: str, writes: Sequence[Write]
) -> None:
    """Add one task's writes at a checkpoint, which may be stored later, to what stands there under its name."""
    for bundle in checkpoint_bundles.holding(conn, thread, *place):
        held = (_with_writes(one, task, writes) if one.id == place[1] else one for one in bundle.held)
        checkpoint_bundles.rewrite(conn, thread, bundle, list(held))
        return
    pending_writes.put(conn, thread, place, task, writes)


def change_all(conn: sa.Connection, thread: Thread, change: Callable[[Stored], Stored | None]) -> None:
    """Put `change` of each checkpoint in its place; where that is None it goes, with its writes."""
    runs: set[str | None] = set()
    left: set[str | None] = set()
    for bundle in checkpoint_bundles.all_of(conn, thread):
        held = [new for one in bundle.held if (new := change(one)) is not None]
        runs.update(one.run for one in bundle.held)
        left.update(one.run for one in held)
        if held != list(bundle.held):
            checkpoint_bundles.rewrite(conn, thread, bundle, held)
    checkpoint_bundles.forget_runs(conn, thread, (run for run in runs - left if run))
    gone: dict[str, list[Stored]] = {}
    for one in list(_loose(conn, thread)):
        new = change(one)
        if new is None:
            gone.setdefault(one.namespace, []).append(one)
        elif new != one:
            _write_again(conn, thread, new)
    for namespace, some in gone.items():
        for chunk in chunks(some):
            _delete(conn, thread, namespace, chunk)


def _delete(conn: sa.Connection, thread: Thread, namespace: str, gone: Sequence[Stored]) -> None:
    ours = sa.and_(_checkpoint.thread == thread.id, _checkpoint.namespace == namespace)
    conn.execute(sa.delete(tables.checkpoint).where(ours, _checkpoint.number.in_([one.number for one in gone])))
    theirs = sa.and_(_write.thread == thread.id, _write.namespace == namespace)
    conn.execute(sa.delete(tables.write).where(theirs, _write.checkpoint.in_([one.id for one in gone])))


def _write_again(conn: sa.Connection, thread: Thread, stored: Stored) -> None:
    ours = sa.and_(_checkpoint.thread == thread.id, _checkpoint.namespace == stored.namespace)
    again = {"parent": stored.parent, "run": stored.run, "body": stored.closed(thread)}
    conn.execute(sa.update(tables.checkpoint).where(ours, _checkpoint.number == stored.number).values(again))


def _with_writes(one: Stored, task: str, writes: Sequence[Write]) -> Stored:
    there = one.writes or ()
    own = pending_writes.merged((write for write in there if write.task == task), writes)
    return replace(one, writes=(*(write for write in there if write.task != task), *own))


def _loose(conn: sa.Connection, thread: Thread) -> Iterator[Stored]:
    query = sa.select(*_COLUMNS).where(_checkpoint.thread == thread.id)
    for row in conn.execute(query.order_by(_checkpoint.namespace, _checkpoint.number)).mappings():
        yield opened(thread, row)


def _ids(thread: Thread, namespace: str | None) -> sa.Select[str, int, str]:
    query = sa.select(_checkpoint.namespace, _checkpoint.number, _checkpoint.id)
    ours = query.where(_checkpoint.thread == thread.id)
    return ours if namespace is None else ours.where(_checkpoint.namespace == namespace)


def _newest_with(conn: sa.Connection, thread: Thread, namespace: str | None, checkpoint_id: str) -> int | None:
    """Return the largest number of a checkpoint with this id, which several namespaces may have."""
    same = _ids(thread, namespace).with_only_columns(_checkpoint.number).where(_checkpoint.id == checkpoint_id)
    numbers = [*conn.execute(same).scalars()]
    numbers += (one.number for one in checkpoint_bundles.named(conn, thread, namespace, checkpoint_id))
    return max(numbers, default=None)


def _bundled(conn: sa.Connection, thread: Thread, namespace: str, end: int | None = None) -> Iterator[Stored]:
    """Yield the bundled checkpoints of a namespace, up to the number `end`, the newest first."""
    return checkpoint_bundles.below(conn, thread, namespace, thread.next_checkpoint if end is None else end)


_NEWEST = _checkpoint.number.desc()
_COLUMNS = (
    _checkpoint.namespace,
    _checkpoint.number,
    _checkpoint.id,
    _checkpoint.parent,
    _checkpoint.run,
    _checkpoint.body,
)
_OURS = sa.and_(_checkpoint.thread == sa.bindparam("thread"), _checkpoint.namespace == sa.bindparam("namespace"))
_HEAD = sa.select(_checkpoint.id).where(_OURS).order_by(_NEWEST).limit(1)
_LATEST = sa.select(*_COLUMNS).where(_OURS).order_by(_NEWEST).limit(1)
_BY_ID = sa.select(*_COLUMNS).where(_OURS, _checkpoint.id == sa.bindparam("id"))
_NUMBER = sa.select(_checkpoint.number).where(_OURS, _checkpoint.id == sa.bindparam("id"))


@cache
def _listing(one_namespace: bool, only: bool, known: bool, limited: bool) -> sa.Select[str, int, str]:
    query = sa.select(_checkpoint.namespace, _checkpoint.number, _checkpoint.id).order_by(_NEWEST)
    query = query.where(_OURS if one_namespace else _checkpoint.thread == sa.bindparam("thread"))
    query = query.where(_checkpoint.id == sa.bindparam("id")) if only else query
    query = query.where(_checkpoint.number < sa.bindparam("known")) if known else query
    return query.limit(sa.bindparam("most", type_=sa.BigInteger())) if limited else query


@cache
def _numbered(size: int) -> sa.Select[*tuple[Any, ...]]:
    return sa.select(*_COLUMNS).where(_OURS, any_of(_checkpoint.number, size))
