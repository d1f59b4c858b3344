"""Two processes write to one thread: how many acknowledged inputs are missing from the conversation afterwards.

    python benchmarks/two_writers.py [--runs 2]

Both open the thread at the same moment and give it fifteen inputs each. An `invoke` that returns is an
acknowledged input; the conversation is what the thread's newest checkpoint holds at the end. With a guard, an
input that meets a conflict is given again, up to twenty times. Servers: TEST_POSTGRES_URL, TEST_MARIADB_URL.
Writes benchmarks/results/two_writers.json.
"""

import argparse
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import sqlalchemy as sa
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import ConflictError, SQLAlchemySaver
from langgraph_compaction.checkpoint.db.urls import sync_url

INPUTS = 15
TRIES = 20
PATIENCE_S = 120
DURABILITIES: tuple[Literal["sync", "async", "exit"], ...] = ("sync", "async", "exit")
CONFIG: RunnableConfig = {"configurable": {"thread_id": "shared"}}
RESULTS = Path(__file__).parent / "results" / "two_writers.json"


@contextmanager
def official_sqlite(url: str) -> Generator[SqliteSaver]:
    """LangGraph's saver for SQLite files."""
    with SqliteSaver.from_conn_string(url.removeprefix("sqlite:///")) as saver:
        yield saver


@contextmanager
def official_postgres(url: str) -> Generator[PostgresSaver]:
    """LangGraph's saver for PostgreSQL."""
    with PostgresSaver.from_conn_string(url.replace("postgresql+psycopg", "postgresql")) as saver:
        yield saver


def forking(url: str) -> AbstractContextManager[SQLAlchemySaver]:
    """Our saver without the conflict guard: simultaneous writers create two branches, as LangGraph expects."""
    return SQLAlchemySaver.from_url(url)


def raising(url: str) -> AbstractContextManager[SQLAlchemySaver]:
    """Our saver with the conflict guard."""
    return SQLAlchemySaver.from_url(url, on_conflict="raise")


@dataclass(frozen=True)
class Contender:
    """A saver, and the guard that its users take against conflicts."""

    name: str
    database: str
    opened: Callable[[str], AbstractContextManager[Any]]
    leased: bool = False


CONTENDERS = (
    Contender("SqliteSaver", "sqlite", official_sqlite),
    Contender("PostgresSaver", "postgresql", official_postgres),
    *(
        contender
        for database in ("sqlite", "postgresql", "mariadb")
        for contender in (
            Contender('ours, on_conflict="fork"', database, forking),
            Contender('ours, on_conflict="raise"', database, raising),
            Contender("ours, with a lease", database, forking, leased=True),
        )
    ),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table."""

    saver: str
    database: str
    durability: str
    acknowledged: int
    given_up: int
    """Inputs that were given up because every try met a conflict."""
    conflicts: int
    """Tries that met a conflict."""
    missing: int
    """Acknowledged inputs that the newest checkpoint does not hold."""
    nowhere: int
    """Acknowledged inputs that no checkpoint holds."""
    seconds: float


@dataclass(frozen=True)
class Account:
    """The report of one process at its end."""

    acknowledged: list[str]
    given_up: list[str]
    conflicts: int


def conversation(saver: Any) -> Any:
    """Return a graph with one model that answers at once."""

    def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("noted", id=f"{state['messages'][-1].id}-answer")]}

    return StateGraph(MessagesState).add_node(model).add_edge(START, "model").compile(checkpointer=saver)


def meet_at_first_read(saver: Any, gate: Barrier) -> None:
    """Make each process wait, after its first read of the thread, until the other has read it too."""
    read, waiting = saver.get_tuple, [gate.wait]

    def get_tuple(config: RunnableConfig) -> Any:
        found = read(config)
        if waiting:
            waiting.pop()(PATIENCE_S)
        return found

    saver.get_tuple = get_tuple


def write(contender: Contender, url: str, durability: Any, *, number: int, gate: Barrier, pipe: Connection) -> None:
    """Give the thread its inputs and send an `Account`."""
    acknowledged: list[str] = []
    given_up: list[str] = []
    conflicts = 0
    with contender.opened(url) as saver:
        graph = conversation(saver)
        if contender.leased:
            gate.wait(PATIENCE_S)
        else:
            meet_at_first_read(saver, gate)
        for name in (f"{number}-{n}" for n in range(INPUTS)):
            for attempt in range(TRIES):
                try:
                    with saver.lease("shared", wait=PATIENCE_S) if contender.leased else nullcontext():
                        graph.invoke({"messages": [HumanMessage("hello", id=name)]}, CONFIG, durability=durability)
                except ConflictError:
                    conflicts += 1
                    time.sleep(random.uniform(0, 0.002 * 2 ** min(attempt, 5)))  # noqa: S311 - a pause
                else:
                    acknowledged.append(name)
                    break
            else:
                given_up.append(name)
    pipe.send(Account(acknowledged, given_up, conflicts))


def compete(contender: Contender, url: str, durability: str) -> Row:
    """Let two processes write, and count the results; the database must not have tables yet."""
    with contender.opened(url) as saver:
        saver.setup()
    context = multiprocessing.get_context("fork")
    gate = context.Barrier(2)
    start = time.perf_counter()
    ends = [context.Pipe(duplex=False) for _ in range(2)]
    children = [
        context.Process(
            target=write, args=(contender, url, durability), kwargs={"number": number, "gate": gate, "pipe": sender}
        )
        for number, (_, sender) in enumerate(ends)
    ]
    for child, (_, sender) in zip(children, ends, strict=True):
        child.start()
        sender.close()
    accounts: list[Account] = [receiver.recv() for receiver, _ in ends]
    for child in children:
        child.join(PATIENCE_S)
    seconds = time.perf_counter() - start
    assert [child.exitcode for child in children] == [0, 0]
    acknowledged = {name for account in accounts for name in account.acknowledged}
    with contender.opened(url) as saver:
        graph = conversation(saver)
        head = ids_of(graph.get_state(CONFIG))
        anywhere = {name for snapshot in graph.get_state_history(CONFIG) for name in ids_of(snapshot)}
    return Row(
        saver=contender.name,
        database=contender.database,
        durability=durability,
        acknowledged=len(acknowledged),
        given_up=sum(len(account.given_up) for account in accounts),
        conflicts=sum(account.conflicts for account in accounts),
        missing=len(acknowledged - head),
        nowhere=len(acknowledged - anywhere),
        seconds=round(seconds, 2),
    )


def ids_of(snapshot: Any) -> set[str]:
    """Ids of the messages of a state."""
    return {message.id for message in snapshot.values.get("messages", [])}


@contextmanager
def database_of(kind: str) -> Generator[str | None]:
    """Create a database for the duration of the block; yield None if there is no server."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/two.db"
    elif server := os.environ.get({"postgresql": "TEST_POSTGRES_URL", "mariadb": "TEST_MARIADB_URL"}[kind]):
        url = sync_url(server)
        name = f"two_writers_{uuid4().hex[:12]}"
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as conn:
            conn.execute(sa.DDL(f"CREATE DATABASE {name}"))
            try:
                yield url.set(database=name).render_as_string(hide_password=False)
            finally:
                conn.execute(sa.DDL(f"DROP DATABASE {name}"))
    else:
        yield None


def rows(runs: int) -> Iterator[Row]:
    """Every contender under every durability, in turn."""
    for _ in range(runs):
        for durability in DURABILITIES:
            for contender in CONTENDERS:
                with database_of(contender.database) as url:
                    if url is not None:
                        yield compete(contender, url, durability)


def main() -> None:
    """Measure, print and keep the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2)
    measured: list[Row] = []
    print(f"| saver | database | durability | of {2 * INPUTS} acknowledged | conflicts | missing | nowhere | s |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows(parser.parse_args().runs):
        measured.append(row)
        print(
            f"| {row.saver} | {row.database} | {row.durability} | {row.acknowledged} | {row.conflicts} "
            f"| {row.missing} | {row.nowhere} | {row.seconds} |",
            flush=True,
        )
    RESULTS.write_text(json.dumps([asdict(row) for row in measured], indent=1) + "\n")


if __name__ == "__main__":
    main()
