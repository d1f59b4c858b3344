"""Measure how much of the model's context window a thread uses."""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from langgraph_compaction.nodes.runtime.node_context import CompactionNode, NodeContext
from langgraph_compaction.nodes.runtime.window_usage import WindowUsage

from .builder import Graph


def window_usage(graph: Graph, config: RunnableConfig) -> WindowUsage:
    """Measure a thread as its next turn would; raise `TypeError` for a graph of another package."""
    spec = graph.builder.nodes["token_check"]
    if not isinstance(spec.runnable, CompactionNode):
        raise TypeError("this graph was not made by create_compacting_agent or create_compaction_graph")
    state: Any = {"messages": [], **graph.get_state(config).values}
    context = NodeContext.of(state, config, Runtime(), spec.runnable.dependencies)
    return context.usage_of(context.messages, context.size)
