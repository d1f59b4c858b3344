"""Listening to what an engine is asked to do."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

import sqlalchemy as sa

from langgraph_compaction.checkpoint import Database


@contextmanager
def listening(engine: sa.Engine, event: str, heard: Callable[..., None]) -> Generator[None]:
    """Call `heard` with each of SQLAlchemy's events of this name, within the block."""
    sa.event.listen(engine, event, heard)
    try:
        yield
    finally:
        sa.event.remove(engine, event, heard)


@contextmanager
def statements(database: Database) -> Generator[list[str]]:
    """Collect the statements that go to the database by SQLAlchemy; BEGIN on SQLite goes straight to the driver."""
    sent: list[str] = []

    def collect(_conn: object, _cursor: object, text: str, *_: object) -> None:
        sent.append(text)

    with listening(database.engine, "before_cursor_execute", collect):
        yield sent
