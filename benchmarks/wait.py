"""How long the turns wait that compact: with summaries prepared ahead, without, and with other systems.

    python -m benchmarks.wait [--compactions 30] [--summary 5.0] [--typing 10.0] [--only NAME ...]

A scripted summarizer takes its seconds, a person takes time to type, and the model answers at once. The window has
128,000 tokens, and each input about 6,500. What a turn waits beyond the median of the plain turns is given as a share
of the summarizer's time: the median, the 99th percentile (of fewer than 100 turns: the longest), and the part that is
CPU time of the process. A turn that waited for a summary and did not compact is counted as well. The person's pause
ends as soon as nothing works in the background, because nothing would happen in the rest of it. In the LangGraph
server, whose CPU time is not measured, the person pauses after a turn that began a preparation.

Writes `benchmarks/results/wait.json`; with `--only`, the other rows stay as they were. PostgreSQL is taken along
where `TEST_POSTGRES_URL` is set.
"""

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from deepagents.middleware.summarization import create_summarization_middleware
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from langgraph.prebuilt.chat_agent_executor import AgentState
from langgraph_sdk import get_sync_client
from langmem.short_term import RunningSummary, SummarizationNode
from pydantic import Field

from langgraph_compaction.checkpoint import Database, SQLAlchemySaver
from langgraph_compaction.graph import create_compacting_agent
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes import CompactionSettings
from tests.server.dev_server import Server

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "wait.json"
WINDOW, TRIGGER = 128_000, 0.8
AIM, FLOOR = {"p50": 0.01, "p99": 0.05}, {"p50": 0.05, "p99": 0.2}
"""Largest added wait that ours aims at, and that it must not exceed, as shares of the summarizer's time."""
SUMMARY = """<summary>
## Goal
The user keeps a log of the sea and has each entry noted.
## Progress
Long entries about watches at sea were sent, and each was noted.
## State
All entries that were sent are noted.
## Next
Note the entries that follow.
</summary>"""


class Scripted(BaseChatModel):
    """A model that answers at once, or a summarizer that takes its time."""

    seconds: float = 0.0
    calls: list[float] = Field(default_factory=list[float])
    profile: Any = Field(default_factory=lambda: {"max_input_tokens": WINDOW})

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """Take no tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.calls.append(time.perf_counter())
        time.sleep(self.seconds)
        text = SUMMARY if self.seconds else f"Noted: {messages[-1].text[:20]}."
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def ours(summarizer: Scripted, checkpointer: Any = None, **settings: Any) -> Any:
    """Our agent."""
    chosen = CompactionSettings(context_window=WINDOW, trigger_ratio=TRIGGER, **settings)
    saver = checkpointer or InMemorySaver()
    return create_compacting_agent(Scripted(), settings=chosen, summarizer=summarizer, checkpointer=saver)


async def waiting() -> Any:
    """Our agent, as the LangGraph server builds it."""
    summarizer = Scripted(seconds=float(os.environ["WAIT_SUMMARY_S"]))
    chosen = CompactionSettings(context_window=WINDOW, trigger_ratio=TRIGGER)
    database = Database.open(os.environ["LANGGRAPH_COMPACTION_DATABASE_URL"])
    return create_compacting_agent(Scripted(), settings=chosen, summarizer=summarizer, database=database)


def our_middleware(summarizer: Scripted) -> Any:
    """LangChain's agent with our middleware."""
    chosen = CompactionSettings(context_window=WINDOW, trigger_ratio=TRIGGER)
    middleware = CompactionMiddleware(settings=chosen, summarizer=summarizer)
    return create_agent(Scripted(), middleware=[middleware], checkpointer=InMemorySaver())


def langchain(summarizer: Scripted) -> Any:
    """LangChain's agent with LangChain's middleware.

    By default it shows the summarizer at most 4,000 tokens, and asks nothing where each message is longer.
    """
    limit = int(WINDOW * TRIGGER)
    middleware = SummarizationMiddleware(summarizer, trigger=("tokens", limit), trim_tokens_to_summarize=None)
    return create_agent(Scripted(), middleware=[middleware], checkpointer=InMemorySaver())


def deepagents(summarizer: Scripted) -> Any:
    """The agent of deepagents, which compacts at 85 % of the window that the model's profile tells."""
    middleware: Any = create_summarization_middleware(Scripted(), StateBackend(), summarizer=summarizer)
    return create_deep_agent(Scripted(), middleware=[middleware], checkpointer=InMemorySaver())


class RunningState(AgentState):
    """The agent's state, as in langmem's guide."""

    context: dict[str, RunningSummary]


def langmem(summarizer: Scripted) -> Any:
    """The agent of langmem's guide, with a node before the model."""
    node = SummarizationNode(
        model=summarizer,
        max_tokens=int(WINDOW * TRIGGER),
        max_summary_tokens=int(0.05 * WINDOW),
        token_counter=count_tokens_approximately,
        output_messages_key="llm_input_messages",
    )
    return create_react_agent(
        Scripted(), [], pre_model_hook=node, state_schema=RunningState, checkpointer=InMemorySaver()
    )


@dataclass
class Turns:
    """What the turns of one kind took, in seconds."""

    waits: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])

    def add(self, took: float, cpu: float) -> None:
        """Add a turn."""
        self.waits.append(took)
        self.cpu.append(cpu)


def pause(most: float) -> None:
    """Let a person type, for as long as anything works in the background."""
    until = time.perf_counter() + most
    for worker in [one for one in threading.enumerate() if one.name == "compaction-ahead"]:
        worker.join(max(0.0, until - time.perf_counter()))


class Served:
    """Our agent in the LangGraph server, with a thread of its own, streamed as the other systems are."""

    def __init__(self, server: Server) -> None:
        self._client = get_sync_client(url=server.address)
        self._thread = self._client.threads.create()["thread_id"]
        self._prepares = False

    def stream(self, given: dict[str, Any], _config: Any, stream_mode: Literal["custom"]) -> Iterator[Any]:
        """Run a turn in the server."""
        said = {"messages": [{"role": "user", "content": message.text} for message in given["messages"]]}
        self._prepares = False
        for chunk in self._client.runs.stream(self._thread, "waiting", input=said, stream_mode=stream_mode):
            if chunk.event == "error":
                raise RuntimeError(chunk.data)
            if chunk.event == "custom":
                self._prepares |= chunk.data.get("state") == "preparing"
                yield chunk.data

    def pause(self, most: float) -> None:
        """Let a person type, where a preparation was begun."""
        if self._prepares:
            time.sleep(most)


def measured(graph: Any, summarizer: Scripted, wanted: int, typing: float, thread: str) -> dict[str, Any]:
    """Play turns until `wanted` of them have compacted; return what those waited beyond the others."""
    rest = getattr(graph, "pause", pause)
    config: Any = {"configurable": {"thread_id": thread}}
    plain, compacting, states, number = Turns(), Turns(), Counter[str](), 0
    while len(compacting.waits) < wanted:
        number += 1
        text = f"Entry {number}. " + f"The sea was calm on watch {number}. " * 750
        calls, cpu, began = len(summarizer.calls), time.process_time(), time.perf_counter()
        told = list(graph.stream({"messages": [HumanMessage(text)]}, config, stream_mode="custom"))
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        events = [event for event in told if isinstance(event, dict)]
        found = Counter(one["state"] for one in events if one["event"] == "PreparationEvent")
        states.update(found)
        committed = any(one["event"] == "CompactContextEvent" for one in events)
        asked = len(summarizer.calls) > calls and not found["preparing"] and not found["waiting"]
        (compacting if committed or asked or found["joined"] else plain).add(took, cpu)
        rest(typing)
    usual, usual_cpu = statistics.median(plain.waits), statistics.median(plain.cpu)
    added = sorted(max(0.0, took - usual) for took in compacting.waits)
    return {
        "turns": number,
        "compactions": len(added),
        "plain_ms": round(1_000 * usual, 1),
        "added_s": [round(one, 3) for one in added],
        "added_cpu_s": None if isinstance(graph, Served) else round(statistics.median(compacting.cpu) - usual_cpu, 3),
        "summarizer_calls": len(summarizer.calls) or states["preparing"],
        "preparations": dict(states),
    }


def share(values: Sequence[float], part: float, seconds: float) -> float:
    """Return a percentile of sorted values, as a share of the summarizer's time."""
    return values[min(len(values) - 1, int(part * len(values)))] / seconds


def main() -> None:
    """Measure, print a table, and write the results."""
    options = argparse.ArgumentParser()
    options.add_argument("--compactions", type=int, default=30)
    options.add_argument("--summary", type=float, default=5.0)
    options.add_argument("--typing", type=float, default=10.0)
    options.add_argument("--only", nargs="*", default=[])
    given = options.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())

        def stored(url: str) -> Callable[[Scripted], Any]:
            def build(summarizer: Scripted) -> Any:
                saver = stack.enter_context(SQLAlchemySaver.from_url(url))
                return ours(summarizer, saver)

            return build

        def served(summarizer: Scripted) -> Served:
            place = Path(folder, "served")
            place.mkdir()
            environment = {"PYTHONPATH": str(ROOT), "WAIT_SUMMARY_S": str(summarizer.seconds)}
            server = Server(place, environment=environment, graphs={"waiting": str(Path(__file__)) + ":waiting"})
            return Served(stack.enter_context(server.running()))

        systems: dict[str, Callable[[Scripted], Any]] = {
            "ours, `selective`": ours,
            "ours, `faithful`": lambda summarizer: ours(summarizer, preset="faithful"),
            "ours, middleware": our_middleware,
            "ours, SQLite": stored(f"sqlite:///{folder}/wait.sqlite"),
            **({"ours, PostgreSQL": stored(url)} if (url := os.environ.get("TEST_POSTGRES_URL")) else {}),
            "ours, LangGraph server": served,
            "ours, `summary_ahead=False`": lambda summarizer: ours(summarizer, summary_ahead=False),
            "LangChain's `SummarizationMiddleware`": langchain,
            "deepagents": deepagents,
            "langmem": langmem,
        }
        results: dict[str, Any] = {"summary_s": given.summary, "typing_s": given.typing, "aim": AIM, "floor": FLOOR}
        print("| | added wait, p50 | p99 | of it CPU, p50 | calls for a compaction |\n|---|--:|--:|--:|--:|")
        for name, build in systems.items():
            if given.only and not any(word in name for word in given.only):
                continue
            summarizer = Scripted(seconds=given.summary)
            thread = f"wait-{os.getpid()}"
            found = measured(build(summarizer), summarizer, given.compactions, given.typing, thread)
            results[name] = found
            middle, last = (share(found["added_s"], part, given.summary) for part in (0.5, 0.99))
            calls = found["summarizer_calls"] / found["compactions"]
            cpu = "" if found["added_cpu_s"] is None else f"{found['added_cpu_s'] / given.summary:.1%}"
            print(f"| {name} | {middle:.1%} | {last:.1%} | {cpu} | {calls:.2f} |", flush=True)
        if given.only:  # the other rows stay as they were
            results = json.loads(RESULTS.read_text(encoding="utf-8")) | results
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
