from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import ConflictError, Database, Keyring, KeyringError, SQLAlchemySaver
from langgraph_compaction.checkpoint.db.run_leases import RunLease, StoredRunLeases
from langgraph_compaction.checkpoint.db.thread_row import KNOWN_ROWS, cache_threads, note, take_cached_threads
from langgraph_compaction.checkpoint.errors import LeaseError, RowError
from tests.checkpoint.contract.steps import Steps, ids, where
from tests.checkpoint.listening import statements
from tests.checkpoint.samples import talk

Change = Callable[[SQLAlchemySaver, str], Any]

CHANGES: dict[str, Change] = {
    "a put": lambda saver, thread_id: Steps(saver, thread_id).put({"messages": talk(2, start=9)}),
    "a message": lambda saver, thread_id: saver.put_writes(
        where(thread_id, "later"), [("messages", talk(1, start=20))], "task"
    ),
    "the thread deleted": lambda saver, thread_id: saver.delete_thread(thread_id),
    "all pruned": lambda saver, thread_id: saver.prune([thread_id], strategy="delete"),
}


def asked(saver: SQLAlchemySaver, steps: Steps, number: int) -> int:
    """Return how many times a put that adds a message asks for the row of a thread."""
    with statements(saver.database) as texts:
        steps.put({"messages": talk(number)})
    return sum(text.startswith("SELECT compaction_thread.id") for text in texts)


@pytest.fixture
def file(tmp_path: Any) -> str:
    """Return the URL of a database in a file of this test alone."""
    return f"sqlite:///{tmp_path / 'own.db'}"


def test_who_writes_alone_reads_the_row_of_its_thread_once(database: Database, thread_id: str) -> None:
    """In an SQLite file, and on PostgreSQL; elsewhere the row is locked by reading it, each time."""
    saver = SQLAlchemySaver(database)
    steps = Steps(saver, thread_id)
    steps.put({"messages": talk(1)})
    expected = 0 if database.engine.dialect.name in {"sqlite", "postgresql"} and database.durable else 1
    assert [asked(saver, steps, number) for number in (2, 3, 4)] == [expected] * 3


def test_the_lease_of_a_run_leaves_the_row_of_its_thread_known(file: str) -> None:
    """It is taken and given back around each turn, and changes no thread."""
    with SQLAlchemySaver.from_url(file) as saver:
        saver.setup()
        steps, leases, lease = Steps(saver, "t"), StoredRunLeases(saver.database), RunLease("t")
        steps.put({"messages": talk(1)})
        assert leases.take(lease)
        assert asked(saver, steps, 2) == 0
        assert leases.release(lease)
        assert asked(saver, steps, 3) == 0


def test_what_was_not_committed_is_not_taken_for_what_stands(file: str) -> None:
    """Whatever becomes of the connection."""
    with SQLAlchemySaver.from_url(file) as saver:
        saver.setup()
        Steps(saver, "t").put({"messages": talk(1)})
        with saver.database.write() as conn:
            known = take_cached_threads(conn, stamp := saver.database.change_stamp(conn))
            cache_threads(conn, stamp, known)
            assert (list(known), take_cached_threads(conn, stamp)) == (["t"], {})
            last = cache_threads(conn, stamp, known)
            last.committed = True
            assert take_cached_threads(conn, stamp) == known


def test_of_a_thread_that_is_left_only_its_row_is_kept(file: str) -> None:
    """What a transaction knew of its messages would grow with the conversation."""
    with SQLAlchemySaver.from_url(file) as saver:
        saver.setup()
        for name in ("a", "b"):
            Steps(saver, name).put({"messages": talk(9)})
        with saver.database.write() as conn:
            assert [
                (name, thread.next_seq, thread.added)
                for name, thread in take_cached_threads(conn, saver.database.change_stamp(conn)).items()
            ] == [
                ("a", 9, {}),
                ("b", 9, {}),
            ]


def test_a_thread_stays_known_while_others_are_written(file: str) -> None:
    """As with several conversations of one application."""
    with SQLAlchemySaver.from_url(file) as saver:
        saver.setup()
        several = [Steps(saver, name) for name in ("a", "b", "c")]
        for steps in several:
            steps.put({"messages": talk(1)})
        assert [asked(saver, steps, number) for number in (2, 3) for steps in several] == [0] * 6
        for number in range(100):
            Steps(saver, f"other {number}").put({"messages": talk(1)})
        assert [asked(saver, steps, 4) for steps in several] == [1] * 3
        assert [len(list(saver.list(steps.start))) for steps in several] == [4] * 3


def test_connections_of_the_application_are_not_trusted(file: str) -> None:
    """Savers that share them may have other keys: what one of them knows is nothing to the others."""
    engine = sa.create_engine(file)
    plain, keyed = SQLAlchemySaver(engine), SQLAlchemySaver(engine, keys=Keyring({"a": bytes(32)}, current="a"))
    plain.setup()
    steps = Steps(plain, "plain")
    steps.put({"messages": talk(1)})
    assert asked(plain, steps, 2) == 1
    with pytest.raises(RowError, match="not encrypted"):
        Steps(keyed, "plain").put({"messages": talk(3)})
    Steps(keyed, "secret").put({"messages": talk(1)})
    with pytest.raises(KeyringError):
        Steps(plain, "secret").put({"messages": talk(2)})
    engine.dispose()


@pytest.mark.parametrize("own", [True, False], ids=["by this saver", "by another"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_row_that_may_have_changed_is_read_again(file: str, name: str, own: bool) -> None:
    """Whoever changed it, on whatever connection: numbers that were given out are not given again."""
    with SQLAlchemySaver.from_url(file) as saver, SQLAlchemySaver.from_url(file) as other:
        saver.setup()
        before = Steps(saver, "t")
        before.put({"messages": talk(1)})
        before.put({"messages": talk(2)})
        by = saver if own else other
        CHANGES[name](by, "t")
        then = ids(by.list(where("t")))
        after = Steps(saver, "t")
        after.put({"messages": talk(5)})
        after.put({"messages": talk(6)})
        found = list(other.list(where("t")))
        assert ids(found)[2:] == then
        assert [one.checkpoint["channel_values"]["messages"] for one in found[:2]] == [talk(6), talk(5)]


def test_a_lease_that_another_took_meanwhile_is_seen(file: str) -> None:
    """Also by who wrote last, and knows the row without it."""
    with SQLAlchemySaver.from_url(file) as saver, SQLAlchemySaver.from_url(file) as other:
        saver.setup()
        steps = Steps(saver, "t")
        steps.put({"messages": talk(1)})
        with other.lease("t"), pytest.raises(LeaseError):
            Context().run(steps.put, {"messages": talk(2)})  # who holds a lease is known by the context
        steps.put({"messages": talk(3)})
        assert len(list(other.list(steps.start))) == 2


def test_what_failed_is_not_taken_for_what_stands(file: str) -> None:
    """A put that is refused leaves neither a row nor what it had counted."""
    with SQLAlchemySaver.from_url(file, on_conflict="raise") as saver:
        saver.setup()
        steps = Steps(saver, "t")
        first = steps.put({"messages": talk(1)})
        steps.put({"messages": talk(2)})
        with pytest.raises(ConflictError):
            Steps(saver, "t").put({"messages": talk(9)}, on=first)
        assert asked(saver, steps, 3) == 1
        assert asked(saver, steps, 4) == 0
        assert [len(one.checkpoint["channel_values"]["messages"]) for one in saver.list(steps.start)] == [4, 3, 2, 1]


def test_the_rows_that_were_noted_last_stay_known() -> None:
    """If the limit is exceeded, the row that was noted longest ago is forgotten; noting a row again counts."""
    known: dict[int, int] = {}
    for key in range(KNOWN_ROWS):
        note(known, key, 1)
    note(known, 0, 2)
    note(known, KNOWN_ROWS, 1)
    assert known == {0: 2, **dict.fromkeys(range(2, KNOWN_ROWS + 1), 1)}
