"""What is kept in SQL: each message once, and on them snapshots, summaries, the ledger and the archive."""

from .compaction.attempt import AttemptKey, Before, LedgerRow, Outcome, SummaryRecord
from .compaction.search import Found
from .db.database import Database
from .db.row_codec import Keyring
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
from .maintenance.stats import ThreadStats
from .messages.strict_serde import StrictSerializer
from .records import CompactionRecords
from .saver import AsyncSQLAlchemySaver, SQLAlchemySaver

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
    "Outcome",
    "RowError",
    "SQLAlchemySaver",
    "SchemaError",
    "StrictSerializer",
    "SummaryRecord",
    "ThreadStats",
    "UnknownAttemptError",
    "ValueTypeError",
]
