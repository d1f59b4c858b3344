"""Routers: they read the step that a node stored and never raise (a router that raises ends a run silently).

A wrong step raises earlier, in the wrapper of the node that named it.
"""

from collections.abc import Callable, Hashable

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.graph import END
from langgraph.types import Send

from langgraph_compaction.nodes.state import CompactionState
from langgraph_compaction.nodes.transitions import NEXT

Edges = dict[Hashable, str]
"""The path map of a conditional edge: where each word of a router leads. Drawings show the words."""

AGENT_EDGES: dict[str, Edges] = {
    node: {word: END if step == "end" else step for step, word in steps.items()} for node, steps in NEXT.items()
}
"""Where each node of the agent may go."""

COMPACTION_EDGES: dict[str, Edges] = {
    node: {word: END if target == "model" else target for word, target in edges.items()}
    for node, edges in AGENT_EDGES.items()
    if node != "model"
}
"""The same without model and tools: what would go to the model ends."""

TOOLS_EDGES: Edges = {"results": "token_check", "returned directly": END}


def by_step(node: str) -> Callable[[CompactionState], str]:
    """A router behind this node: the word of the stored step.

    The step is one of the table's: the node's wrapper has checked it. Another one can only stand there after
    `update_state`, which runs no node; it ends the turn, or rolls back where the node cannot end it.
    """
    words = NEXT[node]
    otherwise = words.get("end") or words["rollback"]

    def route(state: CompactionState) -> str:
        step = (state.get("compaction") or {}).get("step", "end")
        return words.get(step, otherwise)

    return route


_ANSWERED = NEXT["model"]["end"]


def after_model(state: CompactionState) -> str | list[Send]:
    """One task for each tool call, so that a failing call does not make its siblings run again; else the step."""
    step = (state.get("compaction") or {}).get("step", "end")
    if step == "tools":
        last = state["messages"][-1]
        calls = last.tool_calls if isinstance(last, AIMessage) else []
        return [Send("tools", [{**call, "type": "tool_call"}]) for call in calls] or _ANSWERED
    return NEXT["model"].get(step, _ANSWERED)


def after_tools(direct: frozenset[str]) -> Callable[[CompactionState], str]:
    """Back to the check; to the end where every result comes from a tool that returns directly."""

    def route(state: CompactionState) -> str:
        results = _newest_results(state["messages"])
        returned = results and all(result.name in direct for result in results)
        return "returned directly" if returned else "results"

    return route


def _newest_results(messages: list[AnyMessage]) -> list[ToolMessage]:
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        results.append(message)
    return results
