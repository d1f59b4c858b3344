"""What is kept in SQL: each message once, and on them snapshots, summaries, the ledger and the archive."""

from .attempt import AttemptKey, Before, LedgerRow, Outcome, SummaryRecord
from .codec import digest, digest_all, dumps, handle, loads
from .database import Database
from .errors import (
    CheckpointError,
    ConflictError,
    DatabaseError,
    ErasedThreadError,
    KeyringError,
    KeyTextError,
    LeaseError,
    MessageError,
    RowError,
    SchemaError,
    UnknownAttemptError,
    ValueTypeError,
)
from .records import CompactionRecords
from .runs import Runs, decode_runs, encode_runs, expand, runs_of
from .saver import AsyncSQLAlchemySaver, SQLAlchemySaver
from .sealing import Keyring
from .search import Found
from .serde import StrictSerializer
from .stats import ThreadStats
from .store import MessageStore

__all__ = [
    "AsyncSQLAlchemySaver",
    "AttemptKey",
    "Before",
    "CheckpointError",
    "CompactionRecords",
    "ConflictError",
    "Database",
    "DatabaseError",
    "ErasedThreadError",
    "Found",
    "KeyTextError",
    "Keyring",
    "KeyringError",
    "LeaseError",
    "LedgerRow",
    "MessageError",
    "MessageStore",
    "Outcome",
    "RowError",
    "Runs",
    "SQLAlchemySaver",
    "SchemaError",
    "StrictSerializer",
    "SummaryRecord",
    "ThreadStats",
    "UnknownAttemptError",
    "ValueTypeError",
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
