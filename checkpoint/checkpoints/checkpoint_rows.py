"""Reads and writes the checkpoint rows of a conversation thread.

A row holds encoded values: numbers that stand for messages and large values, and the small values themselves. This
module returns the numbers; it does not read the messages for which they stand. The rows of a thread are numbered in
the order in which they are stored. The newest checkpoint of a thread and namespace is the checkpoint with the
highest number, whatever its id: so a clock that is set back cannot make a new checkpoint look older than an earlier
checkpoint.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import ormsgpack
import sqlalchemy as sa

from ..db import tables
from ..db.row_codec import expect_types, intact
from ..db.statements import chunks, insert_new
from ..db.thread_row import Thread, note
from ..errors import RowError
from . import pending_writes
from .pending_writes import Write

_OPTION = ormsgpack.OPT_NON_STR_KEYS
_checkpoint, _write = tables.checkpoint.c, tables.write.c


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """A checkpoint as the database holds it.

    `values` holds the encoded values by channel. `metadata` and `rest` hold (type, bytes) as the serializer wrote
    them; `rest` holds the keys of a checkpoint that this version of the package does not know. `metadata_hashes`
    holds the hashes by which filters find the row; None if there are none.
    """

    namespace: str
    number: int
    id: str
    parent: str | None
    run: str | None
    metadata_hashes: str | None = None
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
        """The name of this row in error messages; the row's encoded body can be decoded only under this name."""
        return row_name(self.namespace, self.id)

    @property
    def key(self) -> tuple[str, str]:
        """The checkpoint's namespace and id."""
        return self.namespace, self.id

    def encode(self, thread: Thread) -> bytes:
        """Encode the row's body. Decoding it raises `RowError` if the row's number, parent or run was changed."""
        content = [
            *(self.v, self.ts, self.versions, self.seen, self.updated),
            *(self.values, self.metadata, self.rest),
        ]
        data = ormsgpack.packb(content, option=_OPTION)
        bound = bound_columns(self.number, self.parent, self.run, self.metadata_hashes)
        return thread.codec.encode(self.row, data, bound=bound)

    @classmethod
    def decode(cls, thread: Thread, row: Mapping[Any, Any]) -> Self:
        """Read a database row; raise `RowError`, naming the row, if the row is damaged."""
        name = row_name(row["namespace"], row["id"])
        with intact(thread.codec.describe(name)):
            bound = bound_columns(row["number"], row["parent"], row["run"], row["metadata_hashes"])
            content = thread.codec.unpack(name, bytes(row["body"]), bound=bound)
            v, ts, versions, seen, updated, values, metadata, rest = content
            expect_types((v, int), (ts, str), (versions, dict), (seen, dict), (values, dict))
            expect_types(*((versions_seen, dict) for versions_seen in seen.values()))
            return cls(
                **{key: row[key] for key in COLUMN_NAMES if key != "body"},
                v=v,
                ts=ts,
                versions=versions,
                seen=seen,
                updated=updated if updated is None else list(updated),
                values=values,
                metadata=_typed(metadata),
                rest=rest and _typed(rest),
            )


def newest_id(conn: sa.Connection, thread: Thread, namespace: str) -> str | None:
    """Return the id of a namespace's newest checkpoint, or None if the namespace has no checkpoint."""
    if (known := thread.known.newest.get(namespace)) is not None or not thread.next_checkpoint:
        return known
    found: str | None = conn.execute(_NEWEST_ID, {"thread": thread.id, "namespace": namespace}).scalar_one_or_none()
    return found


def number(conn: sa.Connection, thread: Thread, namespace: str, checkpoint_id: str) -> int | None:
    """Return a checkpoint's number, or None if the checkpoint does not exist."""
    where = {"thread": thread.id, "namespace": namespace, "id": checkpoint_id}
    found: int | None = conn.execute(_NUMBER, where).scalar_one_or_none()
    return found


def find(conn: sa.Connection, thread: Thread, namespace: str, checkpoint_id: str | None) -> CheckpointRow | None:
    """Return the checkpoint with this id, or the newest if the id is None; return None if it does not exist."""
    where = {"thread": thread.id, "namespace": namespace}
    query = _BY_ID if checkpoint_id else _NEWEST
    row = conn.execute(query, {**where, "id": checkpoint_id} if checkpoint_id else where).mappings().one_or_none()
    return None if row is None else CheckpointRow.decode(thread, row)


def up_to(conn: sa.Connection, thread: Thread, namespace: str, last: str, size: int) -> list[CheckpointRow]:
    """Return the checkpoint with the id `last` and older ones, newest first, at most `size` in all.

    Return an empty list if the checkpoint with the id `last` does not exist any more.
    """
    end = number(conn, thread, namespace, last)
    query = sa.select(*_COLUMNS).where(_checkpoint.thread == thread.id, _checkpoint.namespace == namespace)
    query = query.where(_checkpoint.number <= (-1 if end is None else end)).order_by(_checkpoint.number.desc())
    return [CheckpointRow.decode(thread, row) for row in conn.execute(query.limit(size)).mappings()]


def all_of(conn: sa.Connection, thread: Thread) -> Iterator[CheckpointRow]:
    """Yield every checkpoint of a thread, oldest first within its namespace."""
    query = sa.select(*_COLUMNS).where(_checkpoint.thread == thread.id)
    for row in conn.execute(query.order_by(_checkpoint.namespace, _checkpoint.number)).mappings():
        yield CheckpointRow.decode(thread, row)


def written(
    conn: sa.Connection, thread: Thread, rows: Iterable[CheckpointRow]
) -> dict[tuple[str, str], Sequence[Write]]:
    """Return the pending writes of checkpoints by namespace and id, in the order in which LangGraph applies them."""
    by_namespace: dict[str, list[str]] = {}
    for one in rows:
        by_namespace.setdefault(one.namespace, []).append(one.id)
    found: dict[tuple[str, str], Sequence[Write]] = {}
    for namespace, ids in by_namespace.items():
        writes = pending_writes.of(conn, thread, namespace, ids)
        found.update(((namespace, checkpoint_id), writes.get(checkpoint_id, ())) for checkpoint_id in ids)
    return found


def put(conn: sa.Connection, thread: Thread, new: CheckpointRow) -> bool:
    """Insert a checkpoint, or replace the one with the same id, which keeps its number; return whether it is new."""
    key = {"thread": thread.id, "namespace": new.namespace, "id": new.id}
    if insert_new(conn, tables.checkpoint, {**key, "number": new.number, **_changeable(thread, new)}):
        note(thread.known.newest, new.namespace, new.id)
        return True
    _replace(conn, thread, replace(new, number=conn.execute(_NUMBER, key).scalar_one()))
    return False


def change_all(conn: sa.Connection, thread: Thread, change: Callable[[CheckpointRow], CheckpointRow | None]) -> None:
    """Replace each checkpoint by the result of `change`.

    If the result is None, delete the checkpoint and its pending writes.
    """
    gone: dict[str, list[CheckpointRow]] = {}
    for one in list(all_of(conn, thread)):
        new = change(one)
        if new is None:
            gone.setdefault(one.namespace, []).append(one)
        elif new != one:
            _replace(conn, thread, new)
    for namespace, rows in gone.items():
        for chunk in chunks(rows):
            _delete(conn, thread, namespace, chunk)


def follow_parents(
    start: str | None, parent_of: Callable[[str], str | None], describe: Callable[[str], str]
) -> Iterator[str]:
    """Yield `start`, its parent, the parent's parent and so on, up to the first id without a parent.

    Checkpoints and rows of the compaction ledger both have parents. Raise `RowError`, with the row's name from
    `describe`, if damaged or forged rows lead back to an id that was already yielded.
    """
    seen = set[str]()
    current = start
    while current is not None:
        if current in seen:
            raise RowError(f"{describe(current)} is damaged: its chain of parents leads back to itself")
        seen.add(current)
        yield current
        current = parent_of(current)


def row_name(namespace: str, checkpoint_id: str) -> str:
    """Return the name of a checkpoint's row, which is unique in its thread; `RowCodec` binds the row's body to it."""
    return f"checkpoint {checkpoint_id} in {namespace!r}"


def full_row_name(thread: Thread, namespace: str, checkpoint_id: str) -> str:
    """Return a checkpoint row's name, with the thread id that the application uses."""
    return f"{row_name(namespace, checkpoint_id)} of thread {thread.thread_id!r}"


def bound_columns(number: int, parent: str | None, run: str | None, metadata_hashes: str | None) -> str:
    """Return the columns to which `RowCodec` binds a checkpoint's body: it decodes only while these are unchanged."""
    return f"{number} {parent} {run}{'' if metadata_hashes is None else f' {metadata_hashes}'}"


def _delete(conn: sa.Connection, thread: Thread, namespace: str, gone: Sequence[CheckpointRow]) -> None:
    ours = sa.and_(_checkpoint.thread == thread.id, _checkpoint.namespace == namespace)
    conn.execute(sa.delete(tables.checkpoint).where(ours, _checkpoint.number.in_([one.number for one in gone])))
    theirs = sa.and_(_write.thread == thread.id, _write.namespace == namespace)
    conn.execute(sa.delete(tables.write).where(theirs, _write.checkpoint.in_([one.id for one in gone])))


def _replace(conn: sa.Connection, thread: Thread, row: CheckpointRow) -> None:
    ours = sa.and_(_checkpoint.thread == thread.id, _checkpoint.namespace == row.namespace)
    mine = sa.and_(ours, _checkpoint.number == row.number)
    conn.execute(sa.update(tables.checkpoint).where(mine).values(_changeable(thread, row)))


def _changeable(thread: Thread, row: CheckpointRow) -> dict[str, Any]:
    """Return the columns that are not the checkpoint's key."""
    named = {"parent": row.parent, "run": row.run, "metadata_hashes": row.metadata_hashes}
    return {**named, "body": row.encode(thread)}


def _typed(value: Any) -> tuple[str, bytes]:
    kind, data = value
    expect_types((kind, str), (data, bytes))
    return kind, data


COLUMN_NAMES = ("namespace", "number", "id", "parent", "run", "metadata_hashes", "body")
_COLUMNS = tuple(_checkpoint[name] for name in COLUMN_NAMES)
_OURS = sa.and_(_checkpoint.thread == sa.bindparam("thread"), _checkpoint.namespace == sa.bindparam("namespace"))
_BY_ID = sa.select(*_COLUMNS).where(_OURS, _checkpoint.id == sa.bindparam("id"))
_NUMBER = sa.select(_checkpoint.number).where(_OURS, _checkpoint.id == sa.bindparam("id"))
_NEWEST = sa.select(*_COLUMNS).where(_OURS).order_by(_checkpoint.number.desc()).limit(1)
_NEWEST_ID = sa.select(_checkpoint.id).where(_OURS).order_by(_checkpoint.number.desc()).limit(1)
