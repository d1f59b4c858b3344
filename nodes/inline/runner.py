"""Run the nodes of a compaction in the order of the graph's edges, without a graph of their own."""

from collections.abc import Mapping
from typing import Any, cast

from langgraph.types import Overwrite

from ..commit import commit
from ..compaction_request import REQUEST
from ..confirm import confirm
from ..effects import Effects
from ..model import model
from ..rollback import rollback
from ..runtime.node_context import Body, NodeContext, Update, executed
from ..selective_compaction import selective_compaction
from ..state import CompactionState, merge
from ..summarize import summarize
from ..token_check import token_check

CHANNELS = ("compaction", "memory")
"""The channels of a state that belong to the compaction."""

COMPACTION_NODES: Mapping[str, Body] = {
    body.__name__: body for body in (token_check, confirm, selective_compaction, summarize, commit, rollback)
}
"""The nodes of a compaction by name, without the model's node."""

ALL_NODES: Mapping[str, Body] = {**COMPACTION_NODES, "model": model}


def run_nodes(context: NodeContext, step: str, nodes: Mapping[str, Body] = COMPACTION_NODES) -> Effects[NodeContext]:
    """Run the node `step` and those that follow it, until the next one is not among `nodes`.

    Ends after the model's answer where that ends the turn: what is due then is left to the caller.
    """
    while step in nodes:
        context = _after(context, (yield from executed(step, nodes[step], context)))
        if step == "model" and context.compaction.get("route") == "end":
            break
        step = context.compaction.get("step", "end")
    return context


def _after(context: NodeContext, update: Update) -> NodeContext:
    """The context with a node's update in its state, as the graph's reducers would put it there."""
    state: dict[str, Any] = {**context.state}
    for key in CHANNELS:
        if key in update:
            state[key] = merge(state.get(key), update[key])
    if REQUEST in update:
        state[REQUEST] = update[REQUEST]
    new = update.get("messages", [])
    state["messages"] = new.value if isinstance(new, Overwrite) else [*state["messages"], *new]
    return NodeContext(cast("CompactionState", state), context.config, context.runtime, context.dependencies)
