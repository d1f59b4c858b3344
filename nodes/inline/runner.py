"""Run the nodes of a compaction in the order of the graph's edges, without a graph of their own."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from langchain_core.messages import RemoveMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from ..commit import commit
from ..compaction_request import REQUEST
from ..confirm import confirm
from ..model import model
from ..rollback import rollback
from ..runtime.effects import Effects, arun, either, is_long, run
from ..runtime.node_context import Body, NodeContext, Update, executed
from ..selective_compaction import selective_compaction
from ..state import merge
from ..summarize import summarize
from ..token_check import token_check

NODES: dict[str, Body] = {
    body.__name__: body for body in (token_check, confirm, selective_compaction, summarize, commit, rollback, model)
}
"""Every node by name: the graph is built from this table, and `run_nodes` runs the same functions."""

COMPACTION_NODES = frozenset(NODES) - {"model"}
"""Names of the nodes of a compaction, without the node that calls the model."""


TRACED = COMPACTION_NODES - {"token_check", "confirm"}
"""Names of the nodes that run in a turn that compacts; `confirm` interrupts the run."""


def run_nodes(context: NodeContext, step: str, among: Collection[str] = COMPACTION_NODES) -> Effects[NodeContext]:
    """Run the node `step` and those that follow it, as long as the next node is in `among`; return the last context.

    Stops after a model's answer that ends the turn: the caller decides when to compact after the answer. Stops also
    before the node `model` of a turn that is over, which would only raise the error that the caller raises later.
    """
    while step in among:
        update = yield from (_traced(context, step) if step in TRACED else executed(step, NODES[step], context))
        context = _after(context, update)
        following = context.compaction.get("step", "end")
        if context.compaction.get("route") == "end" and "model" in (step, following):
            break
        step = following
    return context


def _traced(context: NodeContext, step: str) -> Effects[Update]:
    """Run a node as a run of its name below the current one, so that a trace shows it."""
    found: list[Update] = []

    def inside(config: RunnableConfig) -> Effects[Update]:
        return executed(step, NODES[step], replace(context, config=config))

    def told() -> dict[str, Any]:
        return {"step": (found[0].get("compaction") or {}).get("step")}

    def call(_: Any, config: RunnableConfig) -> dict[str, Any]:
        found.append(run(inside(config)))
        return told()

    async def acall(_: Any, config: RunnableConfig) -> dict[str, Any]:
        found.append(await arun(inside(config), off_loop=is_long(context.state["messages"])))
        return told()

    node, given = RunnableLambda(call, acall, name=step), {"tokens": context.size}
    yield from either(lambda: node.invoke(given, context.config), lambda: node.ainvoke(given, context.config))
    return found[0]


def _after(context: NodeContext, update: Update) -> NodeContext:
    """Return the context with a node's update merged into the state, as the graph's reducers merge updates."""
    state: dict[str, Any] = {**context.state}
    if "compaction" in update:
        state["compaction"] = merge(state.get("compaction"), update["compaction"])
    for key in ("compaction_view", REQUEST):
        if key in update:
            state[key] = update[key]
    if said := update.get("messages"):
        gone = {message.id for message in said if isinstance(message, RemoveMessage)}
        new = [message for message in said if not isinstance(message, RemoveMessage)]
        state["messages"] = [*[message for message in state["messages"] if message.id not in gone], *new]
    return NodeContext.of(state, context.config, context.runtime, context.dependencies)
