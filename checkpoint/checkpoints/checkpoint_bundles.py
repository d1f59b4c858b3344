"""Old checkpoints with their writes, 64 to a row: together they take a fifth of what they take one by one.

The newest checkpoints of a namespace have rows of their own, which are written once and read alone; all that are
in its bundles came before those. What is written to a bundled checkpoint goes into its bundle. All of this happens
under the lock of the thread's row.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import ormsgpack
import sqlalchemy as sa

from ..db import tables
from ..db.columns import ident, ident_text
from ..db.statements import chunks
from ..db.thread_row import Thread
from ..errors import KeyringError, RowError, intact
from ..messages.row_bodies import expect_types, unpacked
from . import pending_writes
from .checkpoint_row import Stored, opened
from .pending_writes import Write

SIZE = 64
"""Checkpoints in a bundle."""

LOOSE = 64
"""The newest checkpoints of a namespace, which are never bundled."""

LARGE = 2**18
"""Bytes, before they are compressed, up to which a bundle takes more than one checkpoint."""

_AT_ONCE = 16  # bundles of one namespace: what an older version left is bundled bit by bit
_OPTION = ormsgpack.OPT_NON_STR_KEYS
_checkpoint, _write, _bundle, _run = tables.checkpoint.c, tables.write.c, tables.bundle.c, tables.run.c


@dataclass(frozen=True, slots=True)
class Bundle:
    """A row: `held` are its checkpoints in the order of arrival, each with its writes."""

    namespace: str
    first: int
    held: tuple[Stored, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """Where a bundle stands, and the largest number and id in it."""

    thread: int
    namespace: str
    first: int
    last: int
    high: str


class Named(NamedTuple):
    """Which checkpoint it is."""

    namespace: str
    number: int
    id: str


def may_hold(thread: Thread, checkpoint_id: str) -> bool:
    """Say whether a bundle may hold this checkpoint, without asking the database: of the newest, none does."""
    return thread.bundled is not None and ident(checkpoint_id) <= ident(thread.bundled)


def holding(conn: sa.Connection, thread: Thread, namespace: str | None, checkpoint_id: str) -> list[Bundle]:
    """Return the bundles of a namespace, or of any, that hold the checkpoint with this id."""
    if not may_hold(thread, checkpoint_id):
        return []
    wanted = sa.literal(checkpoint_id, _bundle.low.type)
    query = _rows(thread, namespace).where(_bundle.low <= wanted, _bundle.high >= wanted)
    found = [_opened(thread, row) for row in conn.execute(query).mappings()]
    return [one for one in found if any(held.id == checkpoint_id for held in one.held)]


def named(conn: sa.Connection, thread: Thread, namespace: str | None, checkpoint_id: str) -> Iterator[Stored]:
    """Yield the bundled checkpoints with this id: one of a namespace, where it is there."""
    for one in holding(conn, thread, namespace, checkpoint_id):
        yield from (held for held in one.held if held.id == checkpoint_id)


def below(conn: sa.Connection, thread: Thread, namespace: str, end: int) -> Iterator[Stored]:
    """Yield the bundled checkpoints of a namespace up to the number `end`, the newest first."""
    for head in heads(conn, thread, namespace):
        if head.first <= end:
            yield from (held for held in reversed(read(conn, thread, head).held) if held.number <= end)


def numbered(conn: sa.Connection, thread: Thread, namespace: str, numbers: Iterable[int]) -> Iterator[Stored]:
    """Yield the bundled checkpoints of a namespace that have these numbers."""
    wanted = set(numbers)
    for head in heads(conn, thread, namespace) if wanted else ():
        if any(head.first <= number <= head.last for number in wanted):
            yield from (held for held in read(conn, thread, head).held if held.number in wanted)


def heads(conn: sa.Connection, thread: Thread, namespace: str | None) -> list[Head]:
    """Return where the bundles of a namespace, or of all, stand, the newest first."""
    if thread.bundled is None:
        return []
    query = _HEADS if namespace is None else _HEADS_OF_ONE
    return [Head(*row) for row in conn.execute(query, {"thread": thread.id, "namespace": namespace})]


def heads_of_all(conn: sa.Connection) -> list[Head]:
    """Return where the bundles of all threads stand, the one with the largest id first."""
    return [Head(*row) for row in conn.execute(sa.select(*_HEAD).order_by(_bundle.high.desc()))]


def read(conn: sa.Connection, thread: Thread, head: Head) -> Bundle:
    """Read a bundle; RowError names one that is damaged."""
    return _opened(thread, _row(conn, thread, head))


def named_in(conn: sa.Connection, thread: Thread, head: Head) -> list[Named]:
    """Return which checkpoints a bundle holds; RowError names one that is damaged."""
    row = _row(conn, thread, head)
    with intact(thread.seal.name(row_name(head.namespace, head.first))):
        found = [Named(head.namespace, number, ident_text(name)) for number, name, *_ in _entries(thread, row)]
        expect_types(*((one.number, int) for one in found))
    return found


def all_of(conn: sa.Connection, thread: Thread) -> Iterator[Bundle]:
    """Yield the bundles of a thread, the oldest of a namespace first."""
    for head in reversed(heads(conn, thread, None)):
        yield read(conn, thread, head)


def bundle_old(conn: sa.Connection, thread: Thread) -> None:
    """Bundle what is old enough. The thread's counters are not saved yet.

    A namespace in which something is damaged stays as it is: whoever reads that is told.
    """
    count = sa.func.count()
    many = sa.select(_checkpoint.namespace, count).where(_checkpoint.thread == thread.id)
    many = many.group_by(_checkpoint.namespace).having(count >= SIZE + LOOSE)
    for namespace, there in conn.execute(many).all():
        try:
            held = _oldest(conn, thread, namespace, min((there - LOOSE) // SIZE, _AT_ONCE) * SIZE)
        except (RowError, KeyringError):  # it stays, and is an error for whoever reads it
            continue
        rows = [_closed(thread, Bundle(namespace, group[0].number, tuple(group))) for group in _groups(held)]
        conn.execute(sa.insert(tables.bundle), rows)
        _delete_loose(conn, thread, namespace, held)
        _note_runs(conn, thread, held)
        highest = [*(one.id for one in held), *(() if thread.bundled is None else (thread.bundled,))]
        thread.bundled = max(highest, key=ident)


def rewrite(conn: sa.Connection, thread: Thread, bundle: Bundle, held: Sequence[Stored]) -> None:
    """Let other checkpoints stand in the place of a bundle's; with none it goes."""
    mine = sa.and_(_bundle.thread == thread.id, _bundle.namespace == bundle.namespace, _bundle.first == bundle.first)
    if held:
        row = _closed(thread, replace(bundle, held=tuple(held)))
        conn.execute(sa.update(tables.bundle).where(mine).values(row))
        _note_runs(conn, thread, held)
    else:
        conn.execute(sa.delete(tables.bundle).where(mine))


def forget_runs(conn: sa.Connection, thread: Thread, runs: Iterable[str]) -> None:
    """Forget that the thread's bundles hold checkpoints of these runs."""
    for chunk in chunks(sorted(runs)):
        conn.execute(sa.delete(tables.run).where(_run.thread == thread.id, _run.run.in_(chunk)))


def _oldest(conn: sa.Connection, thread: Thread, namespace: str, size: int) -> list[Stored]:
    """Return the oldest loose checkpoints of a namespace with their writes; RowError for one that is damaged."""
    ours = sa.and_(_checkpoint.thread == thread.id, _checkpoint.namespace == namespace)
    query = sa.select(tables.checkpoint).where(ours).order_by(_checkpoint.number).limit(size)
    found = [opened(thread, row) for row in conn.execute(query).mappings()]
    written = pending_writes.of(conn, thread, namespace, [one.id for one in found])
    return [replace(one, writes=tuple(written.get(one.id, ()))) for one in found]


def _groups(held: Iterable[Stored]) -> Iterator[list[Stored]]:
    group: list[Stored] = []
    taken = 0
    for one in held:
        size = len(ormsgpack.packb(_entry(one), option=_OPTION))
        if group and (len(group) == SIZE or taken + size > LARGE):
            yield group
            group, taken = [], 0
        group.append(one)
        taken += size
    yield group


def _delete_loose(conn: sa.Connection, thread: Thread, namespace: str, held: Sequence[Stored]) -> None:
    ours = sa.and_(_checkpoint.thread == thread.id, _checkpoint.namespace == namespace)
    conn.execute(sa.delete(tables.checkpoint).where(ours, _checkpoint.number <= held[-1].number))
    theirs = sa.and_(_write.thread == thread.id, _write.namespace == namespace)
    for chunk in chunks([one.id for one in held if one.writes]):
        conn.execute(sa.delete(tables.write).where(theirs, _write.checkpoint.in_(chunk)))


def _note_runs(conn: sa.Connection, thread: Thread, held: Iterable[Stored]) -> None:
    runs = sorted({one.run for one in held if one.run})
    for chunk in chunks(runs):
        query = sa.select(_run.run).where(_run.thread == thread.id, _run.run.in_(chunk))
        known = set(conn.execute(query).scalars())
        if fresh := [{"thread": thread.id, "run": run} for run in chunk if run not in known]:
            conn.execute(sa.insert(tables.run), fresh)


def _of(query: Any, thread: Thread, namespace: str | None) -> Any:
    ours = query.where(_bundle.thread == thread.id)
    return ours if namespace is None else ours.where(_bundle.namespace == namespace)


def _rows(thread: Thread, namespace: str | None) -> Any:
    return _of(sa.select(tables.bundle), thread, namespace)


def _row(conn: sa.Connection, thread: Thread, head: Head) -> Mapping[Any, Any]:
    query = _rows(thread, head.namespace).where(_bundle.first == head.first)
    row: Mapping[Any, Any] = conn.execute(query).mappings().one()
    return row


def _entry(one: Stored) -> list[Any]:
    names = [None if name is None else ident(name) for name in (one.id, one.parent, one.run)]
    tasks: dict[str, list[Write]] = {}
    for write in one.writes or ():
        tasks.setdefault(write.task, []).append(write)
    written = [[ident(task), pending_writes.grouped(writes)] for task, writes in tasks.items()]
    return [one.number, *names, *one.content, written]


def _closed(thread: Thread, bundle: Bundle) -> dict[str, Any]:
    """Return a bundle's row."""
    ids = [one.id for one in bundle.held]
    row: dict[str, Any] = {
        "thread": thread.id,
        "namespace": bundle.namespace,
        "first": bundle.first,
        "last": bundle.held[-1].number,
        "low": min(ids, key=ident),
        "high": max(ids, key=ident),
        "size": len(ids),
    }
    data = ormsgpack.packb(list(map(_entry, bundle.held)), option=_OPTION)
    name = row_name(bundle.namespace, bundle.first)
    return {**row, "body": thread.seal.close(name, data, beside=beside(row))}


def _opened(thread: Thread, row: Mapping[Any, Any]) -> Bundle:
    namespace = row["namespace"]
    with intact(thread.seal.name(row_name(namespace, row["first"]))):
        held = tuple(_of_entry(namespace, entry) for entry in _entries(thread, row))
    return Bundle(namespace, row["first"], held)


def _entries(thread: Thread, row: Mapping[Any, Any]) -> Any:
    return unpacked(thread, row_name(row["namespace"], row["first"]), bytes(row["body"]), beside(row))


def _of_entry(namespace: str, entry: Sequence[Any]) -> Stored:
    number, name, parent, run, *content, written = entry
    expect_types((number, int), (name, bytes))
    own = ident_text(name)
    writes: list[Write] = []
    for shortened, items in written:
        task = ident_text(shortened)
        writes += pending_writes.ungrouped(items, task, pending_writes.row_name(namespace, own, task))
    return Stored.of(
        content,
        namespace=namespace,
        number=number,
        id=own,
        parent=None if parent is None else ident_text(parent),
        run=None if run is None else ident_text(run),
        writes=tuple(sorted(writes, key=pending_writes.place)),
    )


def row_name(namespace: str, first: int) -> str:
    """Return a bundle's name within its thread."""
    return f"bundle {first} in {namespace!r}"


def beside(row: Mapping[Any, Any]) -> str:
    """Return what a bundle's body is bound to besides its name."""
    return f"{row['last']} {row['low']} {row['high']} {row['size']}"


_HEAD = (_bundle.thread, _bundle.namespace, _bundle.first, _bundle.last, _bundle.high)
_HEADS = sa.select(*_HEAD).where(_bundle.thread == sa.bindparam("thread")).order_by(_bundle.last.desc())
_HEADS_OF_ONE = _HEADS.where(_bundle.namespace == sa.bindparam("namespace"))
