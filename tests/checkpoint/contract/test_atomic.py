"""An error in the middle of a call leaves everything as it was before the call."""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import DatabaseError
from langgraph_compaction.checkpoint.db.database import Database
from langgraph_compaction.checkpoint.db.guarded_write import RememberedThreads
from tests.checkpoint.contract.conftest import Opened, known
from tests.checkpoint.contract.savers import PEERS, Kind, Saver
from tests.checkpoint.contract.steps import Steps, checkpoint, id_of, ids, read, values_of, where, writes_of
from tests.checkpoint.listening import listening
from tests.checkpoint.samples import talk

UNSERIALISABLE = "serializable|serialized|serializable"
Call = Callable[[Saver, str], object]


def whole(saver: Saver, *threads: str) -> list[Any]:
    """Return all that is stored of some threads, writes included."""
    spaces = [(thread, namespace) for thread in threads for namespace in ("", "inner:1")]
    return [list(saver.list(where(thread, namespace=namespace))) for thread, namespace in spaces]


def filled(saver: Saver, thread_id: str) -> None:
    """Put a thread with two namespaces, forks, messages and writes."""
    for namespace in ("", "inner:1"):
        steps = Steps(saver, thread_id, namespace)
        root = steps.put({"messages": talk(5), "large": "x" * 2000}, run_id=f"{thread_id}-1")
        steps.put({"messages": talk(7)}, run_id=f"{thread_id}-2")
        saver.put_writes(root, [("messages", talk(1)), ("x", 1)], "task", "path")
        head = steps.put({"messages": [*talk(3), *talk(1, start=70)]}, on=root, run_id=f"{thread_id}-3")
        saver.put_writes(head, [("x", 1)], "task", "path")


def put(saver: Saver, thread_id: str) -> None:
    """Put a checkpoint with new messages and a new large value."""
    head = read(saver, where(thread_id)).config
    values = {"messages": talk(9), "large": "y" * 3000, "x": 1}
    saver.put(head, checkpoint(values, dict.fromkeys(values, 9)), {"step": 9}, dict.fromkeys(values, 9))


def put_writes(saver: Saver, thread_id: str) -> None:
    """Put several writes of a task."""
    head = read(saver, where(thread_id)).config
    saver.put_writes(head, [("x", 1), ("messages", talk(1, start=50)), ("large", "z" * 3000)], "another", "path")


def delete_thread(saver: Saver, thread_id: str) -> None:
    """Delete a thread."""
    saver.delete_thread(thread_id)


def delete_for_runs(saver: Saver, thread_id: str) -> None:
    """Delete what a run made."""
    saver.delete_for_runs([f"{thread_id}-2"])


def copy_thread(saver: Saver, thread_id: str) -> None:
    """Copy a thread."""
    saver.copy_thread(thread_id, f"{thread_id}-copy")


def prune(saver: Saver, thread_id: str) -> None:
    """Keep the latest checkpoints alone."""
    saver.prune([thread_id], strategy="keep_latest")


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


@pytest.mark.parametrize(
    "call", [put, put_writes, delete_thread, delete_for_runs, copy_thread, prune], ids=lambda call: call.__name__
)
def test_an_error_at_any_statement_undoes_the_whole_call(
    ours: Any, thread_id: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever statement of a call fails, nothing of it is stored, and the same call works when it is repeated.

    On PostgreSQL, this path also repeats a failed read or write in one statement (see test_lost_connections).
    """
    monkeypatch.setattr(RememberedThreads, "take", lambda *_: None)
    monkeypatch.setattr(Database, "can_read_at_once", False)
    threads = (thread_id, f"{thread_id}-copy")
    filled(ours, thread_id)
    before = whole(ours, *threads)
    engine = getattr(ours, "inner", ours).database.engine
    with failing(engine, 0) as sent:
        rehearsal = f"{thread_id}-rehearsal"
        filled(ours, rehearsal)
        whole(ours, rehearsal)  # MariaDB is told the isolation of a session only where the last call had another
        sent.clear()
        call(ours, rehearsal)
    assert len(sent) > 2
    for number in range(1, len(sent) + 1):
        with failing(engine, number), pytest.raises(DatabaseError, match="the network is gone"):
            call(ours, thread_id)
        assert whole(ours, *threads) == before, (number, sent[number - 1])
    call(ours, thread_id)
    assert whole(ours, *threads) != before


@contextmanager
def refused_rows(url: str, action: str, condition: str) -> Generator[None]:
    """Make some writes of a peer's database fail when they are stored or deleted."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as conn:
            conn.execute(
                f"CREATE TRIGGER refuse BEFORE {action} ON writes WHEN {condition} "
                "BEGIN SELECT RAISE(ABORT, 'row refused'); END"
            )
        yield
        return
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(
            "CREATE FUNCTION refuse() RETURNS trigger AS 'BEGIN RAISE ''row refused''; END' LANGUAGE plpgsql"
        )
        conn.execute(
            f"CREATE TRIGGER refuse BEFORE {action} ON checkpoint_writes FOR EACH ROW "
            f"WHEN ({condition}) EXECUTE FUNCTION refuse()"
        )
        try:
            yield
        finally:
            conn.execute("DROP FUNCTION refuse CASCADE")


@pytest.fixture(params=[each for each in PEERS if each.database != "memory"], ids=str)
def peer(request: pytest.FixtureRequest) -> Kind:
    """Return each peer that has tables."""
    return known(request)


@pytest.mark.parametrize(
    "fault",
    [(put_writes, "INSERT", "NEW.channel = 'large'"), (delete_thread, "DELETE", "OLD.channel = 'x'")],
    ids=["put_writes", "delete_thread"],
)
def test_a_refused_row_undoes_the_whole_call(
    peer: Kind, opened: Opened, url_for: Callable[[Kind], str], thread_id: str, fault: tuple[Call, str, str]
) -> None:
    """The peers, at a row that their database refuses: nothing of the call is stored."""
    saver = opened(peer)
    filled(saver, thread_id)
    before = whole(saver, thread_id)
    call, action, condition = fault
    with (
        refused_rows(url_for(peer), action, condition),
        pytest.raises((sqlite3.Error, psycopg.Error), match="row refused"),
    ):
        call(saver, thread_id)
    assert whole(saver, thread_id) == before


def test_a_write_that_cannot_be_serialized_stores_none(saver: Saver, thread_id: str) -> None:
    """Of a task's writes either all are stored or none is, also where one has no serialized form."""
    head = Steps(saver, thread_id).put({"x": 1})
    with pytest.raises(Exception, match=UNSERIALISABLE):
        saver.put_writes(head, [("x", 1), ("y", object()), ("z", 2)], "task")
    assert writes_of(saver, head) == []


def test_a_value_that_cannot_be_serialized_stores_no_checkpoint(saver: Saver, thread_id: str) -> None:
    """A checkpoint with a value that has no serialized form is refused as a whole, and the thread goes on."""
    steps = Steps(saver, thread_id)
    head = steps.put({"messages": talk(3)})
    values = {"messages": talk(5), "x": object()}
    with pytest.raises(Exception, match=UNSERIALISABLE):
        saver.put(head, checkpoint(values, {"messages": 2, "x": 1}), {"step": 1}, {"messages": 2, "x": 1})
    assert read(saver, where(thread_id)).config == head
    last = steps.put({"messages": talk(4)})
    assert ids(saver.list(where(thread_id))) == [id_of(last), id_of(head)]
    assert values_of(saver, last) == {"messages": talk(4)}
