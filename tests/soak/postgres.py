"""Conversations in several processes over a PostgreSQL pair, with kills, cut connections and failovers.

    python -m tests.soak.postgres [--minutes 4] [--seed 0] [--drop]

A primary and a streaming standby run in a folder of their own. 32 conversations get inputs from two processes each,
half of the processes through pgbouncer in transaction mode, the others by a URL with both servers. Processes are
killed, connections are cut, and in each round the primary crashes and the standby takes over: in even rounds with
synchronous replication; in odd ones the standby has been cut off for seconds, so that it lacks acknowledged turns.

Afterwards each acknowledged and replicated input has to stand in its conversation, once and before its answer, in the
order in which the inputs were given; every other message has to be an input of this conversation, or its answer. All
checkpoints have to be readable. Counts are printed, and the exit code is 1 where something is lost, mixed or
unreadable; `--drop` removes a turn at the end, and must be red.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import sqlalchemy as sa
from langchain_core.messages import AnyMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig

from benchmarks.acknowledged_inputs import answer, given
from langgraph_compaction.checkpoint import ConflictError, DatabaseError, SQLAlchemySaver
from langgraph_compaction.graph import CompactionSettings, CompactionThread, ThreadBusyError, create_compacting_agent
from langgraph_compaction.nodes.errors import TurnLostError
from langgraph_compaction.nodes.testing import ScriptedModel
from tests.checkpoint.bouncer import bouncer, free_port
from tests.checkpoint.breaking import Server

CONVERSATIONS, WORKERS = 32, 4
LOAD_S, CUT_OFF_S, AFTER_S = 15.0, 4.0, 3.0
"""How long a round goes on before its failover, how long the standby lacks what is written, and what follows."""
PATIENCE_S = 60
DURABILITIES: tuple[Literal["sync", "async", "exit"], ...] = ("sync", "async", "exit")
CONTEXT = multiprocessing.get_context("fork")
BINARIES = max(
    Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/bin"), key=lambda one: float(one.parent.name)
)
CONF = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
shared_buffers = 32MB
fsync = off
synchronous_commit = on
wal_keep_size = 256MB
"""


@dataclass(frozen=True)
class Node:
    """A PostgreSQL server in a folder."""

    folder: Path
    port: int = field(default_factory=free_port)

    @property
    def url(self) -> sa.URL:
        """The URL of its database."""
        return sa.URL.create("postgresql", "soak", host="127.0.0.1", port=self.port, database="postgres")

    def run(self, binary: str, *arguments: str) -> None:
        """Run a program of PostgreSQL, which refuses to be run by root."""
        user = "postgres" if os.geteuid() == 0 else None
        command = [str(BINARIES / binary), *arguments]
        subprocess.run(command, check=True, user=user, cwd=self.folder.parent, stdout=subprocess.DEVNULL)

    def control(self, action: str, *arguments: str) -> None:
        """Start, stop, promote or reload the server."""
        log = [] if action != "start" else ["-l", f"{self.folder}.log"]
        self.run("pg_ctl", "-s", "-w", "-D", str(self.folder), *log, *arguments, action)

    def configure(self, text: str) -> None:
        """Add to the server's settings."""
        with (self.folder / "postgresql.conf").open("a") as file:
            file.write(text)

    def ask(self, text: str) -> Any:
        """Return the value that a statement yields."""
        with Server(self.url.render_as_string()).engine.connect() as conn:
            return conn.exec_driver_sql(text).scalar()


class Pair:
    """A primary and its standby, which change places at a failover."""

    def __init__(self, folder: Path) -> None:
        self.primary, self.standby = Node(folder / "a"), Node(folder / "b")
        self.primary.run("initdb", "-D", str(self.primary.folder), "-A", "trust", "-U", "soak")
        self.primary.configure(f"{CONF}port = {self.primary.port}\n")
        self.primary.control("start")
        self.add_standby()

    def add_standby(self) -> None:
        """Make the standby a new copy of the primary."""
        new = self.standby
        shutil.rmtree(new.folder, ignore_errors=True)
        source = ("-h", "127.0.0.1", "-p", str(self.primary.port), "-U", "soak")
        new.run("pg_basebackup", "-c", "fast", *source, "-D", str(new.folder), "-R")
        new.configure(f"port = {new.port}\n")
        new.control("start")

    def replicate(self, *, synchronously: bool) -> None:
        """Let commits wait for the standby, or not."""
        self.primary.configure(f"synchronous_standby_names = '{'*' if synchronously else ''}'\n")
        self.primary.control("reload")
        wanted = "sync" if synchronously else "async"
        wait_until(lambda: self.primary.ask("SELECT sync_state FROM pg_stat_replication") == wanted)

    def fail_over(self) -> None:
        """Let the primary crash, and promote the standby."""
        self.primary.control("stop", "-m", "immediate")
        self.primary, self.standby = self.standby, self.primary
        self.primary.configure("synchronous_standby_names = ''\n")
        if not (self.primary.folder / "postmaster.pid").exists():
            self.primary.control("start")
        self.primary.control("reload")
        self.primary.control("promote")

    def stop(self) -> None:
        """Stop both."""
        for node in (self.primary, self.standby):
            if (node.folder / "postmaster.pid").exists():
                node.control("stop", "-m", "immediate")


def wait_until(met: Callable[[], bool]) -> None:
    """Wait until a condition is met."""
    deadline = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < deadline, "the servers did not become what they should"
        time.sleep(0.05)


@contextmanager
def opened(url: str) -> Generator[Any]:
    """Open the database as a process of an application does, and yield its agent."""
    with SQLAlchemySaver.from_url(url, on_conflict="raise") as saver:
        yield create_compacting_agent(
            ScriptedModel(replies=[answer]),
            settings=CompactionSettings(context_window=3_000),
            summarizer="digest",
            checkpointer=saver,
        )


def config_of(thread: str) -> RunnableConfig:
    """Return the config of a conversation."""
    return {"configurable": {"thread_id": thread}}


class Worker:
    """A process that gives its conversations inputs, and notes in a file what it gave and what was acknowledged."""

    def __init__(self, number: int, url: str, folder: Path) -> None:
        self.number, self.url, self.file = number, url, folder / f"worker-{number}"
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        self.child = CONTEXT.Process(target=self._work, daemon=True)
        self.child.start()

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.child.kill()
        self.child.join()

    def _work(self) -> None:
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        self._out = os.open(self.file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        mine = (n for n in range(CONVERSATIONS) if self.number in {n % WORKERS, n // WORKERS % WORKERS})

        async def together(graph: Any) -> None:
            await asyncio.gather(*(self._talk(graph, f"t{n}", DURABILITIES[n % 3]) for n in mine))

        while True:  # opening fails, too, while no server is the primary
            with suppress(DatabaseError), opened(self.url) as graph:
                asyncio.run(together(graph))

    async def _talk(self, graph: Any, thread: str, durability: Any) -> None:
        chance = random.Random(f"{thread} {self.number}")  # noqa: S311 - no secret
        while True:
            name = f"{thread}.{self.number}-{time.monotonic_ns()}"
            self._note("given", name)
            try:
                await graph.ainvoke(given(name), config_of(thread), durability=durability)
            except (ConflictError, DatabaseError, ThreadBusyError, TurnLostError) as error:
                self._note(type(error).__name__, name)
            except Exception as error:  # noqa: BLE001 - whatever is raised is the finding
                self._note("defect", f"{name} {error!r}".replace("\n", " "))
            else:
                self._note("acknowledged", name)
            await asyncio.sleep(chance.uniform(0, 0.4))

    def _note(self, kind: str, what: str) -> None:
        os.write(self._out, f"{time.monotonic_ns()} {kind} {what}\n".encode())


Span = tuple[int, int]


def judge(
    thread: str, messages: Sequence[AnyMessage], done: Mapping[str, int], excused: Sequence[Span]
) -> Counter[str]:
    """Count what is wrong with a conversation.

    `done` has the time of each acknowledgement by the input's name, which ends with the time when it was given. What
    was written in an `excused` span of time was not replicated, and may be missing.
    """

    def wrong(kind: str, name: str, at: int) -> None:
        is_excused = any(start <= at and int(name.rpartition("-")[2]) <= end for start, end in excused)
        found["not replicated" if is_excused else kind] += 1

    found = Counter[str]()
    places: dict[str, int] = {}
    newest = 0
    for place, message in enumerate(messages):
        name = str(message.id).removesuffix("-answer")
        of = messages[place - 1].id if message.type == "ai" and place else None
        told = given(name)["messages"][0].text if message.type == "human" else "noted"
        if not name.startswith(f"{thread}.") or message.text != told or (message.type == "ai" and of != name):
            found["mixed"] += 1
        if message.type == "human":
            found["mixed"] += name in places
            places[name] = place
            found["out of order"] += done.get(name, time.monotonic_ns()) < newest
            newest = max(newest, int(name.rpartition("-")[2]))
    for name, at in done.items():
        if name not in places:
            wrong("lost", name, at)
        elif [str(one.id) for one in messages[places[name] + 1 :][:1]] != [f"{name}-answer"]:
            wrong("unanswered", name, at)
    return found


def look(graph: Any, thread: str, done: Mapping[str, int], excused: Sequence[Span]) -> Counter[str]:
    """Read a conversation and all of its checkpoints in a process that has not written to it, and judge it."""
    config = config_of(thread)
    try:
        found = judge(thread, CompactionThread(graph, config).transcript(), done, excused)
        found["checkpoints"] = sum(1 for _ in graph.get_state_history(config))
    except Exception as error:  # noqa: BLE001 - whatever is raised is the finding
        print(f"{thread} is unreadable: {error!r}")  # noqa: T201
        return Counter({"unreadable": 1})
    return found


def play(pair: Pair, lead: Callable[[sa.URL], None], workers: Sequence[Worker], seconds: float, seed: int) -> Any:
    """Play rounds until the time is over; return the spans in which nothing was replicated, and what happened."""
    chance, happened, spans = random.Random(seed), Counter[str](), list[Span]()  # noqa: S311 - no secret

    def load(duration: float) -> None:
        until = time.monotonic() + duration
        server = Server(pair.primary.url.render_as_string())
        while time.monotonic() < until:
            time.sleep(chance.uniform(0.2, 1))
            if chance.random() < 0.3:
                one = chance.choice(workers)
                one.kill()
                one.start()
                happened["kills"] += 1
            elif sessions := server.sessions():
                server.end(chance.choice(sessions))
                happened["cuts"] += 1

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        synchronously = happened["failovers"] % 2 == 0
        pair.replicate(synchronously=synchronously)
        load(LOAD_S)
        cut = time.monotonic_ns()
        if not synchronously:
            pair.standby.control("stop", "-m", "fast")
            load(CUT_OFF_S)
        pair.fail_over()
        lead(pair.primary.url)
        if not synchronously:
            spans.append((cut, time.monotonic_ns()))
        happened["failovers"] += 1
        load(AFTER_S)
        pair.add_standby()
    return spans, happened


def soak(folder: Path, minutes: float, seed: int, *, drop: bool) -> dict[str, int]:
    """Play, and return what was counted."""
    pair = Pair(folder)
    try:
        first, second = pair.primary.port, pair.standby.port
        both = f"postgresql://soak@/postgres?host=127.0.0.1:{first}&host=127.0.0.1:{second}"
        with opened(both) as graph, bouncer(pair.primary.url, 8) as (pooled, lead):
            graph.checkpointer.setup()
            urls = [f"{both}&target_session_attrs=read-write", pooled.render_as_string()]
            workers = [Worker(n, urls[n % 2], folder) for n in range(WORKERS)]
            spans, counted = play(pair, lead, workers, minutes * 60, seed)
            for worker in workers:
                worker.kill()
            lines = [line.split(" ", 2) for one in workers for line in one.file.read_text().splitlines()]
            done = {what: int(at) for at, kind, what in lines if kind == "acknowledged"}
            counted.update(kind for _, kind, _ in lines)
            print(*(what for _, kind, what in lines if kind == "defect"), sep="\n")  # noqa: T201
        with opened(pair.primary.url.render_as_string()) as graph:
            if drop:
                name = max(done, key=done.__getitem__)
                gone = {"messages": [RemoveMessage(id=f"{name}{end}") for end in ("", "-answer")]}
                graph.update_state(config_of(name.partition(".")[0]), gone)
            for number in range(CONVERSATIONS):
                own = {name: at for name, at in done.items() if name.startswith(f"t{number}.")}
                counted += look(graph, f"t{number}", own, spans)
        return dict(counted)
    finally:
        pair.stop()


DEFECTS = ("lost", "unanswered", "out of order", "mixed", "unreadable", "defect")


def main() -> None:
    """Play, print what was counted, and end with 1 where something is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drop", action="store_true", help="remove a turn at the end: the result has to be red")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        counted = soak(Path(folder), options.minutes, options.seed, drop=options.drop)
    found = {name: counted.pop(name, 0) for name in DEFECTS}
    print(json.dumps({**counted, **found}, indent=1))  # noqa: T201
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
