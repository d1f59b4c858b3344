"""The errors of this package's database code, as one tree.

    CheckpointError
    ├── DatabaseError            the database cannot be opened, reached or used
    │   ├── DatabaseURLError (ValueError)  the URL is malformed, or names a database that this code cannot open
    │   └── SchemaError          the database's tables are missing, older or newer than this code
    ├── MessageError             a message cannot be stored: it has no id, or a type that could not be read again
    ├── ValueTypeError           a value holds a type that is not allowed
    ├── RowError                 a stored row is missing, damaged or of a type that is not allowed
    ├── KeyTextError (ValueError)  an id is empty, too long or holds a character that no database takes
    ├── KeyringError             an encryption key is missing, malformed or not the right one
    ├── ConflictError            another run has stored newer checkpoints than the one this run builds on
    ├── LeaseError               the thread is leased to another writer
    ├── ErasedThreadError        the thread was erased while a run was still writing to it
    └── UnknownAttemptError      the ledger has no such compaction attempt

Their messages never contain a password, a key or the text of a conversation.
"""


class CheckpointError(Exception):
    """Base of every error about stored data."""


class DatabaseError(CheckpointError):
    """The database cannot be opened, reached or used; the message says what to do."""


class DatabaseURLError(DatabaseError, ValueError):
    """A URL is malformed, or names a missing driver, a kind of database without support, or an unusable file."""


class SchemaError(DatabaseError):
    """The database's tables are missing (`setup()` was not called), or this code does not support their version."""


class MessageError(CheckpointError):
    """A message cannot be stored such that exactly the same message is read again."""


class ValueTypeError(CheckpointError):
    """A value holds a type that is not allowed; the message names the type and how to allow it."""


class RowError(CheckpointError):
    """A stored row is missing, damaged, or holds a value of a type that is not allowed; the error names the row."""


class KeyTextError(CheckpointError, ValueError):
    """An id cannot be stored: it is empty, too long, or holds a NUL or an unpaired surrogate."""


class KeyringError(CheckpointError):
    """An encryption key is missing, malformed, or not the one that a row was encrypted with."""


class ConflictError(CheckpointError):
    """Another run has stored newer checkpoints than the one this run builds on: load the thread again and retry."""


class LeaseError(CheckpointError):
    """The thread is leased to another writer, or the lease of this writer has ended."""


class ErasedThreadError(CheckpointError):
    """The thread was erased after this run began; nothing that the run writes is stored any more."""


class UnknownAttemptError(CheckpointError):
    """The ledger has no row for this compaction attempt."""
