"""Harm done to connections: ended by the server, or refused what they ask for as a server in trouble does."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal

import psycopg
import pymysql
import sqlalchemy as sa
from sqlalchemy import event

from langgraph_compaction.checkpoint.db.urls import sync_url

Thing = Literal["statements", "answers", "checkouts", "connects"]
Harm = Callable[[Any], None]
"""Something done to a driver's connection, which may raise a driver's error."""

PATIENCE_S = 30
SESSIONS = {
    "postgresql": sa.text(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    ),
    "mysql": sa.text(
        "SELECT id FROM information_schema.processlist "
        "WHERE db = database() AND id <> connection_id() AND command <> 'Killed'"
    ),
}
END = {
    "postgresql": sa.text("SELECT pg_terminate_backend(:session)"),
    "mysql": sa.text("KILL :session"),
}


class Server:
    """A database's own view of its sessions, by a connection that no saver knows."""

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(sync_url(url), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        self.kind = self.engine.dialect.name.replace("mariadb", "mysql")

    def sessions(self) -> list[int]:
        """Numbers of all sessions on this database but the one that asks."""
        with self.engine.connect() as conn:
            return list(conn.execute(SESSIONS[self.kind]).scalars()) if self.kind in SESSIONS else []

    def end(self, session: int) -> None:
        """End a session, unless it has ended meanwhile, and wait until it is gone."""
        try:
            with self.engine.connect() as conn:
                conn.execute(END[self.kind], {"session": session})
        except sa.exc.OperationalError as error:
            if "Unknown thread id" not in str(error):
                raise
        self.wait_for(lambda sessions: session not in sessions)

    def wait_for(self, met: Callable[[list[int]], bool]) -> None:
        """Wait until the sessions meet a condition."""
        deadline = time.monotonic() + PATIENCE_S
        while not met(self.sessions()):
            assert time.monotonic() < deadline, "the server's sessions did not become what they should"
            time.sleep(0.002)

    def cut(self, connection: Any) -> None:
        """End the session of a driver's connection; its next statement finds out."""
        self.end(connection.info.backend_pid if self.kind == "postgresql" else connection.thread_id())

    def cut_off(self, connection: Any) -> None:
        """End the session of a driver's connection, and let the driver find out now."""
        self.cut(connection)
        connection.cursor().execute("SELECT 1")


def refusal(error: Callable[[], Exception]) -> Harm:
    """Undo the transaction, if there is one, as the server would, and raise the driver's error."""

    def harm(connection: Any) -> None:
        if connection is not None:
            connection.rollback()
        raise error()

    return harm


CUT_SHORT: dict[str, Callable[[], Exception]] = {
    "postgresql": lambda: psycopg.errors.AdminShutdown("terminating connection due to administrator command"),
    "mariadb": lambda: pymysql.OperationalError(2013, "Lost connection to server during the handshake"),
}
"""What a driver says of a connection that ends while it is made, by the kind of database."""


def _of_mariadb(code: int, text: str) -> pymysql.OperationalError:
    """An error that the server tells, in contrast to one of the driver."""
    error = pymysql.OperationalError(code, text)
    vars(error)["sqlstate"] = "HY000"
    return error


REFUSALS: dict[str, tuple[str, Callable[[], Exception]]] = {
    "deadlock, postgresql": ("postgresql", lambda: psycopg.errors.DeadlockDetected("deadlock detected")),
    "serialization, postgresql": (
        "postgresql",
        lambda: psycopg.errors.SerializationFailure("could not serialize access due to concurrent update"),
    ),
    "not promoted yet, postgresql": (
        "postgresql",
        lambda: psycopg.errors.ReadOnlySqlTransaction("cannot execute UPDATE in a read-only transaction"),
    ),
    "deadlock, mariadb": ("mariadb", lambda: _of_mariadb(1213, "Deadlock found")),
    "lock wait, mariadb": ("mariadb", lambda: _of_mariadb(1205, "Lock wait timeout exceeded")),
    "changed, mariadb": (
        "mariadb",
        lambda: _of_mariadb(1020, "Record has changed since last read in table 't'"),
    ),
    "rewritten, mariadb": (
        "mariadb",
        lambda: _of_mariadb(1412, "Table definition has changed, please retry transaction"),
    ),
}
"""Errors that say that nothing is wrong but the moment: the kind of database, and how its driver raises it."""


class Trap:
    """Harms a connection once, `at` so many of the things that an engine does from now on.

    These are its statements, commits among them; or the answers to its commits and to its writes outside of a
    transaction, when the server has carried one out; or the connections it takes from its pool, or makes (there is
    none yet to harm).
    """

    def __init__(self, at: int, harm: Harm, of: Thing = "statements") -> None:
        self.left, self.harm, self.of = at, harm, of
        self.sprung = False

    def step(self, connection: Any, of: str) -> None:
        """Pass one thing."""
        self.left -= of == self.of
        if self.left == 0 and not self.sprung:
            self.sprung = True
            self.harm(connection)

    @contextmanager
    def set_on(self, engine: sa.Engine) -> Generator[None]:
        """Set the trap for as long as the block runs."""
        commit = engine.dialect.do_commit

        def do_commit(connection: Any) -> None:
            self.step(connection.driver_connection, "statements")
            commit(connection)
            self.step(connection.driver_connection, "answers")

        def statement(cursor: Any, *_: Any) -> None:
            self.step(cursor.connection, "statements")

        def answer(_: sa.Connection, cursor: Any, *__: Any) -> None:
            driver = cursor.connection
            if driver.autocommit is True and not driver.info.transaction_status:  # psycopg's; MariaDB writes none so
                self.step(cursor.connection, "answers")

        def checkout(connection: Any, *_: Any) -> None:
            self.step(connection, "checkouts")

        def connect(*_: Any) -> None:
            self.step(None, "connects")

        listeners = [(name, statement) for name in ("do_execute", "do_execute_no_params", "do_executemany")]
        listeners += [("checkout", checkout), ("do_connect", connect), ("after_cursor_execute", answer)]
        for name, listener in listeners:
            event.listen(engine, name, listener)
        engine.dialect.do_commit = do_commit  # of this engine alone
        try:
            yield
        finally:
            engine.dialect.do_commit = commit
            for name, listener in listeners:
                event.remove(engine, name, listener)
