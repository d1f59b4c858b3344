"""Turns the URL that a user gives into one with a synchronous driver, and makes an engine for this URL."""

import sqlite3

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from ..errors import DatabaseError, DatabaseURLError
from ..extras import how_to_install

MEMORY = "memory"
BUSY_TIMEOUT_S = 30.0
READ_COMMITTED, AUTOCOMMIT = "READ COMMITTED", "AUTOCOMMIT"

_BACKENDS = {
    "sqlite": ("sqlite", "pysqlite"),
    "postgres": ("postgresql", "psycopg"),
    "postgresql": ("postgresql", "psycopg"),
    "mysql": ("mysql", "pymysql"),
    "mariadb": ("mariadb", "pymysql"),
}
_ASYNC_DRIVERS = {"aiosqlite", "asyncpg", "psycopg_async", "aiomysql", "asyncmy"}
_EXTRAS = {"postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}
PREPARE = "prepare_threshold"
"""Option of a URL: after how many executions psycopg prepares a statement on the server, or "none" for never.

psycopg itself takes this option as a number only, which no URL can hold.
"""
_UNUSABLE_FILE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB}
_EXAMPLES = "sqlite:///agent.db, postgresql://user@host/name or mariadb://user@host/name"


def sync_url(target: str) -> sa.URL:
    """Parse a database URL and name a synchronous driver in it; raise DatabaseURLError for an unusable URL."""
    if target == MEMORY:
        return sa.URL.create("sqlite+pysqlite")
    try:
        url = _parsed(target)
    except (exc.ArgumentError, ValueError):
        # the URL's text and the cause can hold the password, so the error shows neither
        raise DatabaseURLError(
            f"this is no database URL; one looks like {_EXAMPLES}, with the special characters of a password "
            "percent-encoded ('memory' and a synchronous SQLAlchemy Engine are accepted too)"
        ) from None
    name, _, driver = url.drivername.partition("+")
    if name not in _BACKENDS:
        raise DatabaseURLError(f"there is no support for {name!r} databases; use {_EXAMPLES}")
    backend, default = _BACKENDS[name]
    sync = default if not driver or driver in _ASYNC_DRIVERS else driver
    return _libpq_options(url, driver).set(drivername=f"{backend}+{sync}")


def is_memory(url: sa.URL) -> bool:
    """Return whether the URL names an SQLite database in memory, which ends with its connection."""
    in_memory = url.database in {None, "", ":memory:"} or url.query.get("mode") == MEMORY
    return url.get_backend_name() == "sqlite" and in_memory


def place(url: sa.URL) -> str:
    """Return the URL without user, password and options, for an error message."""
    port = f":{url.port}" if url.port else ""
    return f"{url.get_backend_name()}://{url.host or ''}{port}/{url.database or ''}"


def create_engine(url: sa.URL) -> sa.Engine:
    """Make an engine with this package's options; raise DatabaseURLError if the driver is missing or unknown."""
    try:
        options = _options(url)
        return sa.create_engine(url.difference_update_query([PREPARE]), hide_parameters=True, **options)
    except ModuleNotFoundError as error:
        backend = url.get_backend_name()
        extra = f"; {how_to_install(_EXTRAS[backend])}" if backend in _EXTRAS else ""
        raise DatabaseURLError(f"{place(url)} needs the Python package {error.name!r}{extra}") from error
    except (exc.ArgumentError, TypeError, ValueError) as error:
        raise DatabaseURLError(f"{place(url)} cannot be opened: {error}") from error


def begins_itself(url: sa.URL) -> bool:
    """Return whether this package sends BEGIN to the server, because the driver can commit what it has not begun."""
    return url.get_driver_name() == "psycopg"


def is_unusable_file(error: Exception) -> bool:
    """Return whether SQLite reports that it cannot open the file of a URL, or that the file is no database."""
    code: int = getattr(getattr(error, "orig", None) or error, "sqlite_errorcode", 0)
    return code & 0xFF in _UNUSABLE_FILE  # the higher bits hold the details of an extended code


def accept(engine: sa.Engine) -> None:
    """Raise DatabaseError for a given engine whose database, driver or pool cannot be used."""
    if engine.dialect.name not in {"sqlite", "postgresql", "mysql", "mariadb"}:
        raise DatabaseError(f"there is no support for {engine.dialect.name!r} databases")
    if engine.dialect.is_async:
        raise DatabaseError("an engine with an asynchronous driver was given; give its URL, or a synchronous engine")
    if isinstance(engine.pool, SingletonThreadPool):
        raise DatabaseError(
            "this engine gives every thread an SQLite memory database of its own; "
            "open 'memory', or make the engine with poolclass=StaticPool and check_same_thread=False"
        )


def _parsed(target: str) -> sa.URL:
    url = sa.make_url(target)
    if url.host and "@" in f"{url.host}{url.database}":
        raise ValueError("the password contains an @ or / that is not percent-encoded")
    return url


def _options(url: sa.URL) -> dict[str, object]:
    if is_memory(url):
        # one connection, so that all OS threads see one database; `Database` lets one of them use it at a time
        return {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    # without a limit: who waited in the pool would not get a connection that was kept open; see `OwnEngine.places`
    options: dict[str, object] = {"max_overflow": -1}
    if url.get_backend_name() == "sqlite":
        return {**options, "connect_args": {"timeout": BUSY_TIMEOUT_S}}
    # without `pool_pre_ping`: a ping costs a round trip for each transaction, and a transaction whose connection was
    # lost is retried
    options["isolation_level"] = AUTOCOMMIT if begins_itself(url) else READ_COMMITTED
    if (given := url.query.get(PREPARE)) is not None:
        options["connect_args"] = {PREPARE: None if given == "none" else int(str(given))}
    return options


def _libpq_options(url: sa.URL, driver: str) -> sa.URL:
    """Rename the option `ssl` of asyncpg to `sslmode`, its name in libpq."""
    if driver != "asyncpg" or "ssl" not in url.query:
        return url
    return url.difference_update_query(["ssl"]).update_query_dict({"sslmode": url.query["ssl"]})
