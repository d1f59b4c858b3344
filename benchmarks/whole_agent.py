"""A whole agent over many turns on SQLite, compactions included: ours with the digest, LangChain's with its own.

    python benchmarks/whole_agent.py [turns [rounds]]

The other agent is `create_agent` with SummarizationMiddleware and AsyncSqliteSaver. Each runs in a process of its
own, in turn. Prints turns per second of CPU and of wall time, the resident memory at a quarter, half and all of the
turns, how many messages the model sees in the end, and the database's size. The other agent's summarizer answers at
once with a short summary, so that no model's time is in the figures. Writes benchmarks/results/whole_agent.json.
"""

import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from turn_cost import Instant

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver
from langgraph_compaction.graph import CompactionSettings, create_compacting_agent, view

KINDS = ("compacting", "summarization")
WINDOW, TRIGGER, KEPT = 20_000, 14_000, 7_000
"""Tokens of our agent's window, and those at which and to which the other one compacts."""
WORDS = (
    "order",
    "table",
    "ship",
    "window",
    "price",
    "client",
    "answer",
    "report",
    "ticket",
    "green",
    "river",
    "stone",
)
SUMMARY = "# Goal\nReports of orders.\n# Next\nGo on with the orders."
RESULTS = Path(__file__).parent / "results" / "whole_agent.json"


def text(seed: int) -> str:
    """Return a text of about 600 characters with identifiers, another one for each seed."""
    draw = random.Random(seed)  # noqa: S311 - not a secret
    return " ".join(draw.choice(WORDS) if draw.random() < 0.9 else f"AB-{draw.randrange(10**6)}" for _ in range(100))


class Reporter(Instant):
    """Answers at once with a report; a request for a summary gets a short one."""

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        """Return the answer to a request."""
        size = sum(len(message.text) for message in messages)
        said = SUMMARY if len(messages) == 1 and size > 10_000 else text(size)
        usage = {"input_tokens": size // 4, "output_tokens": 150, "total_tokens": size // 4 + 150}
        return AIMessage(said, usage_metadata=usage)


def resident_mb() -> float:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return round(pages * 4096 / 1e6, 1)


async def play(kind: str, turns: int, folder: Path) -> dict[str, Any]:
    """Run an agent for so many turns on one thread."""
    path = folder / "bench.db"
    if kind == "compacting":
        saver = AsyncSQLAlchemySaver(f"sqlite:///{path}")
        await saver.setup()
        settings = CompactionSettings(context_window=WINDOW)
        agent: Any = create_compacting_agent(Reporter(), settings=settings, summarizer="digest", checkpointer=saver)
        return await turns_of(agent, turns)
    async with AsyncSqliteSaver.from_conn_string(str(path)) as theirs:
        summarizing = SummarizationMiddleware(
            model=Reporter(), trigger=("tokens", TRIGGER), keep=("tokens", KEPT), trim_tokens_to_summarize=None
        )
        return await turns_of(create_agent(Reporter(), middleware=[summarizing], checkpointer=theirs), turns)


async def turns_of(agent: Any, turns: int) -> dict[str, Any]:
    """Run the turns and measure them; the first ten, which set everything up, are not timed."""
    config: Any = {"configurable": {"thread_id": "bench"}}
    memory: dict[str, float] = {}
    wall = cpu = 0.0
    messages = 0
    for turn in range(1, turns + 1):
        if turn == 11:
            wall, cpu = time.perf_counter(), time.process_time()
        state = await agent.ainvoke({"messages": [HumanMessage(text(-turn))]}, config, durability="sync")
        messages = len(view(state) if "compaction" in state else state["messages"])
        if turn in (turns // 4, turns // 2, turns):
            memory[f"mb_at_{turn}"] = resident_mb()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    timed = turns - 10
    return {
        "per_cpu_s": round(timed / cpu, 1),
        "per_wall_s": round(timed / wall, 1),
        **memory,
        "messages": messages,
    }


def measured(kind: str, turns: int) -> dict[str, Any]:
    """Run an agent in a process of its own."""
    command = [sys.executable, __file__, str(turns), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - this file
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(turns: int, number: int) -> None:
    """Measure, print, write."""
    rounds: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for _ in range(number):
        for kind in KINDS:
            rounds[kind].append(measured(kind, turns))
            print(kind, rounds[kind][-1], flush=True)
    found: dict[str, Any] = {"turns": turns, "rounds": number}
    for kind, rows in rounds.items():
        found[kind] = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    ours, theirs = (rounds[kind] for kind in KINDS)
    for name in ("per_cpu_s", "per_wall_s"):
        ratios = [one[name] / other[name] for one, other in zip(ours, theirs, strict=True)]
        found[f"{name}_ratio"] = {
            "median": round(statistics.median(ratios), 2),
            "least": round(min(ratios), 2),
            "most": round(max(ratios), 2),
        }
    print(json.dumps(found, indent=1))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    given = sys.argv[1:]
    asked = int(given[0]) if given else 1_000
    if len(given) > 1 and given[1] in KINDS:
        with tempfile.TemporaryDirectory() as made:
            played = asyncio.run(play(given[1], asked, Path(made)))
            size = sum(path.stat().st_size for path in Path(made).iterdir())
            print(json.dumps({**played, "database_mb": round(size / 1e6, 1)}))
    else:
        main(asked, int(given[1]) if len(given) > 1 else 5)
