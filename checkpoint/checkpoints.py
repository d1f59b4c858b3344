"""Checkpoint rows. No message or value is touched here, only nodes.

The newest checkpoint of a thread and namespace is the one that arrived last, whatever its id says: a clock that
steps back hides nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import ormsgpack
import sqlalchemy as sa

from . import tables
from .errors import intact
from .rows import expect_types, unpacked
from .statements import insert_new
from .threads import Thread

_OPTION = ormsgpack.OPT_NON_STR_KEYS
_checkpoint = tables.checkpoint.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A checkpoint as its row holds it; `values` are nodes by channel, `metadata` and `rest` are (type, bytes)."""

    namespace: str
    number: int
    id: str
    parent: str | None
    run: str | None
    v: int
    ts: str
    versions: dict[str, Any]
    seen: dict[str, dict[str, Any]]
    updated: list[str] | None
    values: dict[str, Any]
    metadata: tuple[str, bytes]
    rest: tuple[str, bytes] | None

    @property
    def row(self) -> str:
        """The row's name within its thread."""
        return row_name(self.namespace, self.id)


def head(conn: sa.Connection, thread: Thread, namespace: str) -> str | None:
    """Return the id of the newest checkpoint, or None."""
    return conn.execute(_HEAD, {"thread": thread.id, "namespace": namespace}).scalar_one_or_none()


def number(conn: sa.Connection, thread: Thread, namespace: str, checkpoint_id: str) -> int | None:
    """Return a checkpoint's number, or None where there is no such one."""
    where = {"thread": thread.id, "namespace": namespace, "id": checkpoint_id}
    return conn.execute(_NUMBER, where).scalar_one_or_none()


def named(conn: sa.Connection, thread: Thread, namespace: str, checkpoint_id: str | None) -> Stored | None:
    """Return the checkpoint with this id or, where none is named, the newest; None where there is no such one."""
    where = {"thread": thread.id, "namespace": namespace}
    if checkpoint_id:
        row = conn.execute(_BY_ID, {**where, "id": checkpoint_id}).mappings().one_or_none()
    else:
        row = conn.execute(_LATEST, where).mappings().one_or_none()
    return None if row is None else _stored(thread, row)


def places(
    conn: sa.Connection,
    thread: Thread | None,
    namespace: str | None,
    *,
    only: str | None = None,
    before: str | None = None,
    limit: int | None = None,
) -> list[tuple[str, int]]:
    """Return (namespace, number) of a thread's checkpoints, newest first.

    Of one namespace or, with None, of all; `only` and `before` are checkpoint ids. Where there is no checkpoint
    `before`, its id is compared, as ids of one clock sort by time.
    """
    if thread is None:
        return []
    query = sa.select(_checkpoint.namespace, _checkpoint.number, _checkpoint.id).where(
        _checkpoint.thread == thread.id
    )
    if namespace is not None:
        query = query.where(_checkpoint.namespace == namespace)
    if only:
        query = query.where(_checkpoint.id == only)
    known = None
    if before:
        same = query.with_only_columns(_checkpoint.number).where(_checkpoint.id == before)
        known = conn.execute(same.order_by(_NEWEST).limit(1)).scalar_one_or_none()
    if known is not None:
        query = query.where(_checkpoint.number < known)
    compared = before if known is None else None
    rows = conn.execute(query.order_by(_NEWEST).limit(None if compared else limit))
    found = [(row.namespace, row.number) for row in rows if compared is None or row.id < compared]
    return found[:limit]


def places_of_all(
    conn: sa.Connection, *, before: str | None = None, limit: int | None = None
) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return (thread id, its places) of all threads, newest first by checkpoint id; a thread may come up again."""
    query = sa.select(tables.thread.c.thread_id, _checkpoint.namespace, _checkpoint.number, _checkpoint.id)
    rows = conn.execute(query.join(tables.thread, tables.thread.c.id == _checkpoint.thread)).all()
    newest = sorted(rows, key=lambda row: (row.id, row.thread_id, row.number), reverse=True)
    chosen = [row for row in newest if before is None or row.id < before][:limit]
    return [
        (thread_id, [(row.namespace, row.number) for row in group])
        for thread_id, group in groupby(chosen, lambda row: row.thread_id)
    ]


def stretch(conn: sa.Connection, thread: Thread, namespace: str, last: str, size: int) -> list[Stored]:
    """Return the checkpoint with the id `last` and up to `size` that arrived before it; none where it is gone."""
    end = number(conn, thread, namespace, last)
    if end is None:
        return []
    query = sa.select(*_COLUMNS).where(_checkpoint.thread == thread.id, _checkpoint.namespace == namespace)
    rows = conn.execute(query.where(_checkpoint.number <= end).order_by(_NEWEST).limit(size)).mappings()
    return [_stored(thread, row) for row in rows]


def all_of(conn: sa.Connection, thread: Thread) -> Iterator[Stored]:
    """Yield every checkpoint of a thread, oldest first within its namespace."""
    query = sa.select(*_COLUMNS).where(_checkpoint.thread == thread.id)
    for row in conn.execute(query.order_by(_checkpoint.namespace, _checkpoint.number)).mappings():
        yield _stored(thread, row)


def at(conn: sa.Connection, thread: Thread, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Stored]:
    """Return the checkpoints at these (namespace, number), those of them that are there."""
    found: dict[tuple[str, int], Stored] = {}
    for namespace in {name for name, _ in places}:
        numbers = [number for name, number in places if name == namespace]
        query = sa.select(*_COLUMNS).where(_checkpoint.thread == thread.id, _checkpoint.namespace == namespace)
        for row in conn.execute(query.where(_checkpoint.number.in_(numbers))).mappings():
            found[namespace, row["number"]] = _stored(thread, row)
    return found


def put(conn: sa.Connection, thread: Thread, stored: Stored) -> bool:
    """Insert a checkpoint, or write it again where its id stands; say whether it is new."""
    key = {"thread": thread.id, "namespace": stored.namespace, "id": stored.id}
    row = {"parent": stored.parent, "run": stored.run}
    body = _closed(thread, stored, stored.number)
    if insert_new(conn, tables.checkpoint, {**key, **row, "number": stored.number, "body": body}):
        return True
    standing = conn.execute(_NUMBER, key).scalar_one()
    mine = sa.and_(*(_checkpoint[name] == value for name, value in key.items()))
    again = {**row, "body": _closed(thread, stored, standing)}
    conn.execute(sa.update(tables.checkpoint).where(mine).values(again))
    return False


def move(conn: sa.Connection, thread: Thread, stored: Stored, *, parent: str | None) -> None:
    """Give a checkpoint another parent."""
    body = _closed(thread, replace(stored, parent=parent), stored.number)
    ours = sa.and_(_checkpoint.thread == thread.id, _checkpoint.namespace == stored.namespace)
    mine = sa.update(tables.checkpoint).where(ours, _checkpoint.number == stored.number)
    conn.execute(mine.values(parent=parent, body=body))


def _closed(thread: Thread, stored: Stored, number: int) -> bytes:
    content = [
        *(stored.v, stored.ts, stored.versions, stored.seen, stored.updated),
        *(stored.values, stored.metadata, stored.rest),
    ]
    packed = ormsgpack.packb(content, option=_OPTION)
    return thread.seal.close(stored.row, packed, beside=beside(number, stored.parent, stored.run))


def _stored(thread: Thread, row: Mapping[Any, Any]) -> Stored:
    name = row_name(row["namespace"], row["id"])
    with intact(thread.seal.name(name)):
        content = unpacked(thread, name, bytes(row["body"]), beside(row["number"], row["parent"], row["run"]))
        v, ts, versions, seen, updated, values, metadata, rest = content
        expect_types(
            (v, int),
            (ts, str),
            (versions, dict),
            (seen, dict),
            (values, dict),
            *((held, dict) for held in seen.values()),
        )
        return Stored(
            namespace=row["namespace"],
            number=row["number"],
            id=row["id"],
            parent=row["parent"],
            run=row["run"],
            v=v,
            ts=ts,
            versions=versions,
            seen=seen,
            updated=updated if updated is None else list(updated),
            values=values,
            metadata=_pair(metadata),
            rest=rest and _pair(rest),
        )


def _pair(typed: Any) -> tuple[str, bytes]:
    kind, data = typed
    expect_types((kind, str), (data, bytes))
    return kind, data


def row_name(namespace: str, checkpoint_id: str) -> str:
    """Return a checkpoint row's name within its thread."""
    return f"checkpoint {checkpoint_id} in {namespace!r}"


def beside(number: int, parent: str | None, run: str | None) -> str:
    """Return what a checkpoint's body is bound to besides its name."""
    return f"{number} {parent} {run}"


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
