"""Routers: they read the step that a node stored and never raise (a router that raises ends a run silently).

A wrong step raises earlier, in the wrapper of the node that named it.
"""

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.graph import END
from langgraph.types import Send

from langgraph_compaction.nodes.state import CompactionState
from langgraph_compaction.nodes.transitions import NEXT

AGENT_EDGES: dict[str, tuple[str, ...]] = {
    node: tuple(END if step == "end" else step for step in steps) for node, steps in NEXT.items()
}
"""Where each node of the agent may go."""

COMPACTION_EDGES = {
    name: tuple(target for target in targets if target != "model")
    for name, targets in AGENT_EDGES.items()
    if name != "model"
}
"""The same without model and tools: what would go to the model ends."""


def by_step(targets: tuple[str, ...]) -> Callable[[CompactionState], str]:
    """A router to the stored step; to the end where that is no node of this graph.

    The step is one of the table's: the node's wrapper has checked it. Another one can only stand there after
    `update_state`, which runs no node.
    """

    def route(state: CompactionState) -> str:
        step = (state.get("compaction") or {}).get("step", "end")
        return step if step in targets else END

    return route


def after_model(state: CompactionState) -> str | list[Send]:
    """One task for each tool call, so that a failing call does not make its siblings run again; else the step."""
    step = (state.get("compaction") or {}).get("step", "end")
    if step == "tools":
        last = state["messages"][-1]
        calls = last.tool_calls if isinstance(last, AIMessage) else []
        return [Send("tools", [{**call, "type": "tool_call"}]) for call in calls] or END
    return step if step in AGENT_EDGES["model"] else END


def after_tools(direct: frozenset[str]) -> Callable[[CompactionState], str]:
    """Back to the check; to the end where every result comes from a tool that returns directly."""

    def route(state: CompactionState) -> str:
        results = _newest_results(state["messages"])
        return END if results and all(result.name in direct for result in results) else "token_check"

    return route


def _newest_results(messages: list[AnyMessage]) -> list[ToolMessage]:
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        results.append(message)
    return results


def paths(targets: tuple[str, ...]) -> dict[Any, str]:
    """The path map of a conditional edge."""
    return {target: target for target in targets}
