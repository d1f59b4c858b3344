"""How long a turn that compacts a large conversation keeps the event loop from a second conversation.

    python benchmarks/stall.py

A second task wakes every millisecond while a turn runs. The most CPU time that the process spends between two of its
wakings is the stall: on an idle machine, the delay of the second conversation. Each case runs in a process of its
own, with the compacting agent and with a graph that only calls the model (the control): LangGraph itself copies and
stores the messages on the loop. What is imported and the messages are left out of garbage collections (`gc.freeze`),
whose pause would otherwise be most of both figures. Of several rounds the shortest stall of each counts. The
compaction may add at most `MOST_MS`. Writes benchmarks/results/stall.json, and exits with 1 if a compaction adds
more. The recording with the most text is found by COMPACTION_DATA (default: ../shared/data).
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.graph import CompactionSettings, compaction_count, create_compacting_agent
from langgraph_compaction.graph.lab.recordings.reader import read_recordings
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter, total
from langgraph_compaction.nodes.testing import ScriptedModel

MOST_MS, ROUNDS = 50, 2
RESULTS = Path(__file__).parent / "results" / "stall.json"
DATA = Path(os.environ.get("COMPACTION_DATA", Path(__file__).parents[2] / "shared" / "data"))
CONFIG: Any = {"configurable": {"thread_id": "large"}}


def recorded() -> list[AnyMessage]:
    """Return the recorded conversation with the most characters."""
    files = [path for path in DATA.rglob("*") if path.suffix in (".json", ".jsonl", ".traj")]
    every = [one for path in files for one in read_recordings(path)]
    found = max(every, key=lambda one: sum(len(str(message.content)) for message in one.messages))
    return [message for message in found.messages if message.type != "system"]


def many() -> list[AnyMessage]:
    """Return 50,000 short messages."""
    return [
        message
        for n in range(25_000)
        for message in (HumanMessage(f"Question {n} about AB-{n:05d}: never use {n}?"), AIMessage(f"Answer {n}."))
    ]


def calls() -> list[AnyMessage]:
    """Return 10,000 calls of tools with their results."""
    found: list[AnyMessage] = [HumanMessage("Read all of it.")]
    for n in range(10_000):
        found.append(AIMessage("", tool_calls=[{"name": "read", "args": {"path": f"/x/{n}.py"}, "id": f"c{n}"}]))
        found.append(ToolMessage(f"def f{n}(): return AB-{n:05d}\n" * 4, tool_call_id=f"c{n}"))
    return [*found, AIMessage("Done.")]


def one_text() -> list[AnyMessage]:
    """Return a conversation with one message of four million characters."""
    said = [m for n in range(30) for m in (HumanMessage(f"question {n}"), AIMessage(f"answer {n}"))]
    return [HumanMessage("The order AB-1234 costs 12 EUR, never more. " * 90_000), AIMessage("Read."), *said]


CASES: Mapping[str, Callable[[], list[AnyMessage]]] = {
    "worst recording": recorded,
    "50,000 messages": many,
    "10,000 calls": calls,
    "4 MB in one message": one_text,
}


def control(_: list[AnyMessage]) -> Any:
    """Return a graph that only calls the model."""
    model = ScriptedModel(replies=["Done."])

    async def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("model", call).add_edge(START, "model")
    return graph.compile(checkpointer=InMemorySaver())


def compacting(messages: list[AnyMessage]) -> Any:
    """Return an agent whose window holds three quarters of the messages."""
    window = total(tiktoken_counter(None), messages) * 3 // 4
    return create_compacting_agent(
        ScriptedModel(replies=["Done."]),
        settings=CompactionSettings(context_window=window),
        summarizer="digest",
        checkpointer=InMemorySaver(),
    )


SYSTEMS: Mapping[str, Callable[[list[AnyMessage]], Any]] = {"control": control, "compacting": compacting}


async def stall(case: str, system: str) -> tuple[float, bool]:
    """Return the stall in milliseconds of CPU time, and whether the turn compacted."""
    messages = CASES[case]()
    graph = SYSTEMS[system](messages)
    await graph.ainvoke({"messages": "Hello."}, {"configurable": {"thread_id": "first"}})
    gc.collect()
    gc.freeze()
    longest, running = 0.0, True

    async def second() -> None:
        nonlocal longest
        before = time.process_time()
        while running:
            await asyncio.sleep(0.001)
            now = time.process_time()
            longest, before = max(longest, now - before), now

    task = asyncio.create_task(second())
    await asyncio.sleep(0.01)
    state = await graph.ainvoke({"messages": [*messages, HumanMessage("And now?")]}, CONFIG)
    running = False
    await task
    return longest * 1_000, compaction_count(state) > 0


def measured(case: str, system: str) -> tuple[float, bool]:
    """Return the result of `stall` in a process of its own."""
    # what runs is this file with names of its own tables
    done = subprocess.run(  # noqa: S603 - see above
        [sys.executable, __file__, case, system], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return found[0], found[1]


def main() -> int:
    """Measure every case in turn with both systems; return the exit code."""
    rows = []
    for case in CASES:
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            for system in SYSTEMS:
                ms, compacted = measured(case, system)
                assert compacted == (system == "compacting"), (case, system)
                best[system] = min(best.get(system, ms), ms)
        more = best["compacting"] - best["control"]
        rows.append({"case": case, **{f"{name} ms": round(ms) for name, ms in best.items()}, "more ms": round(more)})
        print(f"{case:22} control {best['control']:6.0f} ms, compacting {best['compacting']:6.0f} ms", flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["more ms"] > MOST_MS for row in rows))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(asyncio.run(stall(sys.argv[1], sys.argv[2]))))
    else:
        sys.exit(main())
