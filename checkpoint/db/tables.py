"""The tables, in SQLAlchemy Core.

    compaction_schema     one row: the version of these tables
    compaction_thread     a thread's id, counters and lease; every writer locks or compares it first
    compaction_item       messages and large values, each once per thread: old messages are 96 to a row
    compaction_checkpoint a checkpoint: small values, and the numbers of items
    compaction_write      the pending writes of one task at a checkpoint
    compaction_snapshot   the messages with which a compaction attempt began, as runs of sequence numbers
    compaction_summary    a paid summary, by attempt and digest of its input
    compaction_run_lease  the run that a thread waits for, by the hash of the thread's id
    compaction_erased     the threads that were erased within the last day, by the hash of their ids
    compaction_ledger     one row for each attempt, with its verdict (NULL while it is open)
    compaction_archive    the messages that a compaction removed or shortened, as runs of sequence numbers

Every row of a thread names the thread's integer key in a column `thread`, so one rule erases a thread from all
tables. There are no foreign keys: the rows of a thread may be written in any order.
"""

from typing import Any

from sqlalchemy import Column, Double, Index, Integer, MetaData, Table, Text, UniqueConstraint, text

from .columns import Body, Hashes, Ident, Key, Long, Prose

METADATA = MetaData()
_WITH_RUN: dict[str, Any] = {f"{dialect}_where": text("run IS NOT NULL") for dialect in ("sqlite", "postgresql")}
"""Options that leave rows without a run of a graph out of an index, on databases that support partial indexes."""
_TEXT: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}


def _table(
    name: str,
    *parts: Column[object] | UniqueConstraint | Index,
    autoincrement: bool = False,
    without_rowid: bool = False,
) -> Table:
    # SQLite: AUTOINCREMENT never reuses the key of a deleted row; WITHOUT ROWID saves an index for tables with small
    # rows, but costs space for large ones
    return Table(
        f"compaction_{name}",
        METADATA,
        *parts,
        sqlite_autoincrement=autoincrement,
        sqlite_with_rowid=not without_rowid,
        **_TEXT,
    )


def _usage_columns(prefix: str = "") -> list[Column[Any]]:
    """Return the columns that version 4 added; NULL in rows that were written before."""
    counts = ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    return [*(Column(prefix + name, Long) for name in counts), Column(f"{prefix}cost", Double)]


schema = _table(
    "schema",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)

thread = _table(
    "thread",
    Column("id", Integer, primary_key=True),
    Column("thread_id", Key(512), nullable=False, unique=True),
    Column("next_seq", Long, nullable=False),
    Column("stamp", Long, nullable=False),  # random, new after each write
    Column("next_value", Long, nullable=False),
    Column("next_checkpoint", Long, nullable=False),
    Column("packed", Long, nullable=False),  # number of rows of 96 messages
    Column("salt", Body),  # encrypted; NULL where nothing is encrypted
    Column("updated_at", Double, nullable=False),
    Column("lease", Key(64)),
    Column("lease_until", Double),
    autoincrement=True,
)

item = _table(
    "item",
    Column("thread", Integer, primary_key=True, autoincrement=False),
    Column("seq", Long, primary_key=True, autoincrement=False),  # of messages 0, 1, 2 ..., of values -1, -2 ...
    Column("held", Integer, nullable=False),  # number of items that the row holds
    Column("hashes", Hashes, nullable=False),  # 16 bytes for each, zeros for one that was erased
    Column("body", Body, nullable=False),
)

checkpoint = _table(
    "checkpoint",
    Column("thread", Integer, primary_key=True, autoincrement=False),
    Column("namespace", Key(2048, empty=True), primary_key=True),
    Column("number", Long, primary_key=True, autoincrement=False),  # order of arrival within the thread
    Column("id", Ident(255), nullable=False),
    Column("parent", Ident(255)),
    Column("run", Ident(255)),
    Column("metadata_hashes", Text),  # see `checkpoints.metadata_hashes`; NULL where a filter has to read the body
    Column("refs", Body, nullable=False),  # the items that the body refers to, see `messages.references`
    Column("body", Body, nullable=False),
    UniqueConstraint("thread", "namespace", "id", name="compaction_checkpoint_id"),
    Index("compaction_checkpoint_by_id", "id"),  # ids begin with the time: lists of all threads are ordered by them
    Index("compaction_checkpoint_run", "run", **_WITH_RUN),
    without_rowid=True,
)

write = _table(
    "write",
    Column("thread", Integer, primary_key=True, autoincrement=False),
    Column("namespace", Key(2048, empty=True), primary_key=True),
    Column("checkpoint", Ident(255), primary_key=True),
    Column("task", Ident(255), primary_key=True),
    Column("refs", Body, nullable=False),
    Column("body", Body, nullable=False),
    without_rowid=True,
)

erased = _table(
    "erased",
    Column("name", Key(64), primary_key=True),
    Column("at", Double, nullable=False),
    Index("compaction_erased_at", "at"),
    without_rowid=True,
)

run_lease = _table(
    "run_lease",
    Column("name", Key(64), primary_key=True),
    Column("token", Key(64), nullable=False),
    Column("owner", Key(255), nullable=False),
    Column("until", Double, nullable=False),
    without_rowid=True,
)

snapshot = _table(
    "snapshot",
    Column("thread", Integer, primary_key=True, autoincrement=False),
    Column("compaction_id", Key(64), primary_key=True),
    Column("runs", Body, nullable=False),
    Column("created_at", Double, nullable=False),
)

summary = _table(
    "summary",
    Column("thread", Integer, primary_key=True, autoincrement=False),
    Column("compaction_id", Key(64), primary_key=True),
    Column("input_digest", Key(64), primary_key=True),
    Column("text", Body, nullable=False),  # not Prose, which would replace some characters
    Column("model", Prose),
    Column("input_tokens", Long, nullable=False),
    Column("output_tokens", Long, nullable=False),
    Column("calls", Integer, nullable=False),
    *_usage_columns(),
)

ledger = _table(
    "ledger",
    Column("id", Long, primary_key=True, autoincrement=True),
    Column("thread", Integer, nullable=False),
    Column("compaction_id", Key(64), nullable=False),
    Column("namespace", Key(2048, empty=True), nullable=False),
    Column("level", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("parent_id", Key(64)),
    Column("checkpoint_id", Key(255)),
    Column("epoch", Integer, nullable=False),
    Column("trigger", Prose, nullable=False),
    Column("strategy", Prose, nullable=False),
    Column("counter", Prose, nullable=False),
    Column("verdict", Prose),
    Column("reason", Prose, nullable=False),
    Column("tokens_before", Long, nullable=False),
    Column("tokens_after", Long),
    Column("blocks_kept", Integer),
    Column("blocks_dropped", Integer),
    Column("calls_clipped", Integer),
    Column("results_clipped", Integer),
    Column("floor", Integer),
    Column("seen", Prose),  # JSON
    Column("model", Prose),
    Column("summary_input_tokens", Long),
    Column("summary_output_tokens", Long),
    Column("summary_calls", Integer),
    *_usage_columns("summary_"),
    Column("duration_s", Double),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("content", Body, nullable=False),  # encoded JSON: texts that may quote the conversation
    UniqueConstraint("thread", "compaction_id", name="compaction_ledger_attempt"),
    autoincrement=True,
)

archive = _table(
    "archive",
    Column("thread", Integer, primary_key=True, autoincrement=False),
    Column("compaction_id", Key(64), primary_key=True),
    Column("namespace", Key(2048, empty=True), nullable=False),
    Column("runs", Body, nullable=False),
    Column("created_at", Double, nullable=False),
)
