"""What a process remembers of a thread's row, on SQLite and PostgreSQL, is used only while the row is unchanged."""

from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any

import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import ConflictError, Keyring, KeyringError, SQLAlchemySaver
from langgraph_compaction.checkpoint.checkpoints import state_at_once
from langgraph_compaction.checkpoint.checkpoints.listing import Listing
from langgraph_compaction.checkpoint.errors import LeaseError, RowError
from tests.checkpoint.contract.steps import Steps, ids, where
from tests.checkpoint.samples import Clock, talk

Change = Callable[[SQLAlchemySaver, str], Any]

CHANGES: dict[str, Change] = {
    "a put": lambda saver, thread_id: Steps(saver, thread_id).put({"messages": talk(2, start=9)}),
    "a message": lambda saver, thread_id: saver.put_writes(
        where(thread_id, "later"), [("messages", talk(1, start=20))], "task"
    ),
    "a large value": lambda saver, thread_id: Steps(saver, thread_id).put({"text": "x" * 999}),
    "the thread deleted": lambda saver, thread_id: saver.delete_thread(thread_id),
    "all pruned": lambda saver, thread_id: saver.prune([thread_id], strategy="delete"),
}


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
    """Return a saver that refuses forks."""
    with SQLAlchemySaver.from_url(url, on_conflict="raise", now=clock) as opened:
        yield opened


@pytest.fixture
def other(url: str, clock: Clock) -> Generator[SQLAlchemySaver]:
    """Return another process's saver."""
    with SQLAlchemySaver.from_url(url, now=clock) as opened:
        yield opened


def messages(saver: SQLAlchemySaver, thread_id: str) -> list[Any]:
    """Return the messages of each checkpoint, the newest first."""
    return [one.checkpoint["channel_values"]["messages"] for one in saver.list(where(thread_id))]


@pytest.mark.parametrize("own", [True, False], ids=["by this saver", "by another"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_row_that_changed_is_read_again(url: str, thread_id: str, name: str, own: bool) -> None:
    """Whoever changed it, on whatever connection: numbers that were given out are not given again."""
    with SQLAlchemySaver.from_url(url) as saver, SQLAlchemySaver.from_url(url) as other:
        before = Steps(saver, thread_id)
        before.put({"messages": talk(1), "text": "y" * 999})
        before.put({"messages": talk(2)})
        by = saver if own else other
        CHANGES[name](by, thread_id)
        then = ids(by.list(where(thread_id)))
        after = Steps(saver, thread_id)
        after.put({"messages": talk(5), "text": "x" * 999})
        after.put({"messages": talk(6)})
        found = list(other.list(where(thread_id)))
        assert ids(found)[2:] == then
        assert [one.checkpoint["channel_values"]["messages"] for one in found[:2]] == [talk(6), talk(5)]
        assert found[0].checkpoint["channel_values"]["text"] == "x" * 999


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
            with pytest.raises(LeaseError):
                Context().run(Steps(saver, thread_id).put, {"messages": talk(9)})  # a lease is known by the context
            clock.time += 9
            other.put_writes(where(thread_id, "later"), [("x", 3)], "task")
    steps.put({"messages": talk(2)})
    assert messages(other, thread_id) == [talk(2), talk(1)]


def test_what_failed_is_not_taken_for_what_stands(saver: SQLAlchemySaver, thread_id: str) -> None:
    """A put that is refused leaves neither a row nor what it had counted."""
    steps = Steps(saver, thread_id)
    first = steps.put({"messages": talk(1)})
    steps.put({"messages": talk(2)})
    with pytest.raises(ConflictError):
        Steps(saver, thread_id).put({"messages": talk(9)}, on=first)
    for number in (3, 4):
        steps.put({"messages": talk(number)})
    assert messages(saver, thread_id) == [talk(number) for number in (4, 3, 2, 1)]


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


@pytest.mark.parametrize("way", ["get_tuple", "list"])
def test_rows_that_are_deleted_meanwhile_make_the_read_begin_again(
    session_url: Callable[[str], str], thread_id: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """PostgreSQL reads old messages after the rest: those deleted in between are not reported as missing."""
    with SQLAlchemySaver.from_url(session_url("postgresql")) as saver:
        Steps(saver, thread_id).put({"messages": talk(450)[::2]})
        place, name = (state_at_once, "read") if way == "get_tuple" else (Listing, "page")
        found = getattr(place, name)

        def late(*args: Any) -> Any:
            rows = found(*args)
            saver.delete_thread(thread_id)
            return rows

        assert saver.get_tuple(where(thread_id, "missing")) is None  # the first transaction reads at length
        monkeypatch.setattr(place, name, late)
        assert not (saver.get_tuple(where(thread_id)) if way == "get_tuple" else [*saver.list(where(thread_id))])
