"""The tables, as SQLAlchemy Core sees them.

    compaction_schema     one row: the version of these tables
    compaction_thread     a thread's id and its next sequence number; every writer locks this row first
    compaction_message    a message once per thread, under its sequence number and the hash of its bytes
    compaction_snapshot   what `messages` held when an attempt began, as runs
    compaction_summary    a summary that was paid for, under the attempt and the digest of its input
    compaction_ledger     a row per attempt, with its verdict (NULL while it is open)
    compaction_archive    what a compaction took out of the view, as runs

All hang on the thread's integer key by a column `thread`, so that forgetting a thread is one rule. There are
no foreign keys: rows of one thread may be written in any order.
"""

from typing import Any

from sqlalchemy import Column, Double, Integer, MetaData, Table, UniqueConstraint

from .columns import Body, Hash, Key, Long, Prose

METADATA = MetaData()
_TEXT: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}


def _table(name: str, *parts: Column[object] | UniqueConstraint, autoincrement: bool = False) -> Table:
    # on SQLite, AUTOINCREMENT never gives the number of a deleted row to another one
    return Table(f"compaction_{name}", METADATA, *parts, sqlite_autoincrement=autoincrement, **_TEXT)


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
    Column("generation", Integer, nullable=False),  # raised by whatever removes message rows
    autoincrement=True,
)

message = _table(
    "message",
    Column("thread", Integer, primary_key=True, autoincrement=False),
    Column("seq", Long, primary_key=True, autoincrement=False),
    Column("hash", Hash, nullable=False),
    Column("body", Body, nullable=False),
    UniqueConstraint("thread", "hash", name="compaction_message_hash"),
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
    Column("text", Body, nullable=False),  # bytes: it is used again and must not differ
    Column("model", Prose),
    Column("input_tokens", Long, nullable=False),
    Column("output_tokens", Long, nullable=False),
    Column("calls", Integer, nullable=False),
)

ledger = _table(
    "ledger",
    Column("id", Long, primary_key=True, autoincrement=True),
    Column("thread", Integer, nullable=False),
    Column("compaction_id", Key(64), nullable=False),
    Column("namespace", Key(2048, empty=True), nullable=False),
    Column("base_digest", Key(64), nullable=False),
    Column("rung", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("parent_id", Key(64)),
    Column("checkpoint_id", Key(255)),
    Column("epoch", Integer, nullable=False),
    Column("trigger", Prose, nullable=False),
    Column("strategy", Prose, nullable=False),
    Column("counter", Prose, nullable=False),
    Column("verdict", Prose),
    Column("reason", Prose, nullable=False),
    Column("detail", Prose, nullable=False),
    Column("tokens_before", Long, nullable=False),
    Column("tokens_after", Long),
    Column("blocks_kept", Integer),
    Column("blocks_dropped", Integer),
    Column("calls_clipped", Integer),
    Column("results_clipped", Integer),
    Column("floor", Integer),
    Column("seen", Prose),  # JSON
    Column("summary", Prose),
    Column("model", Prose),
    Column("summary_input_tokens", Long),
    Column("summary_output_tokens", Long),
    Column("summary_calls", Integer),
    Column("duration_s", Double),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double),
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
