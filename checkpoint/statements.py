"""The few statements that databases spell differently."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite


def insert_if_absent(conn: sa.Connection, table: sa.Table, values: dict[str, Any]) -> None:
    """Insert a row unless its key is there; waits for another transaction that is inserting the same."""
    match conn.dialect.name:
        case "postgresql":
            conn.execute(postgresql.insert(table).values(values).on_conflict_do_nothing())
        case "sqlite":
            conn.execute(sqlite.insert(table).values(values).on_conflict_do_nothing())
        case _:
            # not INSERT IGNORE: it leaves a shared lock behind, and two that wait would then deadlock
            same = {key.name: key for key in table.primary_key}
            conn.execute(mysql.insert(table).values(values).on_duplicate_key_update(same))
