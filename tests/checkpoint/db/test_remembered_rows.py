"""What a process remembers of a thread's row, on SQLite and PostgreSQL; see also `test_restored_backup`."""

import multiprocessing
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any

import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import Keyring, KeyringError, SQLAlchemySaver
from langgraph_compaction.checkpoint.checkpoints import state_at_once
from langgraph_compaction.checkpoint.checkpoints.listing import Listing
from langgraph_compaction.checkpoint.db.thread_row import KnownThreads
from langgraph_compaction.checkpoint.errors import LeaseError, RowError
from tests.checkpoint.contract.steps import Steps, checkpoint, where
from tests.checkpoint.processes import forks
from tests.checkpoint.samples import Clock, talk


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, session_url: Callable[[str], str]) -> str:
    """Return the URL of each kind of database whose rows of threads are remembered."""
    return session_url(request.param)


@pytest.fixture
def clock() -> Clock:
    """Return the clock of both savers."""
    return Clock()


@pytest.fixture
def saver(url: str, clock: Clock) -> Generator[SQLAlchemySaver]:
    """Return a saver."""
    with SQLAlchemySaver.from_url(url, now=clock) as opened:
        yield opened


@pytest.fixture
def other(url: str, clock: Clock) -> Generator[SQLAlchemySaver]:
    """Return another process's saver."""
    with SQLAlchemySaver.from_url(url, now=clock) as opened:
        yield opened


def messages(saver: SQLAlchemySaver, thread_id: str) -> list[Any]:
    """Return the messages of each checkpoint, the newest first."""
    return [one.checkpoint["channel_values"]["messages"] for one in saver.list(where(thread_id))]


@pytest.mark.parametrize("name", ["a put", "a lease"])
def test_a_thread_that_another_process_has_created_is_not_created_again(
    saver: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str, name: str
) -> None:
    """Although it was absent when this process read it; what the other process has stored stays."""
    assert saver.get_tuple(where(thread_id)) is None
    if name == "a put":
        head = Steps(other, thread_id).put({"messages": talk(2)})
        Steps(saver, thread_id).put({"messages": talk(3)}, on=head)
    else:
        with Context().run(other.lease, thread_id), pytest.raises(LeaseError):
            Context().run(Steps(saver, thread_id).put, {"messages": talk(3)})
        Steps(saver, thread_id).put({"messages": talk(3)})
    assert messages(other, thread_id) == ([talk(3), talk(2)] if name == "a put" else [talk(3)])


def test_a_lease_that_another_took_meanwhile_is_seen(
    saver: SQLAlchemySaver, other: SQLAlchemySaver, thread_id: str, clock: Clock
) -> None:
    """Also one that a write prolonged, which changes no counter of the row; and one that was given back."""
    steps = Steps(saver, thread_id)
    steps.put({"messages": talk(1)})
    with other.lease(thread_id, ttl=10):
        for _ in range(2):
            with pytest.raises(LeaseError):  # who holds a lease is known by the context
                Context().run(saver.put, where(thread_id), checkpoint({"x": 1}, {"x": 1}), {}, {"x": 1})
            clock.time += 9
            other.put_writes(where(thread_id, "later"), [("x", 3)], "task")
    steps.put({"messages": talk(2)})
    assert messages(other, thread_id) == [talk(2), talk(1)]


def test_connections_of_the_application_are_not_trusted(tmp_path: Any) -> None:
    """Savers that share them may have other keys: what one of them knows is nothing to the others."""
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'own.db'}")
    plain, keyed = SQLAlchemySaver(engine), SQLAlchemySaver(engine, keys=Keyring({"a": bytes(32)}, current="a"))
    plain.setup()
    for _ in range(2):
        Steps(plain, "plain").put({"messages": talk(1)})
        with pytest.raises(RowError, match="not encrypted"):
            Steps(keyed, "plain").put({"messages": talk(3)})
        Steps(keyed, "secret").put({"messages": talk(1)})
        with pytest.raises(KeyringError):
            Steps(plain, "secret").put({"messages": talk(2)})
    engine.dispose()


VALUES: dict[str, dict[str, Any]] = {"old messages": {"messages": talk(450)[::2]}, "nothing large": {"x": 1}}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("way", ["get_tuple", "list"])
def test_rows_that_are_deleted_meanwhile_are_not_missed(
    session_url: Callable[[str], str], thread_id: str, monkeypatch: pytest.MonkeyPatch, way: str, values: Any
) -> None:
    """PostgreSQL reads some rows after the rest: if they were deleted in between, the read shows all or nothing."""
    with SQLAlchemySaver.from_url(session_url("postgresql")) as saver:
        saver.put_writes(Steps(saver, thread_id).put(values), [("x", 2)], "task")
        place, name = (state_at_once, "read") if way == "get_tuple" else (Listing, "page")
        found = getattr(place, name)

        def late(*args: Any, **options: Any) -> Any:
            rows = found(*args, **options)
            saver.delete_thread(thread_id)
            return rows

        assert saver.get_tuple(where(thread_id, "missing")) is None  # the first transaction reads at length
        with monkeypatch.context() as patch:
            patch.setattr(place, name, late)
            read = [saver.get_tuple(where(thread_id))] if way == "get_tuple" else [*saver.list(where(thread_id))]
        whole = [(values, [("task", "x", 2)])]
        seen = [(one.checkpoint["channel_values"], one.pending_writes) for one in read if one is not None]
        assert seen in ([], whole)
        assert [*saver.list(where(thread_id))] == []


@forks
def test_a_forked_child_waits_for_no_os_thread_of_its_parent() -> None:
    """What a parent was changing when it was forked hinders no child that forgets threads first."""
    known = KnownThreads()
    child = multiprocessing.get_context("fork").Process(target=known.forget, args=(["t"],))
    with known._lock:
        child.start()
        child.join(20)
    child.kill()
    child.join()
    assert child.exitcode == 0
