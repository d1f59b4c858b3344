"""Copies threads, and encrypts threads with another key: every encoded row is decoded and encoded again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from langgraph.checkpoint.serde.base import SerializerProtocol

from ..checkpoints import checkpoint_rows, pending_writes
from ..checkpoints.checkpoint_rows import CheckpointRow
from ..checkpoints.metadata_hashes import hashes_of
from ..compaction import archive, ledger, snapshots, summary_cache
from ..db import tables
from ..db.row_codec import RowCodec
from ..db.statements import chunks
from ..db.thread_row import Thread
from ..db.transaction import Transaction
from ..messages import items, references
from ..messages.decode import ValueDecoder
from ..messages.encode import ValueEncoder
from ..messages.message_store import MessageStore

_Row = Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """A column that `RowCodec` encodes.

    `name` returns the name of a row, and `bound` a text of the row's other columns. `RowCodec` binds the encoded
    bytes to both, so both are needed to decode and encode a row.
    """

    table: sa.Table
    column: str
    name: Callable[[_Row], str]
    bound: Callable[[_Row], str] = lambda _row: ""

    def encode_again(self, row: _Row, source: RowCodec, target: RowCodec) -> bytes:
        """Return the column of a row of one thread, encoded for another thread."""
        name, bound = self.name(row), self.bound(row)
        return target.encode(name, source.decode(name, bytes(row[self.column]), bound=bound), bound=bound)


ENCODED_COLUMNS = (
    EncodedColumn(tables.item, "body", lambda row: items.row_name(row["seq"], row["hashes"])),
    EncodedColumn(
        tables.checkpoint,
        "body",
        lambda row: checkpoint_rows.row_name(row["namespace"], row["id"]),
        lambda row: checkpoint_rows.bound_columns(
            row["number"], row["parent"], row["run"], row["metadata_hashes"], bytes(row["refs"])
        ),
    ),
    EncodedColumn(
        tables.write,
        "body",
        lambda row: pending_writes.row_name(row["namespace"], row["checkpoint"], row["task"]),
        lambda row: bytes(row["refs"]).hex(),
    ),
    EncodedColumn(tables.snapshot, "runs", lambda row: snapshots.row_name(row["compaction_id"])),
    EncodedColumn(
        tables.archive, "runs", lambda row: archive.row_name(row["compaction_id"]), lambda row: row["namespace"]
    ),
    EncodedColumn(
        tables.summary, "text", lambda row: summary_cache.row_name(row["compaction_id"], row["input_digest"])
    ),
    EncodedColumn(tables.ledger, "content", lambda row: ledger.row_name(row["compaction_id"]), ledger.bound_columns),
)
"""All encoded columns except the salt, which is used to encode all the others."""


def copy(
    transaction: Transaction, *, store: MessageStore, serde: SerializerProtocol, source_id: str, target_id: str
) -> None:
    """Copy every row of a thread to an empty thread; do nothing if the source thread does not exist."""
    if source_id == target_id:
        raise ValueError(f"thread {source_id!r} cannot be copied onto itself")
    found = {name: store.threads.find(transaction, name) for name in sorted((source_id, target_id))}
    source, target = found[source_id], found[target_id]
    if source is None or (target is not None and _is_copy(transaction, source, target)):
        return
    if target is not None and (target.next_checkpoint or target.next_seq):
        raise ValueError(f"thread {target_id!r} holds checkpoints already; copy into a new one")
    target = store.threads.lock(transaction, target_id)
    for table in tables.METADATA.sorted_tables:
        if "thread" in table.c:
            rows = transaction.execute(sa.select(table).where(table.c.thread == source.id)).mappings()
            for chunk in chunks([_copied(table, dict(row), source.codec, target) for row in rows]):
                transaction.execute(sa.insert(table), chunk)
    if not target.codec.hashes_are_plain:
        _update_hashes(transaction, target)
    for name in ("next_seq", "next_value", "next_checkpoint", "packed"):
        setattr(target, name, getattr(source, name))
    _rename(transaction, serde, source, target)
    store.threads.save(transaction, target)


def rotate(transaction: Transaction, *, store: MessageStore, thread_id: str) -> int:
    """Use the current key for all rows that another key encrypted; return the number of changed rows."""
    keys = store.threads.keys
    thread = store.threads.find(transaction, thread_id)
    if keys is None or thread is None:
        return 0
    changed = 0
    for encoded in ENCODED_COLUMNS:
        table, column = encoded.table, encoded.column
        for row in transaction.execute(sa.select(table).where(table.c.thread == thread.id)).mappings().all():
            if not keys.is_current(bytes(row[column])):
                key = sa.and_(*(part == row[part.name] for part in table.primary_key))
                anew = encoded.encode_again(row, thread.codec, thread.codec)
                transaction.execute(sa.update(table).where(key).values({column: anew}))
                changed += 1
    return changed + store.threads.rotate(transaction, thread)


def _copied(table: sa.Table, row: dict[str, Any], source: RowCodec, target: Thread) -> dict[str, Any]:
    anew = {one.column: one.encode_again(row, source, target.codec) for one in ENCODED_COLUMNS if one.table is table}
    if table is tables.ledger:
        del row["id"]
    return {**row, **anew, "thread": target.id}


def _rename(transaction: Transaction, serde: SerializerProtocol, source: Thread, target: Thread) -> None:
    """Put the copy's id into metadata that names the thread; LangGraph's server writes such metadata.

    The hashes of the metadata are made anew: if encrypted, they depend on the thread, too.
    """
    target.seqs = items.read_hashes(transaction, target)
    batch = items.Batch(target)

    def renamed(one: CheckpointRow) -> CheckpointRow:
        data = items.fetch(transaction, target, one.references)
        about: dict[str, Any] = ValueDecoder(target, serde, data).build_typed(one.metadata, one.row)
        if about.get("thread_id") == source.thread_id:
            about["thread_id"] = target.thread_id
            encoder = ValueEncoder(batch, serde, one.namespace)
            metadata = encoder.encode(about)
            both = references.joined([one.references, encoder.references()])
            one = replace(one, metadata=metadata, references=both)
        elif target.codec.hashes_are_plain:
            return one
        if one.metadata_hashes is None:
            return one
        return replace(one, metadata_hashes=hashes_of(target.codec, about | ({"run_id": one.run} if one.run else {})))

    checkpoint_rows.change_all(transaction, target, renamed)
    items.insert(transaction, batch.items)
    batch.count()


def _update_hashes(transaction: Transaction, thread: Thread) -> None:
    """Replace the hashes of copied rows, because an encrypted thread's hashes depend on the thread."""
    for row in items.all_rows(transaction, thread):
        items.hash_again(transaction, thread, row)


def _is_copy(transaction: Transaction, source: Thread, target: Thread) -> bool:
    """Return whether the target already holds the copy, with the same checkpoints as the source.

    This is so if the connection was lost after the commit, and the transaction is repeated.
    """
    return bool(source.next_checkpoint) and _ids(transaction, source) == _ids(transaction, target)


def _ids(transaction: Transaction, thread: Thread) -> set[tuple[str, int, str]]:
    one = tables.checkpoint.c
    rows = transaction.execute(sa.select(one.namespace, one.number, one.id).where(one.thread == thread.id))
    return {(namespace, number, name) for namespace, number, name in rows}
