"""What the compaction's nodes cost a turn that compacts nothing: wall time beside a bare graph, interleaved.

    python benchmarks/turn_cost.py

Threads are seeded to so many turns, then further turns run in turn on a bare `StateGraph(model)` and on the
compacting agent, whose window is far away. Best of the rounds; a ratio, because machines differ. Writes
benchmarks/results/turn_cost.json.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.graph import CompactionSettings, create_compacting_agent

TURNS = (10, 100, 500)
ROUNDS = 15
SENTENCE = "The quick brown fox jumps over the lazy dog and writes its report about ticket number {}. "
RESULTS = Path(__file__).parent / "results" / "turn_cost.json"


class Instant(BaseChatModel):
    """A model that answers at once and reports usage."""

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the same
        **_: Any,
    ) -> ChatResult:
        usage = {"input_tokens": 100 * len(messages), "output_tokens": 20, "total_tokens": 100 * len(messages) + 20}
        answer = AIMessage("Understood, it is done.", usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def bare() -> Any:
    """Return the smallest graph that calls a model."""
    model = Instant()

    def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("model", call).add_edge(START, "model")
    return graph.compile(checkpointer=InMemorySaver())


def compacting() -> Any:
    """Return our agent, with a window that is never reached."""
    settings = CompactionSettings(context_window=10_000_000)
    return create_compacting_agent(Instant(), settings=settings, summarizer="digest", checkpointer=InMemorySaver())


def conversation(turns: int) -> list[AnyMessage]:
    """Return a conversation of so many turns, with about 400 bytes per message."""
    made: list[AnyMessage] = []
    for turn in range(turns):
        made += [HumanMessage((SENTENCE * 4).format(*[turn] * 4)), AIMessage((SENTENCE * 4).format(*[turn] * 4))]
    return made


def milliseconds(graph: Any, config: dict[str, Any]) -> float:
    """Return the milliseconds that one turn takes."""
    start = time.perf_counter()
    graph.invoke({"messages": [("user", "and the next one, please")]}, config)
    return (time.perf_counter() - start) * 1_000


def measure(turns: int) -> dict[str, float]:
    """Measure both graphs on threads of this length, and return the best of the rounds."""
    graphs: Sequence[tuple[str, Any]] = (("bare", bare()), ("compacting", compacting()))
    config = {"configurable": {"thread_id": "bench"}}
    best = {name: float("inf") for name, _ in graphs}
    for _, graph in graphs:
        graph.update_state(config, {"messages": conversation(turns)})
        graph.invoke({"messages": [("user", "warm up")]}, config)
    for _ in range(ROUNDS):
        for name, graph in graphs:
            best[name] = min(best[name], milliseconds(graph, config))
    row = {"turns": turns, **{f"{name}_ms": round(value, 2) for name, value in best.items()}}
    row["ratio"] = round(best["compacting"] / best["bare"], 2)
    return row


def main() -> None:
    """Measure, print, write."""
    rows = [measure(turns) for turns in TURNS]
    print("turns    bare ms    compacting ms    ratio")
    for row in rows:
        print(f"{row['turns']:5}  {row['bare_ms']:9}  {row['compacting_ms']:15}  {row['ratio']:7}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
