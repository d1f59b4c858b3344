"""Storage in SQL: LangGraph's checkpointer, which stores each message once, and the records of compactions."""

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
