from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from langgraph_compaction.checkpoint import Database, DatabaseError, SQLAlchemySaver
from tests.checkpoint.breaking import CUT_SHORT, REFUSALS, Harm, Server, Thing, Trap, refusal
from tests.conftest import server_database
from tests.full import FULL

EVERY = 1 if FULL else 4
"""A connection is lost at each statement of a call in a full run, else at every fourth."""
Look = tuple[object, dict[str, Any], dict[str, Any]]


def config_of(thread: str, checkpoint_id: str | None = None) -> RunnableConfig:
    """The config that names a checkpoint, or the newest of a thread."""
    named = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **named}}


def id_of(number: int, author: int = 0) -> str:
    """The id of an author's checkpoint number so many."""
    return f"1f0{number:05x}-0000-6000-8000-{author:012x}"


def said(author: int, turns: int) -> list[BaseMessage]:
    """A conversation of so many turns, unlike any other author's."""
    kinds = (HumanMessage, AIMessage)
    return [kinds[n % 2](f"{author} says number {n}", id=f"{author}-{n}") for n in range(2 * turns)]


def values_of(author: int, number: int) -> dict[str, Any]:
    """What an author's checkpoint holds."""
    return {"messages": said(author, number), "count": number}


def put(saver: Any, thread: str, number: int, author: int = 0) -> None:
    """Put an author's checkpoint upon the one before."""
    checkpoint = empty_checkpoint()
    versions: dict[str, Any] = {"messages": number, "count": number}
    checkpoint |= {"id": id_of(number, author), "ts": "2026-11-22T00:00:00+00:00"}
    checkpoint["channel_values"] = values_of(author, number)
    checkpoint["channel_versions"] = dict(versions)
    metadata = {"source": "loop", "step": number, "run_id": f"run of {thread}"}
    parent = id_of(number - 1, author) if number > 1 else None
    saver.put(config_of(thread, parent), checkpoint, metadata, versions)


def write(saver: Any, thread: str, number: int, author: int = 0) -> None:
    """Put three writes of a task of this number upon an author's checkpoint."""
    values = [HumanMessage(f"written by {author}", id=f"{author}-w{number}"), {"by": author}, 3]
    writes = [(f"c{n}", value) for n, value in enumerate(values)]
    saver.put_writes(config_of(thread, id_of(number, author)), writes, f"task-{author}-{number}")


def begin(saver: Any, thread: str) -> None:
    """Make a thread of three checkpoints, the last with writes."""
    for number in range(1, 4):
        put(saver, thread, number)
    write(saver, thread, 3)


def seen(saver: Any, thread: str) -> dict[str, Any]:
    """What a thread holds."""
    return {
        held.checkpoint["id"]: (
            held.checkpoint["channel_values"],
            held.metadata["step"],
            held.parent_config and held.parent_config["configurable"]["checkpoint_id"],
            held.pending_writes,
        )
        for held in saver.list(config_of(thread))
    }


CALLS: dict[str, Callable[[Any, str], object]] = {
    "setup": lambda saver, _: saver.setup(),
    "put": lambda saver, thread: put(saver, thread, 4),
    "put to a new thread": lambda saver, thread: put(saver, f"{thread}-new", 1),
    "put_writes": lambda saver, thread: write(saver, thread, 2),
    "get_tuple": lambda saver, thread: saver.get_tuple(config_of(thread)).checkpoint,
    "list": seen,
    "prune": lambda saver, thread: saver.prune([thread], keep_last=1),
    "copy_thread": lambda saver, thread: saver.copy_thread(thread, f"{thread}-new"),
    "delete_for_runs": lambda saver, thread: saver.delete_for_runs([f"run of {thread}"]),
    "delete_thread": lambda saver, thread: saver.delete_thread(thread),
}


def look(saver: Any, answer: object, thread: str) -> Look:
    """What a call answered and what it left."""
    return answer, seen(saver, thread), seen(saver, f"{thread}-new")


def check_harm_is_mended(url: str, harm: Harm, of: Thing = "statements", every: int = 1) -> None:
    """Make every call once for each (or every so manieth) thing to harm in it: it ends like a call left alone."""
    with SQLAlchemySaver.from_url(url) as saver:
        saver.setup()
        for name, make in CALLS.items():
            begin(saver, f"{of}, {name}, calm")
            calm = look(saver, make(saver, f"{of}, {name}, calm"), f"{of}, {name}, calm")
            for at in count(1, every):
                thread = f"{of}, {name}, harmed at {at}"
                begin(saver, thread)
                trap = Trap(at, harm, of)
                if of == "connects":
                    saver.database.engine.dispose()
                with trap.set_on(saver.database.engine):
                    answered = make(saver, thread)
                assert look(saver, answered, thread) == calm, thread
                if not trap.sprung:
                    assert at > 1
                    break


@pytest.fixture(params=["postgresql", "mariadb"])
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the URL of a database of this test's own on a server."""
    with server_database(request.param) as url:
        yield url


def test_a_connection_lost_at_any_statement_is_not_noticed(server_url: str) -> None:
    """Whichever statement or commit finds its connection gone, the call is carried out all the same, once."""
    check_harm_is_mended(server_url, Server(server_url).cut, every=EVERY)


@pytest.mark.parametrize("kind", CUT_SHORT)
def test_a_connection_lost_before_it_is_used_is_not_noticed(kind: str) -> None:
    """One that ends when it has been taken for a call, or while it is made, is replaced by another."""
    with server_database(kind) as url:
        check_harm_is_mended(url, Server(url).cut, "checkouts")
        check_harm_is_mended(url, refusal(CUT_SHORT[kind]), "connects")


@pytest.mark.parametrize("noticed", [True, False], ids=["at once", "later"])
def test_a_commit_whose_answer_is_lost_is_not_done_twice(server_url: str, noticed: bool) -> None:
    """A connection that ends after a commit, its answer heard or not: repeating changes nothing."""
    server = Server(server_url)
    check_harm_is_mended(server_url, server.cut_off if noticed else server.cut, "answers")


@pytest.mark.parametrize("refused", REFUSALS)
def test_a_passing_refusal_is_not_noticed(refused: str) -> None:
    """A deadlock, a failed serialization or a lock held too long undoes a transaction: the call does it again."""
    kind, error = REFUSALS[refused]
    with server_database(kind) as url:
        check_harm_is_mended(url, refusal(error), every=4)


def test_connections_that_were_kept_open_and_lost_are_not_noticed(
    server_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that starts again ends all at once, while nobody listens to the engine; nothing logs an error."""
    server = Server(server_url)
    with SQLAlchemySaver.from_url(server_url) as saver:
        saver.setup()
        for name, make in CALLS.items():
            calm, harmed = f"{name}, calm", f"{name}, harmed"
            begin(saver, calm)
            begin(saver, harmed)
            expected = look(saver, make(saver, calm), calm)
            with ThreadPoolExecutor(4) as several:  # each with a connection
                list(several.map(lambda thread: seen(saver, thread), [calm] * 8))
            for session in server.sessions():
                server.end(session)
            assert look(saver, make(saver, harmed), harmed) == expected, name
    assert not caplog.records


def test_one_lost_connection_tells_of_all(server_url: str) -> None:
    """Of ten in use at once five are kept open; when one is lost, the next transaction gets a new one."""
    server = Server(server_url)
    with Database.open(server_url) as database, ExitStack() as several:
        database.setup()
        for _ in range(10):
            several.enter_context(database.read())
        several.close()
        server.wait_for(lambda sessions: len(sessions) == 5)
        for session in server.sessions():
            server.end(session)
        with pytest.raises(DatabaseError), database.read() as transaction:
            transaction.execute(sa.select(1))
        with database.read() as transaction:
            assert transaction.execute(sa.select(1)).scalar() == 1


def test_a_connection_that_the_server_ended_because_it_was_idle_is_not_noticed() -> None:
    """A setting of PostgreSQL, which ends it with an error of its own."""
    with server_database("postgresql") as url:
        patient = sa.make_url(url).update_query_dict({"options": "-cidle_session_timeout=20"})
        with Database.open(patient.render_as_string(hide_password=False)) as database:
            database.setup()
            Server(url).wait_for(lambda sessions: not sessions)
            assert database.run_write(lambda transaction: transaction.run(sa.select(1)).fetchone()) == (1,)
