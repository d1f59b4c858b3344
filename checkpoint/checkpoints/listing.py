"""Reads the checkpoints that `list` wants, newest first: of one thread, or of all threads.

The database chooses by hashes of the metadata if a filter is given. If encrypted, these hashes are keyed by the
thread, and are compared here. On PostgreSQL one statement reads also the pending writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from ..db import tables
from ..db.columns import ident
from ..db.thread_row import COLUMNS, Thread, Threads
from ..db.transaction import Transaction
from . import checkpoint_rows, pending_writes
from .checkpoint_rows import CheckpointRow, plain_columns
from .metadata_hashes import hashes_for_database, may_match, wanted_hashes
from .pending_writes import Write

_thread, _checkpoint, _write = tables.thread.c, tables.checkpoint.c, tables.write.c
_WIDTH = 1 + len(COLUMNS)
_END = _WIDTH + len(checkpoint_rows.COLUMNS)


class Place(NamedTuple):
    """The place of a checkpoint in the order of a list."""

    id: str
    name: str
    """The thread's own id, by which threads are ordered."""
    number: int


class Page(NamedTuple):
    """A part of a list."""

    rows: list[tuple[Thread, CheckpointRow]]
    """Checkpoints that may be wanted."""
    last: Place | None
    """The place of the last row that was read."""
    is_last: bool
    writes: dict[tuple[int, str, str], Sequence[Write]] | None
    """By thread, namespace and id; None if they have yet to be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Which checkpoints are wanted.

    `before` is a checkpoint id. In a thread that has this checkpoint, older checkpoints are those with lower numbers;
    otherwise those with lower ids, because LangGraph's ids begin with the time. `wanted` holds metadata items.
    """

    thread_id: str | None
    """None for all threads."""
    namespace: str | None
    """None for all namespaces."""
    only: str | None
    """The id of the only checkpoint that is wanted."""
    before: str | None
    wanted: Mapping[str, Any]

    def page(
        self, transaction: Transaction, threads: Threads, *, after: Place | None, size: int, with_writes: bool
    ) -> Page:
        """Read the `size` checkpoints behind `after`; all that are wanted are among those that it returns."""
        below = self._number_before(transaction)
        hashes = hashes_for_database(threads.keys, self.wanted)
        where: dict[str, Any] = {"name": self.thread_id, "namespace": self.namespace, "size": size, "below": below}
        where |= {name: ident(held) for name, held in (("only", self.only), ("before", self.before)) if held}
        where |= {f"hash_{place}": one for place, one in enumerate(hashes)}
        if after is not None:
            where |= {"after_id": ident(after.id), "after_name": after.name, "after_number": after.number}
        statement = _rows(
            one_thread=self.thread_id is not None,
            one_namespace=self.namespace is not None,
            only=bool(self.only),
            below=below is not None,
            before=below is None and bool(self.before),
            after=after is not None,
            hashes=len(hashes),
            with_writes=with_writes,
        )
        rows = transaction.run(statement, where).fetchall()
        last: Place | None = None
        if rows:
            _, number, name, *_ = plain_columns(rows[-1][_WIDTH:_END])
            last = Place(name, _text(rows[-1][0]), number)
        chosen, writes = self._chosen(threads, rows)
        return Page(chosen, last, len(rows) < size, writes if with_writes else None)

    def _chosen(
        self, threads: Threads, rows: Sequence[Sequence[Any]]
    ) -> tuple[list[tuple[Thread, CheckpointRow]], dict[tuple[int, str, str], Sequence[Write]]]:
        """Return checkpoints with their threads, but those whose hashes tell that they are not wanted; and writes."""
        writes: dict[tuple[int, str, str], Sequence[Write]] = {}
        known: dict[int, tuple[Thread, list[str]]] = {}
        chosen: list[tuple[Thread, CheckpointRow]] = []
        for row in rows:
            if row[1] not in known:
                thread = threads.from_row(row[1:_WIDTH], _text(row[0]))
                known[thread.id] = thread, wanted_hashes(thread.codec, self.wanted)
            thread, hashes = known[row[1]]
            namespace, _, name, _, _, held, *_ = plain_columns(row[_WIDTH:_END])
            if may_match(held, hashes):
                chosen.append((thread, CheckpointRow.decode(thread, row[_WIDTH:_END])))
                stored = zip(*(one or () for one in row[_END:]), strict=True)  # without any row, an array is NULL
                of_row = pending_writes.from_rows(thread, namespace, ((row[_WIDTH + 2], *one) for one in stored))
                writes[thread.id, namespace, name] = of_row.get(name, ())
        return chosen, writes

    def _number_before(self, transaction: Transaction) -> int | None:
        """Return the highest number of the checkpoints with the id `before` in the thread, or None."""
        if self.thread_id is None or self.before is None:
            return None
        where = {"name": self.thread_id, "namespace": self.namespace, "id": ident(self.before)}
        found: tuple[int | None] = transaction.run(
            _highest(one_namespace=self.namespace is not None), where
        ).fetchone()
        return found[0]


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


@cache
def _highest(*, one_namespace: bool) -> sa.Select[int]:
    query = sa.select(sa.func.max(_checkpoint.number)).where(_checkpoint.id == sa.bindparam("id", type_=_BINARY))
    query = query.where(_checkpoint.thread == _THREAD)
    return query.where(_checkpoint.namespace == _NAMESPACE) if one_namespace else query


_BINARY = sa.LargeBinary()
_NAMESPACE = sa.bindparam("namespace", type_=sa.Text())
_THREAD = sa.select(_thread.id).where(_thread.thread_id == sa.bindparam("name", type_=sa.Text())).scalar_subquery()


@cache
def _rows(*, with_writes: bool, one_thread: bool, **options: Any) -> sa.Select[*tuple[Any, ...]]:
    rows = _checkpoints(one_thread=one_thread, **options)
    if not with_writes:
        return rows
    chosen = rows.subquery("chosen")
    column = list(chosen.c)
    namespace, number, name = column[_WIDTH : _WIDTH + 3]
    writes = (
        sa.select(*(sa.func.array_agg(_write[part]).label(part) for part in ("task", "refs", "body")))
        .where(_write.thread == column[1], _write.namespace == namespace, _write.checkpoint == name)
        .lateral("writes")
    )
    order = (number.desc(),) if one_thread else (name.desc(), column[0].desc(), number.desc())
    return sa.select(chosen, writes).select_from(chosen.outerjoin(writes, sa.true())).order_by(*order)


@cache
def _checkpoints(
    *, one_thread: bool, one_namespace: bool, only: bool, below: bool, before: bool, after: bool, hashes: int
) -> sa.Select[*tuple[Any, ...]]:
    order: dict[str, sa.Column[Any]] = {"number": _checkpoint.number}
    if not one_thread:  # ids of threads that were copied are equal
        order = {"id": _checkpoint.id, "name": _thread.thread_id, "number": _checkpoint.number}
    types: dict[str, Any] = {"id": _BINARY, "name": sa.Text(), "number": sa.BigInteger()}
    query = sa.select(_thread.thread_id, *COLUMNS, *checkpoint_rows.COLUMNS)
    query = query.join_from(tables.checkpoint, tables.thread, _thread.id == _checkpoint.thread)
    conditions = {
        _checkpoint.thread == _THREAD: one_thread,
        _checkpoint.namespace == _NAMESPACE: one_namespace,
        _checkpoint.id == sa.bindparam("only", type_=_BINARY): only,
        _checkpoint.number < sa.bindparam("below", type_=sa.BigInteger()): below,
        _checkpoint.id < sa.bindparam("before", type_=_BINARY): before,
    }
    query = query.where(*(condition for condition, wanted in conditions.items() if wanted))
    if after:
        last = [sa.bindparam(f"after_{field}", type_=types[field]) for field in order]
        query = query.where(sa.tuple_(*order.values()) < sa.tuple_(*last))
        if not one_thread:  # follows from the condition above, and lets the database begin within the index
            query = query.where(_checkpoint.id <= sa.bindparam("after_id", type_=_BINARY))
    held = _checkpoint.metadata_hashes
    unknown = held.is_(None) | _thread.salt.is_not(None)  # the hashes of an encrypted thread are keyed
    query = query.where(*(unknown | held.contains(sa.bindparam(f"hash_{place}")) for place in range(hashes)))
    size = sa.bindparam("size", type_=sa.BigInteger())
    return query.order_by(*(column.desc() for column in order.values())).limit(size)
