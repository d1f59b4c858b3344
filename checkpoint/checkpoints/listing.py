"""Reads the checkpoints that `list` wants, newest first: of one thread, or of all threads.

The keys of many checkpoints are read at once, then the checkpoints of a page. The database chooses the keys by hashes
of the metadata if a filter is given. If encrypted, these hashes are keyed by the thread, and are compared here.

On PostgreSQL, one statement reads a page of checkpoints with their threads and their pending writes, unless hashes
have to be compared here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from ..db import tables
from ..db.row_codec import RowCodec
from ..db.statements import BINARY_RESULTS, any_of, in_groups
from ..db.thread_row import COLUMNS, Thread, Threads
from . import pending_writes
from .checkpoint_rows import COLUMN_NAMES, CheckpointRow
from .metadata_hashes import may_match, wanted_hashes
from .pending_writes import Write

_GROWTH = 8
"""How many times more keys each query reads than the one before."""
_MOST_KEYS = 65_536

_thread, _checkpoint, _write = tables.thread.c, tables.checkpoint.c, tables.write.c
_PLAIN = RowCodec(0)


class Key(NamedTuple):
    """What identifies a checkpoint, and its place in the order of a list."""

    thread: int
    namespace: str
    number: int
    id: str
    name: str
    """The thread's own id, by which threads are ordered; "" in a list of one thread."""


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

    def keys(self, conn: sa.Connection, threads: Threads, after: Key | None, size: int) -> tuple[list[Key], bool]:
        """Return about `size` keys behind `after`, newest first, and whether there can be more.

        They include all checkpoints that are wanted, and can include others.
        """
        below = self._number_before(conn)
        while True:
            rows = self._found(conn, threads, _keys, after=after, size=size, below=below).all()
            found = {Key(*row[: len(Key._fields)]): row.metadata_hashes for row in rows}
            kept = self._matching(conn, threads, found) if self.compares_hashes(threads) else list(found)
            kept = [key for key in kept if self._is_before(key, below)]
            if kept or len(rows) < size:
                return kept, len(rows) == size
            after, size = [*found][-1], larger(size)

    def compares_hashes(self, threads: Threads) -> bool:
        """Whether the database cannot choose by the metadata, because hashes are keyed by the thread."""
        return bool(self.wanted) and threads.keys is not None

    def page(
        self, conn: sa.Connection, threads: Threads, after: Key | None, size: int
    ) -> tuple[list[Key], bool, "Page"]:
        """Return what `keys`, `at` and `written` return, by one PostgreSQL statement for a page.

        Only if `compares_hashes` is False. A list with `before` takes two statements.
        """
        below, page = self._number_before(conn), Page([], {})
        known: dict[int, Thread] = {}
        keys: list[Key] = []
        while True:
            rows = self._found(conn, threads, _whole_rows, after=after, size=size, below=below).mappings().all()
            for row in rows:
                after = Key(*(row[name] for name in Key._fields))
                if not self._is_before(after, below):
                    continue
                keys.append(after)
                if after.thread not in known:
                    columns = tuple(row[f"thread_{name}"] for name in _THREAD_COLUMNS)
                    known[after.thread] = threads.from_row(conn, columns)
                page.add(known[after.thread], row)
            if keys or len(rows) < size:
                return keys, len(rows) == size, page

    def _found(
        self,
        conn: sa.Connection,
        threads: Threads,
        query: Callable[..., sa.Select[*tuple[Any, ...]]],
        *,
        after: Key | None,
        size: int,
        below: int | None,
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        """Return the first `size` rows behind `after`; `query` makes the statement."""
        hashes = wanted_hashes(_PLAIN, self.wanted) if threads.keys is None else []
        where = {"name": self.thread_id, "namespace": self.namespace, "only": self.only, "size": size}
        where |= {"below": below, "before": self.before}
        where |= {f"after_{name}": value for name, value in (after._asdict() if after else {}).items()}
        where |= {f"hash_{place}": one for place, one in enumerate(hashes)}
        statement = query(
            one_thread=self.thread_id is not None,
            one_namespace=self.namespace is not None,
            only=bool(self.only),
            below=below is not None,
            before=self.thread_id is None and self.before is not None,
            after=after is not None,
            hashes=len(hashes),
        )
        return conn.execute(statement, where)

    def _is_before(self, key: Key, below: int | None) -> bool:
        """Whether a key that was found fulfills `before`, where the database does not choose by it."""
        return self.thread_id is None or not self.before or below is not None or key.id < self.before

    def _number_before(self, conn: sa.Connection) -> int | None:
        """Return the highest number of the checkpoints with the id `before` in the thread, or None."""
        if self.thread_id is None or self.before is None:
            return None
        where = {"name": self.thread_id, "namespace": self.namespace, "id": self.before}
        found: int | None = conn.execute(_highest(one_namespace=self.namespace is not None), where).scalar_one()
        return found

    def _matching(self, conn: sa.Connection, threads: Threads, found: Mapping[Key, str | None]) -> list[Key]:
        """Return the keys whose hashes, keyed by their threads, do not tell that the checkpoint is not wanted."""
        known = _threads(conn, threads, found)
        hashes = {number: wanted_hashes(thread.codec, self.wanted) for number, thread in known.items()}
        return [key for key, held in found.items() if key.thread in hashes and may_match(held, hashes[key.thread])]


@dataclass(frozen=True, slots=True)
class Page:
    """Checkpoints by threads, as `at` returns them, and their pending writes, as `written` returns them."""

    groups: list[tuple[Thread, list[CheckpointRow]]]
    writes: dict[tuple[int, str, str], Sequence[Write]]

    def add(self, thread: Thread, row: sa.RowMapping) -> None:
        """Add a checkpoint of a thread."""
        if not self.groups or self.groups[-1][0] is not thread:
            self.groups.append((thread, []))
        self.groups[-1][1].append(CheckpointRow.decode(thread, row))
        if row["tasks"]:  # without any row, an aggregate is NULL
            namespace, name = row["namespace"], row["id"]
            rows = [(name, *one) for one in zip(row["tasks"], row["writes"], strict=True)]
            self.writes[thread.id, namespace, name] = pending_writes.from_rows(thread, namespace, rows)[name]


def larger(size: int) -> int:
    """Return how many keys the next query reads, so that even a long list takes few queries."""
    return min(size * _GROWTH, _MOST_KEYS)


def at(conn: sa.Connection, threads: Threads, keys: Sequence[Key]) -> list[tuple[Thread, list[CheckpointRow]]]:
    """Return the checkpoints that still exist, in the order of `keys`; neighbors of one thread stand together."""
    rows = {
        (row["thread"], row["namespace"], row["number"]): row
        for row in _chosen(conn, "number", [key[:3] for key in keys])
    }
    known = _threads(conn, threads, keys)
    groups: list[tuple[Thread, list[CheckpointRow]]] = []
    for key in keys:
        row, thread = rows.get(key[:3]), known.get(key.thread)
        if row is None or thread is None:
            continue
        if not groups or groups[-1][0] is not thread:
            groups.append((thread, []))
        groups[-1][1].append(CheckpointRow.decode(thread, row))
    return groups


def _threads(conn: sa.Connection, threads: Threads, keys: Iterable[Key]) -> dict[int, Thread]:
    """Return the threads of checkpoints by the number in their keys."""
    found: dict[int, Thread] = {}
    for size, group in in_groups([*{key.thread for key in keys}]):
        for row in conn.execute(_numbered_threads(size), group):
            found[row.id] = threads.from_row(conn, row)
    return found


def written(
    conn: sa.Connection, groups: Iterable[tuple[Thread, Sequence[CheckpointRow]]]
) -> dict[tuple[int, str, str], Sequence[Write]]:
    """Return the pending writes of checkpoints by thread, namespace and id, in LangGraph's order."""
    threads = {thread.id: thread for thread, _ in groups}
    keys = [(thread.id, row.namespace, row.id) for thread, rows in groups for row in rows]
    rows: dict[tuple[int, str], list[Any]] = {}
    for row in _chosen(conn, "checkpoint", keys):
        rows.setdefault((row["thread"], row["namespace"]), []).append((row["checkpoint"], row["task"], row["body"]))
    found: dict[tuple[int, str, str], Sequence[Write]] = {}
    for (thread, namespace), some in rows.items():
        by_id = pending_writes.from_rows(threads[thread], namespace, some)
        found.update(((thread, namespace, name), writes) for name, writes in by_id.items())
    return found


_ROWS = sa.select(_checkpoint.thread, *(_checkpoint[name] for name in COLUMN_NAMES))
_QUERIES: Mapping[str, tuple[sa.Select[*tuple[Any, ...]], tuple[sa.Column[Any], ...]]] = {
    "number": (_ROWS, (_checkpoint.thread, _checkpoint.namespace, _checkpoint.number)),
    "checkpoint": (sa.select(tables.write), (_write.thread, _write.namespace, _write.checkpoint)),
}
"""By the last column of a key: a query, and the columns of the key."""


def _chosen(conn: sa.Connection, last: str, keys: Sequence[tuple[Any, ...]]) -> Iterator[sa.RowMapping]:
    """Yield the rows with these keys. A page of one thread is compared by the last column alone."""
    places = {key[:2] for key in keys}
    for size, group in in_groups(keys):
        where = {f"{name}_{place}": part for name, key in group.items() for place, part in enumerate(key)}
        yield from conn.execute(_by_keys(last, size, alone=len(places) == 1), where).mappings()


@cache
def _by_keys(last: str, size: int, *, alone: bool) -> sa.Select[*tuple[Any, ...]]:
    query, columns = _QUERIES[last]

    def value(number: int, place: int) -> sa.BindParameter[Any]:
        return sa.bindparam(f"value_{number}_{place}", type_=columns[place].type)

    if alone:
        found = columns[2].in_([value(number, 2) for number in range(size)])
        query = query.where(columns[0] == value(0, 0), columns[1] == value(0, 1), found)
    else:
        # no comparison of tuples, for which SQLite reads the whole table
        keys = [
            sa.and_(*(column == value(number, place) for place, column in enumerate(columns)))
            for number in range(size)
        ]
        query = query.where(sa.or_(*keys))
    return query.execution_options(**{BINARY_RESULTS: True})


@cache
def _numbered_threads(size: int) -> sa.Select[*tuple[Any, ...]]:
    return sa.select(*COLUMNS, _thread.salt).where(any_of(_thread.id, size))


@cache
def _highest(*, one_namespace: bool) -> sa.Select[int]:
    query = sa.select(sa.func.max(_checkpoint.number)).where(_checkpoint.id == sa.bindparam("id"))
    query = query.where(_checkpoint.thread == _THREAD)
    return query.where(_checkpoint.namespace == sa.bindparam("namespace")) if one_namespace else query


_THREAD = sa.select(_thread.id).where(_thread.thread_id == sa.bindparam("name")).scalar_subquery()


@cache
def _keys(
    *, one_thread: bool, one_namespace: bool, only: bool, below: bool, before: bool, after: bool, hashes: int
) -> sa.Select[*tuple[Any, ...]]:
    name = sa.literal("") if one_thread else _thread.thread_id
    order = _order(one_thread=one_thread)
    columns = (_checkpoint.thread, _checkpoint.namespace, _checkpoint.number, _checkpoint.id, name.label("name"))
    query = sa.select(*columns, _checkpoint.metadata_hashes)
    if not one_thread:
        query = query.join(tables.thread, _thread.id == _checkpoint.thread)
    conditions = {
        _checkpoint.thread == _THREAD: one_thread,
        _checkpoint.namespace == sa.bindparam("namespace"): one_namespace,
        _checkpoint.id == sa.bindparam("only"): only,
        _checkpoint.number < sa.bindparam("below"): below,
        _checkpoint.id < sa.bindparam("before"): before,
    }
    query = query.where(*(condition for condition, wanted in conditions.items() if wanted))
    if after:
        last = [sa.bindparam(f"after_{field}", type_=column.type) for field, column in order.items()]
        query = query.where(sa.tuple_(*order.values()) < sa.tuple_(*last))
        if not one_thread:  # follows from the condition above, and lets the database begin within the index
            query = query.where(_checkpoint.id <= sa.bindparam("after_id", type_=_checkpoint.id.type))
    held = _checkpoint.metadata_hashes
    query = query.where(*(held.is_(None) | held.contains(sa.bindparam(f"hash_{place}")) for place in range(hashes)))
    size = sa.bindparam("size", type_=sa.BigInteger())
    return query.order_by(*(column.desc() for column in order.values())).limit(size)


def _order(*, one_thread: bool) -> dict[str, sa.Column[Any]]:
    """Return the columns by which a list is ordered, by the names of a key's parts."""
    if one_thread:
        return {"number": _checkpoint.number}
    # ids of threads that were copied are equal
    return {"id": _checkpoint.id, "name": _thread.thread_id, "number": _checkpoint.number}


@cache
def _whole_rows(*, one_thread: bool, **options: Any) -> sa.Select[*tuple[Any, ...]]:
    """Return the PostgreSQL statement that finds what `_keys` finds, with all columns, threads and pending writes."""
    keys = _keys(one_thread=one_thread, **options)
    if one_thread:
        keys = keys.join(tables.thread, _thread.id == _checkpoint.thread)
    others = [_checkpoint[name] for name in COLUMN_NAMES if name not in keys.selected_columns]
    thread = [_thread[name].label(f"thread_{name}") for name in _THREAD_COLUMNS]
    chosen = keys.add_columns(*others, *thread).subquery("chosen")  # the pending writes of no other row are read
    writes = (
        sa.select(sa.func.array_agg(_write.task).label("tasks"), sa.func.array_agg(_write.body).label("writes"))
        .where(
            _write.thread == chosen.c.thread,
            _write.namespace == chosen.c.namespace,
            _write.checkpoint == chosen.c.id,
        )
        .lateral("writes")
    )
    query = sa.select(chosen, writes).select_from(chosen.outerjoin(writes, sa.true()))
    order = (chosen.c[name].desc() for name in _order(one_thread=one_thread))
    return query.order_by(*order).execution_options(**{BINARY_RESULTS: True})


_THREAD_COLUMNS = (*(column.name for column in COLUMNS), "salt")
