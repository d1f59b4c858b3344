"""Storage in SQL: LangGraph's checkpointer, which stores each message once, and the records of compactions.

Each name below is imported on first use.
"""

from typing import TYPE_CHECKING

from .lazy_names import lazy_names

if TYPE_CHECKING:
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

_OWN = {
    "AsyncSQLAlchemySaver": ".saver",
    "CompactionRecords": ".records",
    "Database": ".db.database",
    "Keyring": ".db.row_codec",
    "SQLAlchemySaver": ".saver",
}

if not TYPE_CHECKING:  # type checkers would otherwise accept any name
    __getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, ".errors") | _OWN)
