"""How long lists of checkpoints take on PostgreSQL: this package's saver beside LangGraph's, interleaved.

    python benchmarks/lists.py

One thread has many checkpoints, and many threads have one each; none holds messages, so that a list's own work is
seen. The least of the rounds, in CPU of the client and in elapsed time. Server: TEST_POSTGRES_URL. Writes
benchmarks/results/lists.json.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.db.urls import sync_url

LONG, MANY, ROUNDS = 1_500, 400, 7
"""Checkpoints of the long thread, number of short threads, and rounds."""
ONE: RunnableConfig = {"configurable": {"thread_id": "one", "checkpoint_ns": ""}}
RESULTS = Path(__file__).parent / "results" / "lists.json"
LISTS: Mapping[str, Callable[[Any], int]] = {
    "one thread, a rare item": lambda saver: len(list(saver.list(ONE, filter={"user": "rare"}))),
    "one thread, a frequent item, 10 of them": lambda saver: len(
        list(saver.list(ONE, filter={"user": "usual"}, limit=10))
    ),
    "one thread, the newest 10": lambda saver: len(list(saver.list(ONE, limit=10))),
    "one thread, all": lambda saver: len(list(saver.list(ONE))),
    "all threads, a rare item": lambda saver: len(list(saver.list(None, filter={"user": "rare"}))),
    "all threads, the newest 10": lambda saver: len(list(saver.list(None, limit=10))),
}


@contextmanager
def database() -> Iterator[str]:
    """Create a database on the server for a while."""
    server = sync_url(os.environ["TEST_POSTGRES_URL"])
    engine, name = sa.create_engine(server, isolation_level="AUTOCOMMIT"), f"lists_{uuid4().hex[:12]}"
    with engine.connect() as conn:
        conn.execute(sa.text(f"CREATE DATABASE {name}"))
        yield server.set(database=name, drivername="postgresql").render_as_string(hide_password=False)
        conn.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))


def fill(saver: Any, thread: str, count: int) -> None:
    """Put checkpoints with metadata, the sixth of a long thread with a rare item."""
    config: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    for step in range(count):
        version = saver.get_next_version(None, None)
        made = {
            **empty_checkpoint(),
            "id": str(uuid6()),
            "channel_values": {"x": step},
            "channel_versions": {"x": version},
        }
        about = CheckpointMetadata(source="loop", step=step, parents={}, user="rare" if step == 5 else "usual")
        config = saver.put(config, made, about, {"x": version})


def measure(savers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Measure each list with each saver in turn."""
    rows: list[dict[str, Any]] = []
    for name, work in LISTS.items():
        taken: dict[str, list[tuple[float, float]]] = {one: [] for one in savers}
        for _ in range(ROUNDS):
            for one, saver in savers.items():
                cpu, wall = time.process_time(), time.perf_counter()
                found = work(saver)
                taken[one].append((time.process_time() - cpu, time.perf_counter() - wall))
        row: dict[str, Any] = {"list": name, "found": found}
        for one, times in taken.items():
            row |= {
                f"{one}_{kind}_ms": round(min(each) * 1_000, 2)
                for kind, each in zip(("cpu", "wall"), zip(*times, strict=True), strict=True)
            }
        rows.append(row)
        print(row, flush=True)
    return rows


def main() -> None:
    """Fill, measure, write."""
    with ExitStack() as stack:
        ours = stack.enter_context(SQLAlchemySaver.from_url(stack.enter_context(database())))
        official = stack.enter_context(PostgresSaver.from_conn_string(stack.enter_context(database())))
        savers = {"ours": ours, "PostgresSaver": official}
        for saver in savers.values():
            saver.setup()
            fill(saver, "one", LONG)
            for number in range(MANY):
                fill(saver, f"thread {number}", 1)
        RESULTS.write_text(json.dumps(measure(savers), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
