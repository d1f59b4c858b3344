"""Threads copied, and encrypted anew: every sealed row is opened and closed again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from langgraph.checkpoint.serde.base import SerializerProtocol

from ..checkpoints import checkpoint_rows, pending_writes
from ..checkpoints.checkpoint_rows import CheckpointRow
from ..compaction import archive, ledger, snapshots, summary_cache
from ..db import tables
from ..db.row_codec import RowCodec
from ..db.statements import chunks
from ..db.thread_row import Thread
from ..messages import blobs, message_blocks
from ..messages.message_codec import content_hash
from ..messages.message_store import MessageStore

_Row = Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class Sealed:
    """A column that is sealed, under which name, and bound to what beside it."""

    table: sa.Table
    column: str
    name: Callable[[_Row], str]
    beside: Callable[[_Row], str] = lambda _row: ""

    def again(self, row: _Row, source: RowCodec, target: RowCodec) -> bytes:
        """Return the column of a row of one thread, sealed for another."""
        name, beside = self.name(row), self.beside(row)
        return target.encode(name, source.decode(name, bytes(row[self.column]), bound=beside), bound=beside)


SEALED = (
    Sealed(tables.message, "body", lambda row: f"message {row['seq']}"),
    Sealed(tables.pack, "body", lambda row: f"pack {row['block']}"),
    Sealed(tables.blob, "body", lambda row: f"blob {row['number']}"),
    Sealed(
        tables.checkpoint,
        "body",
        lambda row: checkpoint_rows.row_name(row["namespace"], row["id"]),
        lambda row: checkpoint_rows.bound_columns(row["number"], row["parent"], row["run"]),
    ),
    Sealed(
        tables.write,
        "body",
        lambda row: pending_writes.row_name(row["namespace"], row["checkpoint"], row["task"]),
    ),
    Sealed(tables.snapshot, "runs", lambda row: snapshots.row_name(row["compaction_id"])),
    Sealed(tables.archive, "runs", lambda row: archive.row_name(row["compaction_id"])),
    Sealed(tables.summary, "text", lambda row: summary_cache.row_name(row["compaction_id"], row["input_digest"])),
    Sealed(tables.ledger, "content", lambda row: ledger.row_name(row["compaction_id"])),
)
"""Every sealed column but the salt, which is what the others are sealed with."""


def copy(
    conn: sa.Connection, *, store: MessageStore, serde: SerializerProtocol, source_id: str, target_id: str
) -> None:
    """Copy every row of a thread to another one that holds nothing; nothing happens where there is no source."""
    if source_id == target_id:
        raise ValueError(f"thread {source_id!r} cannot be copied onto itself")
    found = {name: store.find(conn, name) for name in sorted((source_id, target_id))}
    source, target = found[source_id], found[target_id]
    if source is None or (target is not None and _is_copy(conn, source, target)):
        return
    if target is not None and (target.next_checkpoint or target.next_seq):
        raise ValueError(f"thread {target_id!r} holds checkpoints already; copy into a new one")
    target = store.thread(conn, target_id)
    for table in tables.METADATA.sorted_tables:
        if "thread" in table.c:
            rows = conn.execute(sa.select(table).where(table.c.thread == source.id)).mappings()
            for chunk in chunks([_copied(table, dict(row), source.codec, target) for row in rows]):
                conn.execute(sa.insert(table), chunk)
    if not target.codec.hashes_are_plain:
        _hash_anew(conn, target)
    for name in ("next_seq", "next_blob", "next_checkpoint", "packed", "nameless"):
        setattr(target, name, getattr(source, name))
    _name_anew(conn, serde, source, target)
    store.threads.save(conn, target)


def rotate(conn: sa.Connection, *, store: MessageStore, thread_id: str) -> int:
    """Encrypt with the current key what an older one encrypted; return the number of rows."""
    keys = store.threads.keys
    thread = store.find(conn, thread_id)
    if keys is None or thread is None:
        return 0
    changed = 0
    for sealed in SEALED:
        table, column = sealed.table, sealed.column
        for row in conn.execute(sa.select(table).where(table.c.thread == thread.id)).mappings().all():
            if not keys.is_current(bytes(row[column])):
                key = sa.and_(*(part == row[part.name] for part in table.primary_key))
                anew = sealed.again(row, thread.codec, thread.codec)
                conn.execute(sa.update(table).where(key).values({column: anew}))
                changed += 1
    return changed + store.threads.rotate(conn, thread)


def _copied(table: sa.Table, row: dict[str, Any], source: RowCodec, target: Thread) -> dict[str, Any]:
    anew = {one.column: one.again(row, source, target.codec) for one in SEALED if one.table is table}
    if table is tables.ledger:
        del row["id"]
    return {**row, **anew, "thread": target.id}


def _name_anew(conn: sa.Connection, serde: SerializerProtocol, source: Thread, target: Thread) -> None:
    """Put the copy's id where metadata names the thread, as LangGraph's server lets it."""

    def renamed(one: CheckpointRow) -> CheckpointRow:
        about: dict[str, Any] = serde.loads_typed(one.metadata)
        if about.get("thread_id") != source.thread_id:
            return one
        return replace(one, metadata=serde.dumps_typed({**about, "thread_id": target.thread_id}))

    checkpoint_rows.change_all(conn, target, renamed)


def _hash_anew(conn: sa.Connection, thread: Thread) -> None:
    """Write the hashes of copied rows, which depend on the thread where it is encrypted."""
    conn.execute(sa.delete(tables.hash_).where(tables.hash_.c.thread == thread.id))
    for chunk in chunks(list(message_blocks.packed(conn, thread))):
        hashes = [
            {"thread": thread.id, "hash": thread.codec.lookup_hash(content_hash(body)), "seq": seq}
            for seq, body in chunk
        ]
        conn.execute(sa.insert(tables.hash_), hashes)
    for seq, body in list(message_blocks.loose(conn, thread)):
        held = tables.message.c
        mine = sa.and_(held.thread == thread.id, held.seq == seq)
        conn.execute(sa.update(tables.message).where(mine).values(hash=thread.codec.lookup_hash(content_hash(body))))
    numbers = conn.execute(sa.select(tables.blob.c.number).where(tables.blob.c.thread == thread.id)).scalars().all()
    for number, body in blobs.get(conn, thread, numbers).items():
        mine = sa.and_(tables.blob.c.thread == thread.id, tables.blob.c.number == number)
        conn.execute(sa.update(tables.blob).where(mine).values(hash=thread.codec.lookup_hash(content_hash(body))))


def _is_copy(conn: sa.Connection, source: Thread, target: Thread) -> bool:
    """Say whether the copy was made already: its connection may have been lost after the commit."""
    return bool(source.next_checkpoint) and _ids(conn, source) == _ids(conn, target)


def _ids(conn: sa.Connection, thread: Thread) -> set[tuple[str, int, str]]:
    return {(one.namespace, one.number, one.id) for one in checkpoint_rows.all_of(conn, thread)}
