"""What every new connection of our own engines gets, and what it is spared."""

import os
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc

from .urls import is_memory


def prepare(engine: sa.Engine) -> None:
    """Make SQLite files write ahead, and keep connections out of forked children."""
    if is_memory(engine.url):
        return
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _write_ahead)
    event.listen(engine, "connect", _remember_process)
    event.listen(engine, "checkout", _refuse_other_process)


def _write_ahead(connection: Any, _record: Any) -> None:
    """Let readers go on while one writes; the mode stays with the file."""
    connection.execute("PRAGMA journal_mode=WAL").close()


def _remember_process(_connection: Any, record: Any) -> None:
    record.info["pid"] = os.getpid()


def _refuse_other_process(_connection: Any, record: Any, proxy: Any) -> None:
    """Drop a connection inherited over a fork, which the parent still uses; the pool then makes a new one."""
    if record.info["pid"] != os.getpid():
        record.dbapi_connection = proxy.dbapi_connection = None
        raise exc.DisconnectionError("this connection belongs to the parent process")
