"""Storage in SQL: each message once; checkpoints, snapshots, summaries, ledger and archive that refer to messages."""

from .db.database import Database
from .db.row_codec import Keyring
from .errors import (
    CheckpointError,
    ConflictError,
    DatabaseError,
    ErasedThreadError,
    KeyringError,
    SchemaError,
    UnknownAttemptError,
    ValueTypeError,
)
from .records import CompactionRecords
from .saver import AsyncSQLAlchemySaver, SQLAlchemySaver

__all__ = [
    "AsyncSQLAlchemySaver",
    "CheckpointError",
    "CompactionRecords",
    "ConflictError",
    "Database",
    "DatabaseError",
    "ErasedThreadError",
    "Keyring",
    "KeyringError",
    "SQLAlchemySaver",
    "SchemaError",
    "UnknownAttemptError",
    "ValueTypeError",
]
