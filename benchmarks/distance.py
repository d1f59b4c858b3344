"""Turns a second with PostgreSQL at a distance: this package's saver beside LangGraph's, many conversations at once.

    python benchmarks/distance.py [--rounds 5] [--seconds 1]

A proxy delays what client and server send to each other, half of the round trip each way, and counts how often a
client sends something. In each round every saver in turn carries on its conversations for so many seconds, in one
asyncio process, with `durability="sync"` and at most 20 connections. The graph has one node that answers at once, so
that a turn is LangGraph's own work and the saver's. Server: TEST_POSTGRES_URL. Writes
benchmarks/results/distance.json.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import START, MessagesState, StateGraph
from psycopg_pool import AsyncConnectionPool

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver
from langgraph_compaction.checkpoint.db.urls import sync_url

ROUND_TRIPS_MS = (0, 1, 5, 20)
CONVERSATIONS = (1, 8, 64)
CONNECTIONS = 20
SETTLE_S = 0.1
WARM_UP_S = 1.0
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


SAVERS: dict[str, Callable[[sa.URL], AbstractAsyncContextManager[Any]]] = {
    "ours": ours,
    "AsyncPostgresSaver": theirs,
}


def graph_with(saver: Any) -> Any:
    """Return a graph with one node that answers at once."""

    async def answer(state: MessagesState) -> dict[str, Any]:  # noqa: ARG001 - LangGraph's signature
        return {"messages": AIMessage("Noted. " * 40)}

    return StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile(checkpointer=saver)


async def carry_on(graph: Any, config: RunnableConfig, until: float, turns: list[float]) -> None:
    """Give a conversation turn after turn until the time has come, and note how long each took, in seconds."""
    while (begun := time.perf_counter()) < until:
        await graph.ainvoke({"messages": HumanMessage("How is it? " * 40)}, config, durability="sync")
        turns.append(time.perf_counter() - begun)


async def measure(proxy: Proxy, conversations: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Return the figures of each saver, medians over the rounds."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in SAVERS}
    async with AsyncExitStack() as stack:
        savers = {name: await stack.enter_async_context(opened(proxy.url)) for name, opened in SAVERS.items()}
        # opens the connections and compiles statements
        await asyncio.gather(*(one_round(proxy, saver, conversations, WARM_UP_S) for saver in savers.values()))
        for _ in range(rounds):
            for name, saver in savers.items():
                found[name].append(await one_round(proxy, saver, conversations, seconds))
    return {name: _medians(figures) for name, figures in found.items()}


async def one_round(proxy: Proxy, saver: Any, conversations: int, seconds: float) -> dict[str, float]:
    """Carry on new conversations for so many seconds."""
    graph = graph_with(saver)
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
        "turns_per_s": len(turns) / taken,
        "p99_ms": sorted(turns)[int(0.99 * len(turns))] * 1e3,
        "cpu_ms_per_turn": cpu / len(turns) * 1e3,
        "sends_per_turn": sends / len(turns),
        "sends_per_get_state": proxy.sends - before,
    }


def _medians(figures: list[dict[str, float]]) -> dict[str, Any]:
    medians = {name: round(statistics.median(one[name] for one in figures), 2) for name in figures[0]}
    rates = [one["turns_per_s"] for one in figures]
    return {**medians, "turns_per_s_spread": [round(min(rates), 2), round(max(rates), 2)]}


def main() -> None:
    """Measure, print a table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    chosen = parser.parse_args()
    server = sync_url(os.environ["TEST_POSTGRES_URL"])
    name = f"distance_{uuid4().hex[:12]}"
    admin = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    rows: list[dict[str, Any]] = []
    with admin.connect() as conn:
        conn.execute(sa.DDL(f"CREATE DATABASE {name}"))
        try:
            for round_trip_ms in ROUND_TRIPS_MS:
                proxy = Proxy(server.set(database=name), round_trip_ms)
                for conversations in CONVERSATIONS:
                    figures = asyncio.run(measure(proxy, conversations, chosen.rounds, chosen.seconds))
                    ratio = figures["ours"]["turns_per_s"] / figures["AsyncPostgresSaver"]["turns_per_s"]
                    row = {"round_trip_ms": round_trip_ms, "conversations": conversations, "ratio": round(ratio, 2)}
                    rows.append({**row, **figures})
                    print(json.dumps(rows[-1]), flush=True)
                proxy.stop()
        finally:
            conn.execute(sa.DDL(f"DROP DATABASE {name} WITH (FORCE)"))
    result = {"rounds": chosen.rounds, "seconds": chosen.seconds, "connections": CONNECTIONS, "rows": rows}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
