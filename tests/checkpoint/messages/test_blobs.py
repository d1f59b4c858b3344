"""Large values that are not messages."""

import sqlalchemy as sa

from langgraph_compaction.checkpoint import Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.db import tables
from tests.checkpoint.contract.steps import Steps, read
from tests.checkpoint.listening import statements

LARGE = "large " * 200


def stored(database: Database) -> int:
    """Return the number of stored values."""
    with database.read() as conn:
        return conn.execute(sa.select(sa.func.count()).select_from(tables.blob)).scalar_one()


def test_a_new_value_is_stored_without_being_looked_up(database: Database, thread_id: str) -> None:
    """The insert itself tells whether the thread has the value."""
    steps, before = Steps(SQLAlchemySaver(database), thread_id), stored(database)
    steps.put({"notes": "small"})
    with statements(database) as texts:
        steps.put({"notes": LARGE})
    assert not any(text.startswith("SELECT compaction_blob") for text in texts)
    assert stored(database) == before + 1


def test_a_value_that_another_writer_has_stored_is_found(database: Database, thread_id: str) -> None:
    """Alone, and together with new ones, which get numbers without gaps."""
    first, before = SQLAlchemySaver(database), stored(database)
    Steps(first, thread_id).put({"notes": LARGE})
    for at, values in enumerate(({"notes": LARGE}, {"notes": LARGE, "more": LARGE + "1"}, {"more": LARGE + "2"})):
        saver = SQLAlchemySaver(Database(database.engine))  # remembers nothing
        steps = Steps(saver, thread_id)
        steps.put(values)
        assert read(saver, steps.start).checkpoint["channel_values"] == values
        assert stored(database) == before + 1 + at
    with database.read() as conn:
        thread = first.store.find(conn, thread_id, lock=False)
        assert thread is not None
        assert thread.next_blob == 3
