"""Records the rows that work would write to a database, instead of writing them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

MAX_CHANGES = 24
"""Most rows that are recorded: each number of rows needs a statement of its own, which SQLAlchemy compiles."""

NewValue = Callable[[sa.Column[Any]], sa.BindParameter[Any]]
"""A function from a column to the parameter that stands for the new row's value of this column."""
Condition = Callable[[NewValue], sa.Exists]
"""A condition about other rows, for a new row whose values `NewValue` returns."""


class NotRecordableError(Exception):
    """Work needs more than a record of rows, for example the result of a query."""


class Change(NamedTuple):
    """A row to insert or, with `update`, the new values of a row; `values` includes the row's key."""

    table: sa.Table
    update: bool
    unless: Condition | None
    values: dict[str, Any]


class WriteRecorder(sa.Connection):
    """Stands in for a connection: `insert` and `update` record rows, and any statement raises NotRecordableError.

    Inserting a row is recorded as if no row had the same key. Who writes the recorded rows finds out otherwise.
    """

    def __init__(self) -> None:  # no connection is opened
        self.changes: list[Change] = []

    def execute(self, *_args: Any, **_options: Any) -> Any:
        """Raise NotRecordableError."""
        raise NotRecordableError

    def insert(self, table: sa.Table, values: Mapping[str, Any], unless: Condition | None = None) -> None:
        """Record a row to insert; if `unless` is true, no recorded row may be written."""
        self._add(Change(table, update=False, unless=unless, values=dict(values)))

    def update(self, table: sa.Table, values: Mapping[str, Any], unless: Condition | None = None) -> None:
        """Record new values of a row; if the row is recorded as a row to insert, change its values there."""
        key = {column.name: values[column.name] for column in table.primary_key}
        for one in self.changes:
            if one.table is table and key.items() <= one.values.items():
                one.values.update(values)
                return
        self._add(Change(table, update=True, unless=unless, values=dict(values)))

    def _add(self, change: Change) -> None:
        if len(self.changes) == MAX_CHANGES:
            raise NotRecordableError
        self.changes.append(change)
