"""What can go wrong in the database, as one tree.

    CheckpointError
    ├── DatabaseError            the database cannot be opened, reached or used
    │   └── SchemaError          its tables are missing, or newer than this code
    ├── MessageError             a message cannot be stored: no id, or a type that would not come back
    ├── RowError                 a stored row is missing, damaged or of a type that is not allowed
    ├── KeyTextError             an id is empty, too long or holds a character that no database takes
    └── UnknownAttemptError      an outcome was given for an attempt that was never begun

No message of these holds a password or the text of a conversation.
"""


class CheckpointError(Exception):
    """Base of every error that this package raises about what it keeps."""


class DatabaseError(CheckpointError):
    """The database cannot be opened, reached or used; the text says what to do."""


class SchemaError(DatabaseError):
    """The tables are missing (`setup()` was not called) or were made by a newer version."""


class MessageError(CheckpointError):
    """A message cannot be stored so that exactly it comes back."""


class RowError(CheckpointError):
    """A stored row is missing, damaged, or holds what may not be loaded; the text names the row."""


class KeyTextError(CheckpointError):
    """An id cannot be a key: empty, too long, or with a NUL or an unpaired surrogate in it."""


class UnknownAttemptError(CheckpointError):
    """The ledger holds no row for this attempt."""
