"""From the tables of versions 1 to 4 to those of this version.

Every step looks at what is there and does what is missing: MariaDB commits at each change of a table, and what one
process left half done the next `setup()` finishes. The rows themselves change in one transaction, everywhere. No
process with older code may be at work meanwhile.
"""

from collections.abc import Callable

import sqlalchemy as sa

from . import archive, ledger, packs, snapshots, summaries, tables
from .codec import content_hash
from .columns import Key, Prose
from .threads import Thread, Threads

_thread, _message, _hash = tables.thread.c, tables.message.c, tables.hash_.c
_ledger, _summary = tables.ledger.c, tables.summary.c
_ADDED: tuple[sa.Column[object], ...] = (
    *(_thread.next_blob, _thread.next_checkpoint, _thread.packed, _thread.nameless, _thread.bundled),
    *(_thread.salt, _thread.updated_at, _thread.lease, _thread.lease_until, _ledger.content, _message.hash),
)
_A_QUERY = 500
_CHANGED = (tables.thread.name, tables.ledger.name, tables.message.name)
_old = sa.table("compaction_message_1", *map(sa.column, ("thread", "seq", "hash", "body")))
_SEARCH = ("compaction_search_fts", "compaction_search")
"""Tables of the search index that versions 3 and 4 had: words of archived messages in plain text."""
_TOLD = {"base_digest": Key(64), "detail": Prose(), "summary": Prose()}
"""Columns of the ledger that went into its `content`; once `detail` is gone, every row has it."""


def bring_up(conn: sa.Connection) -> None:
    """Make the tables those of this version: from none, from an earlier one, or from what was left half done.

    Version 2 lacks bundles: its checkpoints go into them as their threads go on. It and version 3 keep the hashes
    of all messages by themselves. A message of version 1 whose bytes are not those that were stored is missing
    afterwards: reading it stays a RowError. The search index of versions 3 and 4 is dropped: a search reads the
    archive itself. Its words are in the database's files until `reclaim()`.
    """
    for name in _SEARCH:
        conn.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")
    of_1 = "hash" in _columns(conn, tables.message.name) and _thread.packed.name not in _columns(
        conn, tables.thread.name
    )
    if of_1 and not _columns(conn, _old.name):
        conn.exec_driver_sql(f"ALTER TABLE {tables.message.name} RENAME TO {_old.name}")
    tables.METADATA.create_all(conn)
    _add_columns(conn)
    _move_threads(conn)
    _move_hashes(conn)
    if "detail" in _columns(conn, tables.ledger.name):
        _move_ledger(conn)
    _require_values(conn)
    for told in _TOLD:
        if told in _columns(conn, tables.ledger.name):
            conn.exec_driver_sql(f"ALTER TABLE {tables.ledger.name} DROP COLUMN {told}")
    if _columns(conn, _old.name):
        conn.exec_driver_sql(f"DROP TABLE {_old.name}")


def _columns(conn: sa.Connection, table: str) -> dict[str, bool]:
    """Return whether NULL is allowed, by column; nothing where there is no such table."""
    inspector = sa.inspect(conn)
    found = inspector.get_columns(table) if inspector.has_table(table) else []
    return {column["name"]: column["nullable"] for column in found}


def _add_columns(conn: sa.Connection) -> None:
    """Add what version 1 does not have, without values: a thread with no `packed` has not been moved yet."""
    there = {name: _columns(conn, name) for name in _CHANGED}
    for column in _ADDED:
        if column.name not in there[column.table.name]:
            kind = column.type.compile(conn.dialect)
            conn.exec_driver_sql(f"ALTER TABLE {column.table.name} ADD COLUMN {column.name} {kind}")


def _require_values(conn: sa.Connection) -> None:
    """Refuse NULL where a new table does; SQLite cannot do that to a table that is there."""
    if conn.dialect.name == "sqlite":
        return
    nullable = {name: _columns(conn, name) for name in _CHANGED}
    for column in _ADDED:
        if not column.nullable and nullable[column.table.name][column.name]:
            kind = column.type.compile(conn.dialect)
            postgres = conn.dialect.name == "postgresql"
            change = f"ALTER {column.name} SET NOT NULL" if postgres else f"MODIFY {column.name} {kind} NOT NULL"
            conn.exec_driver_sql(f"ALTER TABLE {column.table.name} {change}")


def _move_threads(conn: sa.Connection) -> None:
    threads = Threads()
    for thread_id in conn.execute(sa.select(_thread.thread_id).where(_thread.packed.is_(None))).scalars().all():
        thread = threads.lock(conn, thread_id)
        thread.next_blob = thread.next_checkpoint = thread.packed = 0
        thread.nameless = thread.next_seq
        for first in range(0, thread.next_seq, _A_QUERY):
            _move_messages(conn, thread, first)
        packs.pack_old(conn, thread)
        _seal_summaries(conn, thread)
        _seal_runs(conn, thread, tables.snapshot, snapshots.row_name)
        _seal_runs(conn, thread, tables.archive, archive.row_name)
        threads.save(conn, thread)


def _move_messages(conn: sa.Connection, thread: Thread, first: int) -> None:
    ours = sa.and_(_old.c.thread == thread.id, _old.c.seq.between(first, first + _A_QUERY - 1))
    rows = [(seq, bytes(name), bytes(body)) for _, seq, name, body in conn.execute(sa.select(_old).where(ours))]
    sound = [(seq, name, body) for seq, name, body in rows if content_hash(body) == name]
    if sound:
        loose = [
            {"thread": thread.id, "seq": seq, "hash": name, "body": thread.seal.close(f"message {seq}", body)}
            for seq, name, body in sound
        ]
        conn.execute(sa.insert(tables.message), loose)


def _move_hashes(conn: sa.Connection) -> None:
    """Put the hash of a message beside its body, while it is not packed."""
    same = sa.and_(_hash.thread == _message.thread, _hash.seq == _message.seq)
    conn.execute(sa.update(tables.message).where(same, _message.hash.is_(None)).values(hash=_hash.hash))
    conn.execute(sa.delete(tables.hash_).where(sa.exists().where(same)))
    for index in tables.message.indexes:
        index.create(conn, checkfirst=True)
    # how many have no id is not known
    conn.execute(sa.update(tables.thread).where(_thread.nameless.is_(None)).values(nameless=_thread.next_seq))


def _seal_summaries(conn: sa.Connection, thread: Thread) -> None:
    ours = sa.select(_summary.compaction_id, _summary.input_digest, _summary.text).where(_summary.thread == thread.id)
    for name, wanted, text in conn.execute(ours).all():
        same = sa.and_(_summary.thread == thread.id, _summary.compaction_id == name, _summary.input_digest == wanted)
        sealed = thread.seal.close(summaries.row_name(name, wanted), bytes(text))
        conn.execute(sa.update(tables.summary).where(same).values(text=sealed))


def _seal_runs(conn: sa.Connection, thread: Thread, table: sa.Table, row_name: Callable[[str], str]) -> None:
    for name, runs in conn.execute(
        sa.select(table.c.compaction_id, table.c.runs).where(table.c.thread == thread.id)
    ).all():
        same = sa.and_(table.c.thread == thread.id, table.c.compaction_id == name)
        sealed = thread.seal.close(row_name(name), bytes(runs))
        conn.execute(sa.update(table).where(same).values(runs=sealed))


def _move_ledger(conn: sa.Connection) -> None:
    threads = Threads()
    pending = sa.select(_thread.thread_id).join(tables.ledger, _ledger.thread == _thread.id)
    for thread_id in conn.execute(pending.where(_ledger.content.is_(None)).distinct()).scalars().all():
        thread = threads.lock(conn, thread_id)
        rows = sa.select(_ledger.id, _ledger.compaction_id, *map(sa.column, _TOLD.keys(), _TOLD.values()))
        ours = sa.and_(_ledger.thread == thread.id, _ledger.content.is_(None))
        for row in conn.execute(rows.where(ours)).mappings().all():
            content = ledger.closed(thread, row["compaction_id"], {name: row[name] for name in _TOLD})
            conn.execute(sa.update(tables.ledger).where(_ledger.id == row["id"]).values(content=content))
