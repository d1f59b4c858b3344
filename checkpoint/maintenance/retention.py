"""Erases threads, checkpoints of runs, old checkpoints, and the messages and blobs that nothing refers to."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

import sqlalchemy as sa
from langgraph.checkpoint.serde.base import SerializerProtocol

from ..checkpoints import checkpoint_rows, pending_writes, write_guards
from ..checkpoints.checkpoint_rows import CheckpointRow, follow_parents, full_row_name
from ..compaction import archive, ledger, snapshots
from ..db import run_leases, tables
from ..db.statements import chunks
from ..db.thread_row import Thread, is_leased, new_stamp
from ..db.transaction import Transaction
from ..messages import items, references
from ..messages.decode import TYPED, VALUE, ValueDecoder
from ..messages.message_store import MessageStore
from ..messages.references import References
from ..messages.sequence_runs import covering, expand

_DELTA = "counters_since_delta_snapshot"


@dataclass(frozen=True, slots=True)
class Keep:
    """What pruning keeps in each namespace of a thread.

    It keeps the newest `last` checkpoints, and all checkpoints written at or after `since` (Unix seconds). `archive`
    says whether the archive and the snapshots are kept too.
    """

    last: int
    since: float | None
    archive: bool


def names(transaction: Transaction, prefix: str | None = None, metadata_hashes: Sequence[str] = ()) -> list[str]:
    """Return the ids of the threads that may be wanted, in the order in which they were created.

    Their ids begin with `prefix`, and each hash is found in the metadata hashes of one of their checkpoints. An
    encrypted thread, whose hashes are keyed, may always be wanted.
    """
    row, held = tables.thread.c, tables.checkpoint.c.metadata_hashes
    query = sa.select(row.thread_id).order_by(row.id)
    if prefix is not None:  # LIKE ignores case on SQLite
        begin = sa.literal(prefix, row.thread_id.type)
        query = query.where(sa.func.substr(row.thread_id, 1, sa.func.length(begin)) == begin)
    if metadata_hashes:
        having = (held.is_(None) | held.contains(one) for one in metadata_hashes)
        found = sa.exists().where(tables.checkpoint.c.thread == row.id, *having)
        query = query.where(found | row.salt.is_not(None))
    return list(transaction.execute(query).scalars())


def threads_of_runs(transaction: Transaction, runs: Sequence[str]) -> list[str]:
    """Return the ids of the threads that have checkpoints of these runs of a graph."""
    found: dict[str, None] = {}
    for chunk in chunks(runs):
        joined = sa.select(tables.thread.c.thread_id).distinct()
        joined = joined.join(tables.checkpoint, tables.checkpoint.c.thread == tables.thread.c.id)
        found.update(dict.fromkeys(transaction.execute(joined.where(tables.checkpoint.c.run.in_(chunk))).scalars()))
    return list(found)


def idle(transaction: Transaction, until: float) -> list[str]:
    """Return the ids of the threads that were last written to before `until` (Unix seconds)."""
    query = sa.select(tables.thread.c.thread_id).where(tables.thread.c.updated_at < until)
    return list(transaction.execute(query.order_by(tables.thread.c.id)).scalars())


def erase(transaction: Transaction, thread: Thread, now: float) -> None:
    """Erase every row of a thread, and record that it was erased."""
    for table in tables.METADATA.sorted_tables:
        if "thread" in table.c:
            transaction.execute(sa.delete(table).where(table.c.thread == thread.id))
    transaction.execute(sa.delete(tables.thread).where(tables.thread.c.id == thread.id))
    run_leases.forget(transaction, thread.thread_id)
    write_guards.note_erased(transaction, thread.thread_id, now)


def erase_idle(transaction: Transaction, *, store: MessageStore, thread_id: str, until: float) -> bool:
    """Erase a thread unless it was written to since `until`, or is leased; return whether it was erased."""
    thread = store.threads.find(transaction, thread_id)
    now = store.threads.now()
    if thread is None or thread.updated_at >= until or is_leased(thread, now):
        return False
    erase(transaction, thread, now)
    return True


def delete_runs(transaction: Transaction, thread: Thread, runs: Sequence[str]) -> None:
    """Erase the checkpoints of these runs; set the parent of their children to the nearest remaining ancestor."""
    stored = checkpoint_rows.all_of(transaction, thread)
    _remove(transaction, thread, stored, gone={one.key for one in stored if one.run in set(runs)})
    sweep(transaction, thread)


def prune(transaction: Transaction, thread: Thread, serde: SerializerProtocol, keep: Keep) -> None:
    """Erase the checkpoints that `keep` does not keep, and everything that only these checkpoints refer to."""
    stored = checkpoint_rows.all_of(transaction, thread)
    decoder = ValueDecoder(thread, serde, items.fetch(transaction, thread, _metadata_values(stored)))
    describe = thread.codec.describe
    about = {one.key: decoder.build_typed(one.metadata, describe(one.row)) for one in stored}
    written: set[tuple[str, str, str]] = set()
    for namespace, name, writes in pending_writes.all_of(transaction, thread):
        written.update((namespace, name, write.channel) for write in writes)
    kept = _kept(thread, stored, about, written, keep)
    _remove(transaction, thread, stored, gone=about.keys() - kept)
    if not keep.archive:
        _drop_archive(transaction, thread)
    sweep(transaction, thread)


def _metadata_values(stored: Sequence[CheckpointRow]) -> References:
    """Return the values that hold the metadata of checkpoints, where it is large."""
    return References(values=tuple({one.metadata[1] for one in stored if one.metadata[0] in {VALUE, TYPED}}))


def _kept(
    thread: Thread,
    stored: Sequence[CheckpointRow],
    about: Mapping[tuple[str, str], Mapping[str, Any]],
    written: AbstractSet[tuple[str, str, str]],
    keep: Keep,
) -> set[tuple[str, str]]:
    by_namespace: dict[str, list[CheckpointRow]] = {}
    for one in stored:
        by_namespace.setdefault(one.namespace, []).append(one)
    kept: set[tuple[str, str]] = set()
    for namespace in sorted(by_namespace):  # the root namespace "" first: what is kept there decides about subgraphs
        line = by_namespace[namespace]
        root = ("", about[namespace, line[-1].id].get("parents", {}).get(""))
        if ":" in namespace and root in about and root not in kept:
            continue  # a call of a subgraph: its checkpoints go with the root checkpoint that made the call
        young = [one for one in line if keep.since is not None and _time(one) >= keep.since]
        for one in [*line[max(len(line) - keep.last, 0) :], *young]:
            kept.update((namespace, name) for name in _with_delta(thread, one, line, about, written))
    return kept


def _with_delta(
    thread: Thread,
    one: CheckpointRow,
    line: Sequence[CheckpointRow],
    about: Mapping[tuple[str, str], Mapping[str, Any]],
    written: AbstractSet[tuple[str, str, str]],
) -> Iterator[str]:
    """Yield the ids of a checkpoint and of the ancestors from which its delta channels are rebuilt."""
    yield one.id
    missing = set(about[one.namespace, one.id].get(_DELTA) or ()) - one.values.keys()
    by_id = {held.id: held for held in line} if missing else {}
    parents = {name: held.parent for name, held in by_id.items()}
    for name in follow_parents(one.id, parents.get, lambda name: full_row_name(thread, one.namespace, name)):
        ancestor = by_id.get(name)
        if not missing or ancestor is None:
            return
        if ancestor is one:
            continue
        held = missing & ancestor.values.keys()
        if held or any((one.namespace, name, channel) in written for channel in missing):
            yield name
        missing -= held


def _remove(
    transaction: Transaction, thread: Thread, stored: Sequence[CheckpointRow], *, gone: set[tuple[str, str]]
) -> None:
    """Erase checkpoints, and set the parent of their children to the nearest remaining ancestor."""
    parents = {one.key: one.parent for one in stored}

    def change(one: CheckpointRow) -> CheckpointRow | None:
        namespace = one.namespace
        line = follow_parents(
            one.id, lambda name: parents[namespace, name], lambda name: full_row_name(thread, namespace, name)
        )
        parent = next((name for name in islice(line, 1, None) if (namespace, name) not in gone), None)
        return None if one.key in gone else replace(one, parent=parent)

    checkpoint_rows.change_all(transaction, thread, change)


def _drop_archive(transaction: Transaction, thread: Thread) -> None:
    """Erase the archive, and the snapshots of attempts that have ended."""
    still_open = ledger.open_attempts(transaction, thread.id)
    transaction.execute(sa.delete(tables.archive).where(tables.archive.c.thread == thread.id))
    ours = tables.snapshot.c.thread == thread.id
    transaction.execute(sa.delete(tables.snapshot).where(ours, tables.snapshot.c.compaction_id.not_in(still_open)))


def _time(one: CheckpointRow) -> float:
    try:
        return datetime.fromisoformat(one.ts).timestamp()
    except ValueError:  # the checkpoint's age is unknown, so the checkpoint does not count as old
        return float("inf")


def sweep(transaction: Transaction, thread: Thread) -> None:
    """Erase the messages and values that no checkpoint, pending write, snapshot or archive row refers to."""
    found = references.joined(references_of_rows(transaction, thread))
    shared = items.fetch(transaction, thread, References(values=found.shared))
    runs = [found.runs, *(items.shared_runs(shared, number, thread) for number in found.shared)]
    held = [*snapshots.of_thread(transaction, thread).values(), *archive.of_thread(transaction, thread).values()]
    whole = covering([*runs, *held])
    items.check_runs(thread, whole)
    live = set(expand(whole))
    live.update(-1 - number for number in (*found.values, *found.shared))
    gone: list[int] = []
    for seq, hashes, body in items.all_rows(transaction, thread):
        span = range(seq, seq + len(hashes) // items.HASH_BYTES)
        left = live.intersection(span)
        if not left:
            gone.append(seq)
        elif len(left) < len(span):
            items.erase_within(transaction, thread, (seq, hashes, body), left)
    items.delete(transaction, thread, gone)
    thread.seqs, thread.lists, thread.newest = None, {}, {}
    stamp = {"key": thread.id, "content": new_stamp()}
    transaction.run(_STAMP, stamp)


def references_of_rows(transaction: Transaction, thread: Thread) -> list[References]:
    """Return the items to which each checkpoint, and each row of pending writes, of a thread refers.

    Every row is decoded first: its body tells whether its references were changed.
    """
    rows = [one.references for one in checkpoint_rows.all_of(transaction, thread)]
    rows += [writes[0].references for _, _, writes in pending_writes.all_of(transaction, thread) if writes]
    return rows


_STAMP = (
    sa.update(tables.thread).where(tables.thread.c.id == sa.bindparam("key")).values(stamp=sa.bindparam("content"))
)
