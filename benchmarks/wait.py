"""How long the turns wait that compact: with summaries prepared ahead, without, and with LangChain's middleware.

    python benchmarks/wait.py [--compactions 30] [--summary 5.0] [--typing 10.0]

A scripted summarizer takes its seconds, a person takes time to type, and the model answers at once. The window has
128,000 tokens, and each input 6,000. What a turn waits beyond the median of the plain turns is printed as a share of
the summarizer's time: the median and the 99th percentile (of few turns: the longest).
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from langgraph_compaction.graph import create_compacting_agent
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes import CompactionSettings

WINDOW, TRIGGER = 128_000, 0.8
CONFIG: Any = {"configurable": {"thread_id": "wait"}}
SUMMARY = "<summary>The user sent long entries of a log, and each was noted; the work goes on.</summary>"


class Scripted(BaseChatModel):
    """A model that answers at once, or a summarizer that takes its time."""

    seconds: float = 0.0
    calls: list[float] = Field(default_factory=list[float])

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


def ours(summarizer: Scripted, **settings: Any) -> Any:
    """Our agent."""
    chosen = CompactionSettings(context_window=WINDOW, trigger_ratio=TRIGGER, **settings)
    return create_compacting_agent(Scripted(), settings=chosen, summarizer=summarizer, checkpointer=InMemorySaver())


def our_middleware(summarizer: Scripted) -> Any:
    """LangChain's agent with our middleware."""
    chosen = CompactionSettings(context_window=WINDOW, trigger_ratio=TRIGGER)
    middleware = CompactionMiddleware(settings=chosen, summarizer=summarizer)
    return create_agent(Scripted(), middleware=[middleware], checkpointer=InMemorySaver())


def theirs(summarizer: Scripted) -> Any:
    """LangChain's agent with LangChain's middleware."""
    middleware = SummarizationMiddleware(summarizer, trigger=("tokens", int(WINDOW * TRIGGER)), keep=("messages", 20))
    return create_agent(Scripted(), middleware=[middleware], checkpointer=InMemorySaver())


def summaries(graph: Any) -> list[str]:
    """Return the ids of the summaries in the conversation, which change at each compaction."""
    messages = graph.get_state(CONFIG).values.get("messages") or []
    return [one.id for one in messages if one.additional_kwargs.get("lc_source") == "summarization"]


def waits(build: Callable[[Scripted], Any], wanted: int, seconds: float, typing: float) -> tuple[list[float], int]:
    """Return by how much the turns that compacted were slower than the others, and the summarizer's calls."""
    summarizer = Scripted(seconds=seconds, calls=[])
    graph, plain, compacting, before = build(summarizer), list[float](), list[float](), list[str]()
    number = 0
    while len(compacting) < wanted:
        number += 1
        text = f"Entry {number}. " + f"The sea was calm on watch {number}. " * 750
        began = time.perf_counter()
        graph.invoke({"messages": [HumanMessage(text)]}, CONFIG)
        took = time.perf_counter() - began
        now = summaries(graph)
        (plain if now == before else compacting).append(took)
        before = now
        time.sleep(typing)
    usual = statistics.median(plain)
    return sorted(max(0.0, one - usual) for one in compacting), len(summarizer.calls)


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser()
    options.add_argument("--compactions", type=int, default=30)
    options.add_argument("--summary", type=float, default=5.0)
    options.add_argument("--typing", type=float, default=10.0)
    given = options.parse_args()
    systems: dict[str, Callable[[Scripted], Any]] = {
        "ours, `selective`": ours,
        "ours, `faithful`": lambda summarizer: ours(summarizer, preset="faithful"),
        "ours, middleware": our_middleware,
        "ours, `summary_ahead=False`": lambda summarizer: ours(summarizer, summary_ahead=False),
        "`SummarizationMiddleware`": theirs,
    }
    print("| system | added wait, p50 | p99 | summarizer's calls |\n|---|--:|--:|--:|")
    for name, build in systems.items():
        found, calls = waits(build, given.compactions, given.summary, given.typing)
        middle, last = (found[min(len(found) - 1, int(share * len(found)))] for share in (0.5, 0.99))
        print(f"| {name} | {middle / given.summary:.1%} | {last / given.summary:.1%} | {calls} |", flush=True)


if __name__ == "__main__":
    main()
