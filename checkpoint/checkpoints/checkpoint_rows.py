"""Reads and writes the checkpoint rows of a conversation thread.

A row holds encoded values: numbers that stand for messages and large values, and the small values themselves. This
module returns the numbers; it does not read the messages for which they stand. The rows of a thread are numbered in
the order in which they are stored. The newest checkpoint of a thread and namespace is the checkpoint with the
highest number, whatever its id: so a clock that is set back cannot make a new checkpoint look older than an earlier
checkpoint.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import ormsgpack
import sqlalchemy as sa

from ..db import tables
from ..db.columns import ident, ident_text
from ..db.row_codec import expect_types, intact
from ..db.statements import chunks, new_insert
from ..db.thread_row import Thread
from ..db.transaction import Transaction
from ..errors import RowError
from ..messages import references
from ..messages.references import References
from . import pending_writes
from .pending_writes import Write

_OPTION = ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_REPLACE_SURROGATES
_checkpoint, _write = tables.checkpoint.c, tables.write.c


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """A checkpoint as the database holds it.

    `values` holds the encoded values by channel. `metadata` and `rest` are encoded too; `rest` holds the keys of a
    checkpoint that this version of the package does not know. `metadata_hashes` holds the hashes by which filters
    find the row; None if there are none.
    """

    namespace: str
    number: int
    id: str
    parent: str | None
    run: str | None
    metadata_hashes: str | None = None
    references: References
    v: int
    ts: str
    versions: dict[str, Any]
    seen: dict[str, dict[str, Any]]
    updated: list[str] | None
    values: dict[str, list[Any]]
    metadata: list[Any]
    rest: list[Any] | None

    @property
    def row(self) -> str:
        """The name of this row in error messages; the row's encoded body can be decoded only under this name."""
        return row_name(self.namespace, self.id)

    @property
    def key(self) -> tuple[str, str]:
        """The checkpoint's namespace and id."""
        return self.namespace, self.id

    def columns(self, thread: Thread) -> dict[str, Any]:
        """Return the row as the database holds it.

        Decoding its body raises `RowError` if the row's number, parent, run or references were changed.
        """
        content = [
            *(self.v, self.ts, self.versions, self.seen, self.updated),
            *(self.values, self.metadata, self.rest),
        ]
        data = ormsgpack.packb(content, option=_OPTION)
        refs = self.references.encode()
        bound = bound_columns(self.number, self.parent, self.run, self.metadata_hashes, refs)
        return {
            "thread": thread.id,
            "namespace": self.namespace,
            "number": self.number,
            "id": ident(self.id),
            "parent": None if self.parent is None else ident(self.parent),
            "run": None if self.run is None else ident(self.run),
            "metadata_hashes": self.metadata_hashes,
            "refs": refs,
            "body": thread.codec.encode(self.row, data, bound=bound),
        }

    @classmethod
    def decode(cls, thread: Thread, row: Sequence[Any]) -> Self:
        """Read a row of `COLUMNS`; raise `RowError`, naming the row, if the row is damaged."""
        namespace, number, name, parent, run, metadata_hashes, refs, body = plain_columns(row)
        described = row_name(namespace, name)
        with intact(thread.codec.describe(described)):
            bound = bound_columns(number, parent, run, metadata_hashes, refs)
            content = thread.codec.unpack(described, body, bound=bound)
            v, ts, versions, seen, updated, values, metadata, rest = content
            expect_types((v, int), (ts, str), (versions, dict), (seen, dict), (values, dict), (metadata, list))
            expect_types(*((versions_seen, dict) for versions_seen in seen.values()))
            expect_types(*((one, list) for one in (*values.values(), *(() if rest is None else (rest,)))))
            if not metadata:
                raise ValueError("there is no metadata")
            return cls(
                namespace=namespace,
                number=number,
                id=name,
                parent=parent,
                run=run,
                metadata_hashes=metadata_hashes,
                references=references.decode(refs, thread.codec.describe(described)),
                v=v,
                ts=ts,
                versions=versions,
                seen=seen,
                updated=updated if updated is None else list(updated),
                values=values,
                metadata=metadata,
                rest=rest,
            )


def plain_columns(row: Sequence[Any]) -> tuple[str, int, str, str | None, str | None, str | None, bytes, bytes]:
    """Return a row of `COLUMNS` as Python's types, whatever types the driver returns."""
    namespace, number, name, parent, run, metadata_hashes, refs, body = row
    namespace = namespace.decode() if isinstance(namespace, bytes) else namespace
    parent = None if parent is None else ident_text(bytes(parent))
    run = None if run is None else ident_text(bytes(run))
    return namespace, number, ident_text(bytes(name)), parent, run, metadata_hashes, bytes(refs), bytes(body)


def newest_id(transaction: Transaction, thread: Thread, namespace: str) -> str | None:
    """Return the id of a namespace's newest checkpoint, or None if the namespace has no checkpoint."""
    found = transaction.run(_NEWEST_ID, {"thread": thread.id, "namespace": namespace}).fetchone()
    return None if found is None else ident_text(bytes(found[0]))


def number(transaction: Transaction, thread: Thread, namespace: str, checkpoint_id: str) -> int | None:
    """Return a checkpoint's number, or None if the checkpoint does not exist."""
    where = {"thread": thread.id, "namespace": namespace, "id": ident(checkpoint_id)}
    found = transaction.run(_NUMBER, where).fetchone()
    return None if found is None else found[0]


def find(transaction: Transaction, thread: Thread, namespace: str, checkpoint_id: str | None) -> CheckpointRow | None:
    """Return the checkpoint with this id, or the newest if the id is None; return None if it does not exist."""
    where: dict[str, Any] = {"thread": thread.id, "namespace": namespace}
    if checkpoint_id:
        where["id"] = ident(checkpoint_id)
    row = transaction.run(_BY_ID if checkpoint_id else _NEWEST, where).fetchone()
    return None if row is None else CheckpointRow.decode(thread, row)


def up_to(transaction: Transaction, thread: Thread, namespace: str, last: str, size: int) -> list[CheckpointRow]:
    """Return the checkpoint with the id `last` and older ones, newest first, at most `size` in all.

    Return an empty list if the checkpoint with the id `last` does not exist any more.
    """
    end = number(transaction, thread, namespace, last)
    where = {"thread": thread.id, "namespace": namespace, "end": -1 if end is None else end, "size": size}
    return [CheckpointRow.decode(thread, row) for row in transaction.run(_UP_TO, where).fetchall()]


def all_of(transaction: Transaction, thread: Thread) -> list[CheckpointRow]:
    """Return every checkpoint of a thread, oldest first within its namespace."""
    return [CheckpointRow.decode(thread, row) for row in transaction.run(_ALL, {"thread": thread.id}).fetchall()]


def written(
    transaction: Transaction, thread: Thread, rows: Iterable[CheckpointRow]
) -> dict[tuple[str, str], Sequence[Write]]:
    """Return the pending writes of checkpoints by namespace and id, in the order in which LangGraph applies them."""
    by_namespace: dict[str, list[str]] = {}
    for one in rows:
        by_namespace.setdefault(one.namespace, []).append(one.id)
    found: dict[tuple[str, str], Sequence[Write]] = {}
    for namespace, ids in by_namespace.items():
        writes = pending_writes.of(transaction, thread, namespace, ids)
        found.update(((namespace, checkpoint_id), writes.get(checkpoint_id, ())) for checkpoint_id in ids)
    return found


def put(transaction: Transaction, thread: Thread, new: CheckpointRow) -> bool:
    """Insert a checkpoint, or replace the one with the same id, which keeps its number; return whether it is new."""
    columns = new.columns(thread)
    if transaction.run(new_insert(transaction.dialect.name, tables.checkpoint), columns).rowcount > 0:
        return True
    [held] = transaction.run(_NUMBER, columns).fetchone()
    _replace(transaction, thread, replace(new, number=held))
    return False


def change_all(
    transaction: Transaction, thread: Thread, change: Callable[[CheckpointRow], CheckpointRow | None]
) -> None:
    """Replace each checkpoint by the result of `change`.

    If the result is None, delete the checkpoint and its pending writes.
    """
    gone: list[CheckpointRow] = []
    for one in all_of(transaction, thread):
        new = change(one)
        if new is None:
            gone.append(one)
        elif new != one:
            _replace(transaction, thread, new)
    rows = [one.columns(thread) for one in gone]
    for chunk in chunks(rows):
        transaction.run_many(_DELETE, chunk)
        transaction.run_many(_DELETE_WRITES, chunk)


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


def bound_columns(number: int, parent: str | None, run: str | None, metadata_hashes: str | None, refs: bytes) -> str:
    """Return the columns to which `RowCodec` binds a checkpoint's body: it decodes only while these are unchanged."""
    return f"{number} {parent} {run} {metadata_hashes} {refs.hex()}"


def _replace(transaction: Transaction, thread: Thread, row: CheckpointRow) -> None:
    transaction.run(_UPDATE, {f"new_{name}": value for name, value in row.columns(thread).items()})


COLUMNS = tuple(
    _checkpoint[name] for name in ("namespace", "number", "id", "parent", "run", "metadata_hashes", "refs", "body")
)
_MINE = _checkpoint.thread == sa.bindparam("thread")
_OURS = sa.and_(_MINE, _checkpoint.namespace == sa.bindparam("namespace"))
_BY_ID = sa.select(*COLUMNS).where(_OURS, _checkpoint.id == sa.bindparam("id"))
_NUMBER = sa.select(_checkpoint.number).where(_OURS, _checkpoint.id == sa.bindparam("id"))
_NEWEST = sa.select(*COLUMNS).where(_OURS).order_by(_checkpoint.number.desc()).limit(sa.literal_column("1"))
_NEWEST_ID = _NEWEST.with_only_columns(_checkpoint.id)
_UP_TO = (
    sa.select(*COLUMNS)
    .where(_OURS, _checkpoint.number <= sa.bindparam("end"))
    .order_by(_checkpoint.number.desc())
    .limit(sa.bindparam("size", type_=sa.BigInteger()))
)
_ALL = sa.select(*COLUMNS).where(_MINE).order_by(_checkpoint.namespace, _checkpoint.number)
_DELETE = sa.delete(tables.checkpoint).where(_OURS, _checkpoint.number == sa.bindparam("number"))
_DELETE_WRITES = sa.delete(tables.write).where(
    _write.thread == sa.bindparam("thread"),
    _write.namespace == sa.bindparam("namespace"),
    _write.checkpoint == sa.bindparam("id"),
)
_CHANGED = ("parent", "run", "metadata_hashes", "refs", "body")
_UPDATE = (
    sa.update(tables.checkpoint)
    .where(*(_checkpoint[name] == sa.bindparam(f"new_{name}") for name in ("thread", "namespace", "number")))
    .values({name: sa.bindparam(f"new_{name}") for name in _CHANGED})
)
