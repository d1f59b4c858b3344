"""What is kept in SQL: each message once, and on them snapshots, summaries, the ledger and the archive."""

from .attempt import AttemptKey, LedgerRow, Outcome, SummaryRecord
from .codec import digest, digest_all, dumps, handle, loads
from .database import Database
from .errors import (
    CheckpointError,
    DatabaseError,
    KeyTextError,
    MessageError,
    RowError,
    SchemaError,
    UnknownAttemptError,
)
from .records import CompactionRecords
from .runs import Runs, decode_runs, encode_runs, expand, runs_of
from .store import MessageStore

__all__ = [
    "AttemptKey",
    "CheckpointError",
    "CompactionRecords",
    "Database",
    "DatabaseError",
    "KeyTextError",
    "LedgerRow",
    "MessageError",
    "MessageStore",
    "Outcome",
    "RowError",
    "Runs",
    "SchemaError",
    "SummaryRecord",
    "UnknownAttemptError",
    "decode_runs",
    "digest",
    "digest_all",
    "dumps",
    "encode_runs",
    "expand",
    "handle",
    "loads",
    "runs_of",
]
