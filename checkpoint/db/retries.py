"""Which failures of a transaction may be gone when the same transaction is tried again."""

from sqlalchemy import exc

_AGAIN_SQLSTATES = frozenset({"40001", "40P01", "57P01", "57P02", "57P03", "08006", "53300"})
"""PostgreSQL's: serialization failure, deadlock, shut down, crashed, starting up, lost, too many."""
_AGAIN_CODES = frozenset({1020, 1205, 1213, 2006, 2013})
"""MariaDB's: row changed since it was read, lock wait, deadlock, server gone, connection lost."""


def may_pass(cause: BaseException | None) -> bool:
    """Say whether the same transaction may succeed when it is tried again."""
    said = cause
    if isinstance(cause, exc.DBAPIError):
        if cause.connection_invalidated:
            return True
        said = cause.orig
    arguments: tuple[object, ...] = getattr(said, "args", ())
    if isinstance(cause, exc.OperationalError) and getattr(said, "sqlstate", "") is None:
        return True  # psycopg's own word, not the server's: the connection broke within a pipeline
    return getattr(said, "sqlstate", None) in _AGAIN_SQLSTATES or not _AGAIN_CODES.isdisjoint(arguments[:1])
