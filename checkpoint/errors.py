"""What can go wrong in the database, as one tree.

    CheckpointError
    ├── DatabaseError            the database cannot be opened, reached or used
    │   └── SchemaError          its tables are missing, older or newer than this code
    ├── MessageError             a message cannot be stored: no id, or a type that would not come back
    ├── ValueTypeError           a value holds a type that may not be stored or loaded
    ├── RowError                 a stored row is missing, damaged or of a type that is not allowed
    ├── KeyTextError             an id is empty, too long or holds a character that no database takes
    ├── KeyringError             an encryption key is missing, malformed or not the right one
    ├── ConflictError            another writer has gone on from the checkpoint this one builds on
    ├── LeaseError               the thread is leased to another writer
    ├── ErasedThreadError        the thread was erased while a run was still writing to it
    └── UnknownAttemptError      an outcome was given for an attempt that was never begun

No message of these holds a password, a key or the text of a conversation.
"""


class CheckpointError(Exception):
    """Base of every error that this package raises about what it keeps."""


class DatabaseError(CheckpointError):
    """The database cannot be opened, reached or used; the text says what to do."""


class SchemaError(DatabaseError):
    """The tables are missing or old (`setup()` was not called), or were made by a newer version."""


class MessageError(CheckpointError):
    """A message cannot be stored so that exactly it comes back."""


class ValueTypeError(CheckpointError):
    """A value holds a type that is not among the known ones; the text names it and how to allow it."""


class RowError(CheckpointError):
    """A stored row is missing, damaged, or holds what may not be loaded; the text names the row."""


class KeyTextError(CheckpointError):
    """An id cannot be a key: empty, too long, or with a NUL or an unpaired surrogate in it."""


class KeyringError(CheckpointError):
    """An encryption key is missing, malformed, or not the one a row was written with."""


class ConflictError(CheckpointError):
    """Another writer has gone on from the checkpoint this one builds on: load the thread again and retry."""


class LeaseError(CheckpointError):
    """The thread is leased to another writer, or this one's lease has ended."""


class ErasedThreadError(CheckpointError):
    """The thread was erased after the run that writes to it had begun: nothing of the run is stored any more."""


class UnknownAttemptError(CheckpointError):
    """The ledger holds no row for this attempt."""
