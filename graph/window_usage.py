"""Measure how much of the model's context window a thread uses."""

from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from langgraph_compaction.nodes.runtime.node_context import CompactionNode, NodeContext

from .builder import Graph


@dataclass(frozen=True, kw_only=True)
class WindowUsage:
    """Number of tokens of a thread's next request, with trigger, limit and window to compare it with."""

    tokens: int
    trigger: int
    limit: int
    window: int

    @property
    def left(self) -> int:
        """Number of tokens left below the limit; 0 if the request is over the limit."""
        return max(0, self.limit - self.tokens)


def window_usage(graph: Graph, config: RunnableConfig) -> WindowUsage:
    """Measure a thread as its next turn would; raise `TypeError` for a graph of another package."""
    spec = graph.builder.nodes["token_check"]
    if not isinstance(spec.runnable, CompactionNode):
        raise TypeError("this graph was not made by create_compacting_agent or create_compaction_graph")
    state: Any = {"messages": [], **graph.get_state(config).values}
    context = NodeContext.of(state, config, Runtime(), spec.runnable.dependencies)
    sizes = context.sizes
    return WindowUsage(tokens=context.size, trigger=sizes.trigger, limit=sizes.limit, window=sizes.window)
