"""What the compaction's nodes cost a turn that compacts nothing: CPU time beside other graphs, interleaved.

    python benchmarks/turn_cost.py

Threads are seeded to so many turns, then further turns run in turn on a bare `StateGraph(model)`, on LangChain's
`create_agent` without and with its SummarizationMiddleware, and on the compacting agent, whose window is far away.
Lower quartile of the rounds; ratios, because machines differ. Writes benchmarks/results/turn_cost.json.
"""

import json
import time
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.graph import CompactionSettings, create_compacting_agent

TURNS = (10, 100, 500, 1_000)
ROUNDS = 24
FAR = 10_000_000
"""Tokens of a window, or of a trigger, that no turn reaches."""
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
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        """Return the answer to a request."""
        usage = {"input_tokens": 100 * len(messages), "output_tokens": 20, "total_tokens": 100 * len(messages) + 20}
        return AIMessage("Understood, it is done.", usage_metadata=usage)


def bare() -> Any:
    """Return the smallest graph that calls a model."""
    model = Instant()

    def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("model", call).add_edge(START, "model")
    return graph.compile(checkpointer=InMemorySaver())


def langchain(*, summarizing: bool) -> Any:
    """Return LangChain's agent, with its SummarizationMiddleware if `summarizing`."""
    middleware = [SummarizationMiddleware(model=Instant(), trigger=("tokens", FAR))] if summarizing else []
    return create_agent(Instant(), middleware=middleware, checkpointer=InMemorySaver())


def compacting() -> Any:
    """Return our agent, with a window that is never reached."""
    settings = CompactionSettings(context_window=FAR)
    return create_compacting_agent(Instant(), settings=settings, summarizer="digest", checkpointer=InMemorySaver())


def conversation(turns: int) -> list[AnyMessage]:
    """Return a conversation of so many turns, with about 400 bytes per message."""
    made: list[AnyMessage] = []
    for turn in range(turns):
        made += [HumanMessage((SENTENCE * 4).format(*[turn] * 4)), AIMessage((SENTENCE * 4).format(*[turn] * 4))]
    return made


def milliseconds(graph: Any, config: dict[str, Any]) -> float:
    """Return the milliseconds of CPU that one turn takes."""
    start = time.process_time()
    graph.invoke({"messages": [("user", "and the next one, please")]}, config)
    return (time.process_time() - start) * 1_000


def measure(turns: int) -> dict[str, float]:
    """Measure the graphs on threads of this length."""
    graphs = {
        "bare": bare(),
        "create_agent": langchain(summarizing=False),
        "summarization": langchain(summarizing=True),
        "compacting": compacting(),
    }
    config = {"configurable": {"thread_id": "bench"}}
    taken: dict[str, list[float]] = {name: [] for name in graphs}
    for graph in graphs.values():
        graph.update_state(config, {"messages": conversation(turns)})
        graph.invoke({"messages": [("user", "warm up")]}, config)
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            taken[name].append(milliseconds(graph, config))
    usual = {name: sorted(times)[ROUNDS // 4] for name, times in taken.items()}
    row = {"turns": turns, **{f"{name}_ms": round(value, 2) for name, value in usual.items()}}
    others = {f"beside_{name}": round(usual["compacting"] / value, 2) for name, value in usual.items()}
    del others["beside_compacting"]
    return {**row, **others}


def main() -> None:
    """Measure, print, write."""
    rows = [measure(turns) for turns in TURNS]
    print("  ".join(rows[0]))
    for row in rows:
        print("  ".join(f"{value:{len(name)}}" for name, value in row.items()))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
