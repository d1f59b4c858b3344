"""An error in the middle of a call leaves everything as it was before the call."""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import DatabaseError, SQLAlchemySaver, ValueTypeError
from langgraph_compaction.checkpoint.db.database import Database
from langgraph_compaction.checkpoint.db.transaction import Transaction
from tests.checkpoint.contract.savers import ONE_WRITER
from tests.checkpoint.contract.steps import Steps, checkpoint, id_of, ids, read, values_of, where, writes_of
from tests.checkpoint.listening import listening
from tests.checkpoint.samples import talk


def whole(saver: SQLAlchemySaver, *threads: str) -> list[Any]:
    """Return all that is stored of some threads, writes included."""
    spaces = [(thread, namespace) for thread in threads for namespace in ("", "inner:1")]
    return [list(saver.list(where(thread, namespace=namespace))) for thread, namespace in spaces]


def filled(saver: SQLAlchemySaver, thread_id: str) -> None:
    """Put a thread with two namespaces, forks, messages and writes."""
    for namespace in ("", "inner:1"):
        steps = Steps(saver, thread_id, namespace)
        root = steps.put({"messages": talk(5), "large": "x" * 2000}, run_id=f"{thread_id}-1")
        steps.put({"messages": talk(7)}, run_id=f"{thread_id}-2")
        saver.put_writes(root, [("messages", talk(1)), ("x", 1)], "task", "path")
        head = steps.put({"messages": [*talk(3), *talk(1, start=70)]}, on=root, run_id=f"{thread_id}-3")
        saver.put_writes(head, [("x", 1)], "task", "path")


def put(saver: SQLAlchemySaver, thread_id: str) -> None:
    """Put a checkpoint with new messages and a new large value."""
    head = read(saver, where(thread_id)).config
    values = {"messages": talk(9), "large": "y" * 3000, "x": 1}
    saver.put(head, checkpoint(values, dict.fromkeys(values, 9)), {"step": 9}, dict.fromkeys(values, 9))


def put_writes(saver: SQLAlchemySaver, thread_id: str) -> None:
    """Put several writes of a task."""
    head = read(saver, where(thread_id)).config
    saver.put_writes(head, [("x", 1), ("messages", talk(1, start=50)), ("large", "z" * 3000)], "another", "path")


CALLS: dict[str, Callable[[SQLAlchemySaver, str], object]] = {
    "put": put,
    "put_writes": put_writes,
    "delete_thread": SQLAlchemySaver.delete_thread,
    "delete_for_runs": lambda saver, name: saver.delete_for_runs([f"{name}-2"]),
    "copy_thread": lambda saver, name: saver.copy_thread(name, f"{name}-copy"),
    "prune": lambda saver, name: saver.prune([name], strategy="keep_latest"),
}


@contextmanager
def failing(engine: sa.Engine, number: int) -> Generator[list[str]]:
    """Make the statement of that number fail; yield the statements that were sent."""
    sent: list[str] = []

    def fail(_conn: object, _cursor: object, text: str, _values: object, _context: object, _many: bool) -> None:
        sent.append(text)
        if len(sent) == number:
            raise sa.exc.OperationalError(text, None, ConnectionError("the network is gone"))

    with listening(engine, "before_cursor_execute", fail):
        yield sent


@pytest.mark.parametrize("name", CALLS)
def test_an_error_at_any_statement_undoes_the_whole_call(
    saver: SQLAlchemySaver, thread_id: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever statement of a call fails, nothing of it is stored, and the same call works when it is repeated.

    On PostgreSQL, this path also repeats a failed read or write in one statement (see test_lost_connections).
    """
    monkeypatch.setattr(Database, "can_read_at_once", False)
    threads, call = (thread_id, f"{thread_id}-copy"), CALLS[name]
    filled(saver, thread_id)
    before = whole(saver, *threads)
    engine = saver.database.engine
    with failing(engine, 0) as sent:
        rehearsal = f"{thread_id}-rehearsal"
        filled(saver, rehearsal)
        whole(saver, rehearsal)  # MariaDB is told the isolation of a session only where the last call had another
        sent.clear()
        call(saver, rehearsal)
    assert len(sent) > 2
    for number in range(1, len(sent) + 1):
        with failing(engine, number), pytest.raises(DatabaseError, match="the network is gone"):
            call(saver, thread_id)
        assert whole(saver, *threads) == before, (number, sent[number - 1])
    call(saver, thread_id)
    assert whole(saver, *threads) != before


@pytest.mark.parametrize("kind", [ONE_WRITER], indirect=True, ids=str)
@pytest.mark.parametrize("name", ["put", "put_writes"])
def test_an_error_at_any_statement_past_sqlalchemy_undoes_the_whole_call(
    saver: SQLAlchemySaver, thread_id: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an SQLite file, where writers and readers of checkpoints do not use SQLAlchemy."""
    sent, fatal = 0, 0
    kept: list[DatabaseError] = []  # as a log or a task keeps an error, with the cursor in its traceback

    def failing(method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            nonlocal sent
            sent += 1
            if sent == fatal:
                raise sqlite3.OperationalError("the disk is gone")
            return method(*args)

        return run

    for method in ("run", "run_many"):
        monkeypatch.setattr(Transaction, method, failing(getattr(Transaction, method)))
    rehearsal = f"{thread_id}-rehearsal"
    for name_of_thread in (rehearsal, thread_id):
        filled(saver, name_of_thread)
    before, sent = whole(saver, thread_id), 0
    CALLS[name](saver, rehearsal)
    last = sent
    assert last > 5
    for number in range(1, last + 1):
        sent, fatal = 0, number
        with pytest.raises(DatabaseError, match="the disk is gone") as caught:
            CALLS[name](saver, thread_id)
        kept.append(caught.value)
        fatal = 0
        assert whole(saver, thread_id) == before, number
    CALLS[name](saver, thread_id)
    assert whole(saver, thread_id) != before


def test_a_value_that_cannot_be_serialized_stores_nothing(saver: SQLAlchemySaver, thread_id: str) -> None:
    """Neither a part of a task's writes nor of a checkpoint, and the thread goes on; there is no pickle."""
    steps = Steps(saver, thread_id)
    head = steps.put({"messages": talk(3)})
    for value in (lambda: None, object(), {"f": open}, 2**70, complex(1, 2)):
        with pytest.raises(ValueTypeError):
            saver.put_writes(head, [("x", 1), ("y", value), ("z", 2)], "task")
        values = {"messages": talk(5), "x": value}
        with pytest.raises(ValueTypeError):
            saver.put(head, checkpoint(values, {"messages": 2, "x": 1}), {"step": 1}, {"messages": 2, "x": 1})
    assert writes_of(saver, head) == []
    assert read(saver, where(thread_id)).config == head
    last = steps.put({"messages": talk(4)})
    assert ids(saver.list(where(thread_id))) == [id_of(last), id_of(head)]
    assert values_of(saver, last) == {"messages": talk(4)}
