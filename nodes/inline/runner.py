"""Run the nodes of a compaction in the order of the graph's edges, without a graph of their own."""

from collections.abc import Collection
from typing import Any, cast

from langgraph.types import Overwrite

from ..commit import commit
from ..compaction_request import REQUEST
from ..confirm import confirm
from ..model import model
from ..rollback import rollback
from ..runtime.effects import Effects
from ..runtime.node_context import Body, NodeContext, Update, executed
from ..selective_compaction import selective_compaction
from ..state import CompactionState, merge
from ..summarize import summarize
from ..token_check import token_check

CHANNELS = ("compaction", "memory")
"""The channels of a state that the nodes of a compaction read and write."""

NODES: dict[str, Body] = {
    body.__name__: body for body in (token_check, confirm, selective_compaction, summarize, commit, rollback, model)
}
"""Every node by name: the graph is built from this table, and `run_nodes` runs the same functions."""

COMPACTION_NODES = frozenset(NODES) - {"model"}
"""Names of the nodes of a compaction, without the node that calls the model."""


def run_nodes(context: NodeContext, step: str, among: Collection[str] = COMPACTION_NODES) -> Effects[NodeContext]:
    """Run the node `step` and those that follow it, as long as the next node is in `among`; return the last context.

    Stops after a model's answer that ends the turn: the caller decides when to compact after the answer. Stops also
    before the node `model` of a turn that is over, which would only raise the error that the caller raises later.
    """
    while step in among:
        context = _after(context, (yield from executed(step, NODES[step], context)))
        following = context.compaction.get("step", "end")
        if context.compaction.get("route") == "end" and "model" in (step, following):
            break
        step = following
    return context


def _after(context: NodeContext, update: Update) -> NodeContext:
    """Return the context with a node's update merged into the state, as the graph's reducers merge updates."""
    state: dict[str, Any] = {**context.state}
    for key in CHANNELS:
        if key in update:
            state[key] = merge(state.get(key), update[key])
    if REQUEST in update:
        state[REQUEST] = update[REQUEST]
    new = update.get("messages", [])
    state["messages"] = new.value if isinstance(new, Overwrite) else [*state["messages"], *new]
    return NodeContext(cast("CompactionState", state), context.config, context.runtime, context.dependencies)
