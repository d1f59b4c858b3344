"""A turn with PostgreSQL at a distance: this package beside LangGraph's saver, many conversations at once.

    python benchmarks/distance.py [--rounds 5] [--seconds 1]

A proxy delays what client and server send to each other, half of the round trip each way, and counts how often a
client sends something. In each round every saver in turn carries on its conversations for so many seconds, in one
asyncio process, with `durability="sync"` and at most 20 connections. The graph has one node that answers at once, so
that a turn is LangGraph's own work and the saver's. Further rows compare this package's agent with LangChain's, four
processes, and the CPU of 1,000 conversations with that of 8. CPU comes first, as it depends least on other work of
the machine. Server: TEST_POSTGRES_URL. Writes benchmarks/results/distance.json.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import sqlalchemy as sa
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import START, MessagesState, StateGraph
from psycopg_pool import AsyncConnectionPool
from turn_cost import FAR, Instant
from workload import DeltaState

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver
from langgraph_compaction.checkpoint.db.urls import sync_url
from langgraph_compaction.graph import CompactionSettings, create_compacting_agent

CASES = (
    *((round_trip_ms, conversations) for round_trip_ms in (0, 1, 5, 20) for conversations in (1, 8, 64)),
    *((round_trip_ms, 256) for round_trip_ms in (0, 1, 5)),
)
"""Round trips in milliseconds, and numbers of conversations."""
AGENT_CASES = tuple((round_trip_ms, conversations) for round_trip_ms in (0, 5, 20) for conversations in (1, 8))
PROCESSES, EACH = 4, 8
MANY, FEW = 1_000, 8
"""Numbers of conversations whose CPU a turn is compared."""
COUNTED_TURNS = 250
CROWD = 100
"""From so many conversations on, at most `CROWD_ROUNDS` rounds: one turn of each takes LangGraph's saver long."""
CROWD_ROUNDS = 3
CONNECTIONS = 20
SETTLE_S = 0.1
WARM_UP_S = 1.0
REPLY = "Noted. " * 40
RESULTS = Path(__file__).parent / "results" / "distance.json"


class Proxy:
    """A proxy in a process of its own; `sends` is how often clients sent something."""

    def __init__(self, server: sa.URL, round_trip_ms: float) -> None:
        self._sends: Synchronized[int] = multiprocessing.Value("q", 0)
        ours, theirs = multiprocessing.Pipe()
        target = (server.host or "127.0.0.1", server.port or 5432)
        arguments = (*target, round_trip_ms / 2_000, self._sends, theirs)
        self._process = multiprocessing.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        self.url = server.set(host="127.0.0.1", port=ours.recv(), drivername="postgresql")

    @property
    def sends(self) -> int:
        """How often clients sent something."""
        return int(self._sends.value)

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()


def _serve(host: str, port: int, delay_s: float, sends: "Synchronized[int]", started: Connection) -> None:
    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counted: int) -> None:
        loop = asyncio.get_running_loop()
        while data := await reader.read(2**20):
            with sends.get_lock():
                sends.value += counted
            loop.call_later(delay_s, writer.write, data)
        loop.call_later(delay_s + SETTLE_S, writer.close)

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(host, port)
        await asyncio.gather(pump(reader, to_server, 1), pump(from_server, writer, 0), return_exceptions=True)

    async def serve() -> None:
        server = await asyncio.start_server(client, "127.0.0.1", 0)
        started.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


@asynccontextmanager
async def ours(url: sa.URL) -> AsyncGenerator[Any]:
    """Open this package's saver on an engine with so many connections."""
    own = sync_url(url.render_as_string(hide_password=False))
    engine = sa.create_engine(own, pool_size=CONNECTIONS, max_overflow=0)
    saver = AsyncSQLAlchemySaver(engine)
    await saver.setup()
    try:
        yield saver
    finally:
        await saver.database.workers.run(engine.dispose)


@asynccontextmanager
async def theirs(url: sa.URL) -> AsyncGenerator[Any]:
    """Open LangGraph's saver on a pool, as its documentation advises."""
    options = {"autocommit": True, "prepare_threshold": 0}
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        url.render_as_string(hide_password=False), min_size=2, max_size=CONNECTIONS, kwargs=options, open=False
    )
    async with pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        yield saver


def graph_with(saver: Any, schema: Any = MessagesState) -> Any:
    """Return a graph with one node that answers at once."""

    async def answer(state: Any) -> dict[str, Any]:  # noqa: ARG001 - LangGraph's signature
        return {"messages": AIMessage(REPLY)}

    return StateGraph(schema).add_node("answer", answer).add_edge(START, "answer").compile(checkpointer=saver)


def our_agent(saver: Any) -> Any:
    """Return this package's agent as it is by default, but with leases in the same database."""
    return create_compacting_agent(Instant(), settings=CompactionSettings(context_window=FAR), checkpointer=saver)


def their_agent(saver: Any) -> Any:
    """Return LangChain's agent with its summarization, which is never due."""
    middleware = [SummarizationMiddleware(model=Instant(), trigger=("tokens", FAR))]
    return create_agent(Instant(), middleware=middleware, checkpointer=saver)


class System(NamedTuple):
    """A saver, and a graph to use it with."""

    opened: Callable[[sa.URL], AbstractAsyncContextManager[Any]]
    graph: Callable[[Any], Any]


OURS, THEIRS = "ours", "AsyncPostgresSaver"
SAVERS = {
    OURS: System(ours, graph_with),
    THEIRS: System(theirs, graph_with),
    f"{THEIRS}, DeltaChannel(50)": System(theirs, partial(graph_with, schema=DeltaState)),
}
AGENTS = {
    OURS: System(ours, our_agent),
    "create_agent": System(theirs, their_agent),
}


async def carry_on(graph: Any, config: RunnableConfig, until: float, turns: list[float], *, least: int = 0) -> None:
    """Give a conversation turn after turn until the time has come, and note how long each took, in seconds.

    It has at least `least` turns.
    """
    while (begun := time.perf_counter()) < until or (least := least - 1) >= 0:
        await graph.ainvoke({"messages": HumanMessage("How is it? " * 40)}, config, durability="sync")
        turns.append(time.perf_counter() - begun)


async def measure(
    proxy: Proxy, systems: Mapping[str, System], conversations: int, rounds: int, seconds: float
) -> dict[str, Any]:
    """Return the figures of each system, medians over the rounds."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
    async with AsyncExitStack() as stack:
        graphs = {
            name: system.graph(await stack.enter_async_context(system.opened(proxy.url)))
            for name, system in systems.items()
        }
        # opens the connections and compiles statements
        first = min(conversations, CONNECTIONS)
        await asyncio.gather(*(one_round(proxy, graph, first, WARM_UP_S) for graph in graphs.values()))
        for _ in range(rounds):
            for name, graph in graphs.items():
                found[name].append(await one_round(proxy, graph, conversations, seconds))
    return {name: _medians(figures) for name, figures in found.items()}


async def one_round(proxy: Proxy, graph: Any, conversations: int, seconds: float) -> dict[str, float]:
    """Carry on new conversations for so many seconds, and at least for a turn of each."""
    configs: list[RunnableConfig] = [{"configurable": {"thread_id": f"{uuid4()}"}} for _ in range(conversations)]
    turns: list[float] = []
    sends, cpu, begun = proxy.sends, time.process_time(), time.perf_counter()
    await asyncio.gather(*(carry_on(graph, one, begun + seconds, turns) for one in configs))
    taken, cpu = time.perf_counter() - begun, time.process_time() - cpu
    await asyncio.sleep(SETTLE_S)
    sends, before = proxy.sends - sends, proxy.sends
    await graph.aget_state(configs[0])
    await asyncio.sleep(SETTLE_S)
    return {
        "cpu_ms_per_turn": cpu / len(turns) * 1e3,
        "turns_per_s": len(turns) / taken,
        "p99_ms": sorted(turns)[int(0.99 * len(turns))] * 1e3,
        "sends_per_turn": sends / len(turns),
        "sends_per_get_state": proxy.sends - before,
    }


async def in_turn(url: sa.URL, conversations: int) -> float:
    """Return the milliseconds of CPU of a conversation's second turn, after the first turns of so many others."""
    taken, count = 0.0, 0
    async with ours(url) as saver:
        graph = graph_with(saver)
        while count < COUNTED_TURNS:
            configs: list[RunnableConfig] = [
                {"configurable": {"thread_id": f"{uuid4()}"}} for _ in range(conversations)
            ]
            for counted in (False, True):
                cpu = time.process_time()
                for config in configs:
                    await carry_on(graph, config, 0.0, [], least=1)
                taken += (time.process_time() - cpu) * counted
            count += conversations
    return taken / count * 1e3


def one_process(url: sa.URL, name: str, seconds: float, start: Any, answers: Any) -> None:
    """Run conversations as soon as all processes are ready, and send the turns per second to `answers`."""

    async def work() -> float:
        async with SAVERS[name].opened(url) as saver:
            graph = SAVERS[name].graph(saver)
            turns: list[float] = []
            for length in (WARM_UP_S, seconds):
                turns.clear()
                if length == seconds:
                    await asyncio.to_thread(start.wait)
                begun = time.perf_counter()
                configs: list[RunnableConfig] = [{"configurable": {"thread_id": f"{uuid4()}"}} for _ in range(EACH)]
                await asyncio.gather(*(carry_on(graph, one, begun + length, turns) for one in configs))
            return len(turns) / (time.perf_counter() - begun)

    answers.put(asyncio.run(work()))


def in_processes(url: sa.URL, name: str, seconds: float) -> float:
    """Return the turns a second of all processes together."""
    start, answers = multiprocessing.Barrier(PROCESSES), multiprocessing.Queue()
    given = (url, name, seconds, start, answers)
    processes = [multiprocessing.Process(target=one_process, args=given) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    rates: list[float] = [answers.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    return sum(rates)


def _medians(figures: list[dict[str, float]]) -> dict[str, Any]:
    medians = {name: round(statistics.median(one[name] for one in figures), 2) for name in figures[0]}
    spreads = {
        f"{name}_spread": [round(pick(one[name] for one in figures), 2) for pick in (min, max)]
        for name in ("cpu_ms_per_turn", "turns_per_s")
    }
    return {**medians, **spreads}


def row_of(proxy: Proxy, systems: Mapping[str, System], case: tuple[int, int], options: Any) -> dict[str, Any]:
    """Measure one case, and compare each other system with ours."""
    round_trip_ms, conversations = case
    rounds = min(options.rounds, CROWD_ROUNDS) if conversations >= CROWD else options.rounds
    figures = asyncio.run(measure(proxy, systems, conversations, rounds, options.seconds))
    row: dict[str, Any] = {"round_trip_ms": round_trip_ms, "conversations": conversations, "rounds": rounds}
    for ratio, figure in (("cpu_ratio", "cpu_ms_per_turn"), ("ratio", "turns_per_s")):
        row[ratio] = {
            name: round(figures[OURS][figure] / figures[name][figure], 2) for name in systems if name != OURS
        }
    row |= figures
    print(json.dumps(row), flush=True)
    return row


def processes_of(url: sa.URL, options: Any) -> dict[str, Any]:
    """Measure several processes on the loopback interface, interleaved."""
    rates: dict[str, list[float]] = {name: [] for name in SAVERS}
    for _ in range(options.rounds):
        for name, found in rates.items():
            found.append(round(in_processes(url, name, options.seconds), 2))
    row: dict[str, Any] = {"processes": PROCESSES, "conversations_each": EACH}
    row["turns_per_s"] = {name: statistics.median(found) for name, found in rates.items()}
    row["turns_per_s_spread"] = {name: [min(found), max(found)] for name, found in rates.items()}
    print(json.dumps(row), flush=True)
    return row


def crowd_of(url: sa.URL, options: Any) -> dict[str, Any]:
    """Measure the CPU of a turn of many conversations beside that of few, interleaved."""
    found: dict[int, list[float]] = {FEW: [], MANY: []}
    for _ in range(min(options.rounds, CROWD_ROUNDS)):
        for conversations, figures in found.items():
            figures.append(round(asyncio.run(in_turn(url, conversations)), 2))
    medians = {conversations: statistics.median(figures) for conversations, figures in found.items()}
    row = {"cpu_ms_per_turn": medians, "ratio": round(medians[MANY] / medians[FEW], 2), "rounds": found}
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    """Measure, print a table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    chosen = parser.parse_args()
    server = sync_url(os.environ["TEST_POSTGRES_URL"])
    name = f"distance_{uuid4().hex[:12]}"
    url = server.set(database=name, drivername="postgresql")
    admin = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    result: dict[str, Any] = {"rounds": chosen.rounds, "seconds": chosen.seconds, "connections": CONNECTIONS}
    result |= {"rows": [], "agents": []}
    with admin.connect() as conn:
        conn.execute(sa.DDL(f"CREATE DATABASE {name}"))
        try:
            for round_trip_ms in sorted({case[0] for case in (*CASES, *AGENT_CASES)}):
                proxy = Proxy(url, round_trip_ms)
                for table, systems, cases in (("rows", SAVERS, CASES), ("agents", AGENTS, AGENT_CASES)):
                    for case in cases:
                        if case[0] == round_trip_ms:
                            result[table].append(row_of(proxy, systems, case, chosen))
                proxy.stop()
            result |= {"processes": processes_of(url, chosen), "crowd": crowd_of(url, chosen)}
        finally:
            conn.execute(sa.DDL(f"DROP DATABASE {name} WITH (FORCE)"))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
