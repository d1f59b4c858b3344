"""Several writers run an agent on one thread: how many acknowledged inputs are missing afterwards, and in what order.

    python -m benchmarks.acknowledged_inputs [--inputs 10000] [--seed 0] [--only postgresql,kills] [--price]

Settings are the defaults, in a window of 128,000 tokens, under `durability="sync"`; an input is acknowledged when
its run returns. Writers are OS threads, tasks of one event loop, or processes; some are killed, some lose their
connections to the server, some runs are canceled. A run that ends with an error is not acknowledged, and its writer
goes on with the next input. Afterwards each acknowledged input has to stand in the transcript, before its answer,
and the inputs of one writer in the order in which it gave them. Servers: TEST_POSTGRES_URL, TEST_MARIADB_URL.

A plan whose server is absent is named, and the exit code is 1, unless `--without-servers` is given.

`--price` measures what taking turns costs a run that nobody competes with. Both write their rows into
benchmarks/results/acknowledged_inputs.json, in place of rows of the same name.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from benchmarks.two_writers import database_of
from langgraph_compaction.checkpoint import CheckpointError, SQLAlchemySaver
from langgraph_compaction.graph import CompactionSettings, CompactionThread, ThreadBusyError, create_compacting_agent
from langgraph_compaction.nodes.errors import TurnLostError
from langgraph_compaction.nodes.testing import ScriptedModel
from tests.checkpoint.breaking import Server

RESULTS = Path(__file__).parent / "results" / "acknowledged_inputs.json"
CONFIG: RunnableConfig = {"configurable": {"thread_id": "shared"}}
PATIENCE_S = 600
INPUTS_PER_HARM = 8
"""A process is killed, or a connection cut, at most once for so many inputs, so that slow machines get on."""
REOPENED = 20
"""How often a writer opens the database anew."""
UNACKNOWLEDGED = (CheckpointError, ThreadBusyError, TurnLostError, sa.exc.DBAPIError)
"""Errors with which a run may end that waited too long, or whose connection was cut."""
Harm = Literal["none", "kills", "cuts", "cancels"]
CONTEXT = multiprocessing.get_context("fork")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Who writes, where, and what happens to the writers."""

    saver: str = "ours"
    database: str
    """Where the checkpoints are, or the records beside LangGraph's saver."""
    writers: Literal["threads", "tasks", "processes"]
    count: int
    harm: Harm = "none"
    inputs: int = 320
    """Inputs of all writers."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings beside the defaults."""
    summary: Any = "<summary>The user gave inputs, and each of them was noted.</summary>"
    """What the summarizer answers; an exception is raised."""

    @property
    def name(self) -> str:
        """A name for tables."""
        return f"{self.saver}, {self.database}, {self.count} {self.writers}, {self.harm}"

    @property
    def expected(self) -> tuple[type[Exception], ...]:
        """Errors with which a run may end; without any harm to the writers, it may only have waited too long."""
        return {"none": (ThreadBusyError,), "cancels": (ThreadBusyError, TimeoutError)}.get(self.harm, UNACKNOWLEDGED)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One row of the table."""

    name: str
    acknowledged: int
    failed: int
    """Inputs whose runs ended with an error, were canceled, or were killed."""
    harmed: int
    """Kills, cut connections, or canceled runs."""
    compacted: int
    lost: int
    """Acknowledged inputs that the transcript does not hold."""
    unanswered: int
    """Acknowledged inputs that their own answer does not follow."""
    disordered: int
    """Acknowledged inputs that stand before an earlier input of the same writer."""
    seconds: float


def answer(messages: list[BaseMessage]) -> AIMessage:
    """Answer with a message whose id names the input."""
    return AIMessage("noted", id=f"{messages[-1].id}-answer")


@contextmanager
def opened(plan: Plan, url: str, shared: InMemorySaver | None = None) -> Generator[Any]:
    """Open what a writer opens, and yield the agent."""
    options: dict[str, Any] = {}
    folder = Path(url.removeprefix("sqlite:///")).parent
    saver: Any = (
        SqliteSaver.from_conn_string(f"{folder}/checkpoints.db")
        if plan.saver == "SqliteSaver"
        else nullcontext(shared)
        if shared
        else SQLAlchemySaver.from_url(url)
    )
    if plan.saver == "SqliteSaver":
        options["database"] = url
    with saver as checkpointer:
        yield create_compacting_agent(
            ScriptedModel(replies=[answer]),
            settings=CompactionSettings(**{"context_window": 128_000, **plan.settings}),
            summarizer=ScriptedModel(replies=[plan.summary]),
            checkpointer=checkpointer,
            **options,
        )


def given(name: str) -> dict[str, Any]:
    """Return the input of this name."""
    return {"messages": [HumanMessage(f"This is the input {name}. {'It says something. ' * 4}", id=name)]}


def write(plan: Plan, graph: Any, names: Iterable[str], acknowledge: Callable[[str], object]) -> None:
    """Give the thread its inputs, one after the other."""
    for name in names:
        try:
            graph.invoke(given(name), CONFIG, durability="sync")
        except plan.expected:
            continue
        acknowledge(name)


async def awrite(
    plan: Plan, graph: Any, names: Sequence[str], acknowledge: Callable[[str], object], chance: random.Random | None
) -> int:
    """Give the thread its inputs; where there is a `chance`, cancel some of the runs. Return how many."""
    canceled = 0
    for name in names:
        wait = chance.uniform(0.005, 0.2) if chance and chance.random() < 0.2 else None
        try:
            await asyncio.wait_for(graph.ainvoke(given(name), CONFIG, durability="sync"), wait)
        except plan.expected as error:
            canceled += isinstance(error, TimeoutError)
            continue
        acknowledge(name)
    return canceled


def in_threads(plan: Plan, graph: Any, names: Sequence[Sequence[str]]) -> tuple[list[str], int]:
    """Let OS threads write, or tasks; return the acknowledged inputs, and how many runs were canceled."""
    done: list[str] = []
    if plan.writers == "tasks":
        chances = [random.Random(f"{plan.name} {n}") if plan.harm == "cancels" else None for n in range(plan.count)]  # noqa: S311

        async def together() -> list[int]:
            writers = (
                awrite(plan, graph, own, done.append, chance) for own, chance in zip(names, chances, strict=True)
            )
            return await asyncio.gather(*writers)

        return done, sum(asyncio.run(together()))
    with ThreadPoolExecutor(plan.count) as pool:
        for written in [pool.submit(write, plan, graph, own, done.append) for own in names]:
            written.result(PATIENCE_S)
    return done, 0


class Process:
    """A writer in a process of its own, which notes each acknowledged input in a file."""

    def __init__(self, plan: Plan, url: str, names: Sequence[str], file: Path) -> None:
        self.plan, self.url, self.names, self.file = plan, url, list(names), file
        self.child: Any = None
        self.start()

    def start(self) -> None:
        """Start, or start again with the inputs after the one that was being given."""
        self.child = CONTEXT.Process(target=self._write)
        self.child.start()

    def acknowledged(self) -> list[str]:
        """Names of the acknowledged inputs."""
        return self.file.read_text().split() if self.file.exists() else []

    def _write(self) -> None:
        logging.disable(logging.CRITICAL)
        out = os.open(self.file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        left = iter(self.names)
        for _ in range(REOPENED):  # building the agent fails, too, while the connection is cut
            with suppress(*self.plan.expected), opened(self.plan, self.url) as graph:
                write(self.plan, graph, left, lambda name: os.write(out, f"{name}\n".encode()))
        assert next(left, None) is None, "the database could not be opened"

    def kill(self) -> bool:
        """Kill the process and start it anew; return false if it had come to its end."""
        self.child.kill()
        self.child.join()
        if self.child.exitcode == 0:
            return False
        last = next(reversed(self.acknowledged()), None)
        place = self.names.index(last) + 1 if last in self.names else 0
        self.names = self.names[place + 1 :]
        self.start()
        return True


def in_processes(
    plan: Plan, url: str, names: Sequence[Sequence[str]], chance: random.Random
) -> tuple[list[str], int]:
    """Let processes write, kill some of them or cut their connections; return what was acknowledged, and the harm."""
    harmed = 0
    with tempfile.TemporaryDirectory() as folder:
        writers = [Process(plan, url, own, Path(folder) / str(n)) for n, own in enumerate(names)]
        server = Server(url) if plan.harm == "cuts" else None
        deadline = time.monotonic() + PATIENCE_S
        while running := [writer for writer in writers if writer.child.is_alive()]:
            assert time.monotonic() < deadline, "the writers do not come to an end"
            if plan.harm == "none" or harmed >= plan.inputs // INPUTS_PER_HARM:
                running[0].child.join(1)
                continue
            time.sleep(chance.uniform(0.05, 0.5))
            if server is None:
                harmed += chance.choice(running).kill()
            elif sessions := server.sessions():
                server.end(chance.choice(sessions))
                harmed += 1
        codes = [writer.child.exitcode for writer in writers]
        assert codes == [0] * plan.count, f"a writer ended with an error: {codes}"
        return [name for writer in writers for name in writer.acknowledged()], harmed


def play(plan: Plan, url: str, seed: object = 0) -> Outcome:
    """Let the writers write, and count; the database has no tables yet."""
    chance, started = random.Random(f"{seed} {plan.name}"), time.perf_counter()  # noqa: S311 - no secret
    each = plan.inputs // plan.count
    names = [[f"{writer}-{n}" for n in range(each)] for writer in range(plan.count)]
    shared = InMemorySaver() if plan.saver == "InMemorySaver" else None
    with opened(plan, url, shared) as graph:
        if hasattr(graph.checkpointer, "setup"):
            graph.checkpointer.setup()
        if plan.writers != "processes":
            done, harmed = in_threads(plan, graph, names)
            found = CompactionThread(graph, CONFIG).transcript(), len(CompactionThread(graph, CONFIG).history())
    if plan.writers == "processes":
        done, harmed = in_processes(plan, url, names, chance)
        with opened(plan, url) as graph:
            found = CompactionThread(graph, CONFIG).transcript(), len(CompactionThread(graph, CONFIG).history())
    lost, unanswered, disordered = defects(done, found[0])
    return Outcome(
        name=plan.name,
        acknowledged=len(done),
        failed=plan.count * each - len(done),
        harmed=harmed,
        compacted=found[1],
        lost=lost,
        unanswered=unanswered,
        disordered=disordered,
        seconds=round(time.perf_counter() - started, 1),
    )


def defects(done: Sequence[str], transcript: Sequence[AnyMessage]) -> tuple[int, int, int]:
    """Return how many acknowledged inputs are missing, not answered at their place, and out of order."""
    places = {str(message.id): place for place, message in enumerate(transcript)}
    there = [name for name in done if name in places]
    answered = sum(places.get(f"{name}-answer") == places[name] + 1 for name in there)
    last: dict[str, int] = Counter()
    disordered = 0
    for name in there:
        writer, _, number = name.partition("-")
        disordered += int(number) > 0 and places[name] < last[writer]
        last[writer] = max(last[writer], places[name])
    return len(done) - len(there), len(there) - answered, disordered


def plans() -> Iterator[Plan]:
    """Every saver with every kind of writer and harm."""
    for database in ("sqlite", "postgresql", "mariadb"):
        harms: tuple[Harm, ...] = ("none", "kills") if database == "sqlite" else ("none", "kills", "cuts")
        yield from (
            Plan(database=database, writers="processes", count=n, harm=harm) for n in (2, 8) for harm in harms
        )
        yield from (
            Plan(database=database, writers="threads", count=4),
            Plan(database=database, writers="tasks", count=8),
            Plan(database=database, writers="tasks", count=8, harm="cancels"),
        )
    yield from (
        Plan(saver="SqliteSaver", database="sqlite", writers="processes", count=n, harm=harm)
        for n in (2, 8)
        for harm in ("none", "kills")
    )
    yield Plan(saver="SqliteSaver", database="sqlite", writers="threads", count=4)
    yield Plan(saver="InMemorySaver", database="memory", writers="threads", count=4)
    yield Plan(saver="InMemorySaver", database="memory", writers="tasks", count=8)
    yield Plan(saver="InMemorySaver", database="memory", writers="tasks", count=8, harm="cancels")


PAIRS = 60
"""Turns of each of the two agents."""


def price(database: str, url: str) -> dict[str, Any]:
    """Measure turns of one thread with and without leases, in turn: the ratio of the medians, wall and CPU time."""
    saver: Any = nullcontext(InMemorySaver()) if database == "memory" else SQLAlchemySaver.from_url(url)
    taken: dict[str, list[tuple[float, float]]] = {"with": [], "without": []}
    with saver as checkpointer:
        if database != "memory":
            checkpointer.setup()
        graphs = {
            name: create_compacting_agent(
                ScriptedModel(replies=[answer]),
                settings=CompactionSettings(context_window=128_000),
                summarizer="digest",
                checkpointer=checkpointer,
            ).with_config(configurable={"turn_wait_s": wait})
            for name, wait in (("with", 60.0), ("without", None))
        }
        for number in range(PAIRS + 5):
            for name in random.sample(sorted(graphs), 2):
                config: RunnableConfig = {"configurable": {"thread_id": name}}
                started = time.perf_counter(), time.process_time()
                graphs[name].invoke(given(f"{name}-{number}"), config, durability="sync")
                if number >= 5:  # the first turns import and connect
                    taken[name].append((time.perf_counter() - started[0], time.process_time() - started[1]))
    wall, cpu = (
        statistics.median(one[n] for one in taken["with"]) / statistics.median(one[n] for one in taken["without"])
        for n in (0, 1)
    )
    milliseconds = round(statistics.median(one[0] for one in taken["with"]) * 1_000, 2)
    return {"name": f"price, {database}", "wall": round(wall, 3), "cpu": round(cpu, 3), "ms_with": milliseconds}


@contextmanager
def place_of(database: str) -> Generator[str | None]:
    """Make a database for the duration of the block; None where there is no server."""
    with database_of("sqlite" if database == "memory" else database) as url:
        yield url


def keep(row: Mapping[str, Any]) -> None:
    """Write a row into the file of results, in place of the one of this name."""
    rows = {one["name"]: one for one in (json.loads(RESULTS.read_text()) if RESULTS.exists() else [])}
    rows[row["name"]] = dict(row)
    RESULTS.write_text(json.dumps(list(rows.values()), indent=1) + "\n", encoding="utf-8")


def prices(*, without_servers: bool) -> bool:
    """Measure, print and keep what taking turns costs; return whether a database was left out."""
    skipped: list[str] = []
    for database in ("memory", "sqlite", "postgresql", "mariadb"):
        with place_of(database) as url:
            if url is None:
                skipped.append(database)
                continue
            keep(row := price(database, url))
            print(f"{row['name']}: a turn takes {row['wall']} of the wall time, {row['cpu']} of the CPU time")
    if skipped and not without_servers:
        print(absent(skipped))
    return bool(skipped and not without_servers)


def main() -> None:
    """Play the plans, print and keep the rows; end with 1 if an acknowledged input is lost, or a plan is left out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=10_000, help="inputs in sum, of all plans")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="words that the name of a plan has to hold, divided by commas")
    parser.add_argument("--price", action="store_true")
    parser.add_argument("--without-servers", action="store_true", help="do not fail where a server is absent")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if options.price:
        sys.exit(prices(without_servers=options.without_servers))
    every = list(plans())
    each = -(-options.inputs // len(every) // 8) * 8
    wanted = options.only.split(",")
    chosen = [replace(plan, inputs=each) for plan in every if all(word in plan.name for word in wanted)]
    bad, skipped = 0, list[str]()
    print("| plan | acknowledged | failed | harm | lost | unanswered | out of order | s |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for plan in chosen:
        with place_of(plan.database) as url:
            if url is None:
                skipped.append(plan.name)
                continue
            row = play(plan, url, options.seed)
        keep(asdict(row))
        print(
            f"| {row.name} | {row.acknowledged} | {row.failed} | {row.harmed} | {row.lost} | {row.unanswered} "
            f"| {row.disordered} | {row.seconds} |",
            flush=True,
        )
        bad += row.lost + row.unanswered + row.disordered
    if skipped and not options.without_servers:
        print(f"{absent(skipped)}. --without-servers leaves them out")
    sys.exit(bad > 0 or bool(skipped and not options.without_servers))


def absent(plans: Sequence[str]) -> str:
    """Return which plans were not played because their server is absent."""
    return (
        f"not played, because TEST_POSTGRES_URL or TEST_MARIADB_URL names no server: {len(plans)} plans "
        f"({', '.join(plans)})"
    )


if __name__ == "__main__":
    main()
