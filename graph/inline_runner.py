"""The nodes of a compaction run one after the other inside another graph's node, without a graph of their own."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from langgraph_compaction.nodes.commit import commit
from langgraph_compaction.nodes.compaction_request import REQUEST
from langgraph_compaction.nodes.confirm import confirm
from langgraph_compaction.nodes.effects import Effects, either
from langgraph_compaction.nodes.model import model
from langgraph_compaction.nodes.rollback import rollback
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.node_context import Body, NodeContext, Update, executed
from langgraph_compaction.nodes.selective_compaction import selective_compaction
from langgraph_compaction.nodes.state import EMBEDDED, EMBEDDED_IN, CompactionState, merge, replace
from langgraph_compaction.nodes.summarize import summarize
from langgraph_compaction.nodes.token_check import token_check

from .pending import KEY, in_view, pending

NODES: Mapping[str, Body] = {
    body.__name__: body for body in (token_check, confirm, selective_compaction, summarize, commit, rollback)
}
"""The compaction without the model."""
OURS = ("compaction", "memory")
"""The channels of a compaction."""
WITH_MODEL: Mapping[str, Body] = {**NODES, "model": model}


def begun(state: Any, runtime: Runtime[Any], dependencies: Dependencies) -> NodeContext:
    """The turn that the node now running is in."""
    config = get_config()
    missing = {key: value for key, value in _of_parent(config).items() if not state.get(key)}
    found = {**state, **missing}
    found["messages"] = in_view(found["messages"], found.get("compaction") or {})
    return NodeContext(cast("CompactionState", found), config, runtime, dependencies)


def _of_parent(config: RunnableConfig) -> dict[str, Any]:
    """What a parent keeps for an agent that `as_node` runs in it; an agent deeper down has nothing of it."""
    configurable = config.get("configurable", {})
    above, _, _ = str(configurable.get("checkpoint_ns") or "").rpartition("|")
    if configurable.get(EMBEDDED_IN) != above:
        return {}
    parent: Mapping[str, Any] = configurable.get(EMBEDDED) or {}
    return {key: parent[key] for key in OURS if parent.get(key)}


def driven(context: NodeContext, step: str, nodes: Mapping[str, Body]) -> Effects[NodeContext]:
    """Run node after node as the graph's edges would, until none of these is due or the model has answered for good.

    What is due after an answer is left to the caller.
    """
    while step in nodes:
        context = _after(context, (yield from executed(step, nodes[step], context)))
        if step == "model" and context.compaction.get("route") == "end":
            break
        step = context.compaction.get("step", "end")
    return context


def _after(context: NodeContext, update: Update) -> NodeContext:
    """The turn with a node's update in its state, as the graph's reducers would put it there."""
    state: dict[str, Any] = {**context.state}
    for key in OURS:
        if key in update:
            state[key] = merge(state.get(key), update[key])
    if REQUEST in update:
        state[REQUEST] = update[REQUEST]
    new = update.get("messages", [])
    state["messages"] = new.value if isinstance(new, Overwrite) else [*state["messages"], *new]
    return NodeContext(cast("CompactionState", state), context.config, context.runtime, context.dependencies)


def changed(context: NodeContext, given: Sequence[Any]) -> Update:
    """The update of a hook that a turn was driven in: its channels, and the messages where they were replaced.

    `given` are the messages of the state.
    """
    update, left = _heard(context), list(context.state["messages"])
    if left != list(given):
        update["messages"] = replace(left)
    if context.compaction.get(KEY):
        update["compaction"] = {**context.compaction, KEY: None}
    return update


def shown(update: Update) -> Effects[None]:
    """Tell `stream_mode="messages"` that a replaced list holds nothing new.

    An agent that is a node of another graph returns all of its list, and LangGraph streams what no node was given
    before. So a run by this node's name is given the list, and returns nothing.
    """
    if "messages" not in update:
        return
    config, given = get_config(), {"messages": update["messages"].value}

    def nothing(_: Any) -> None: ...

    async def anothing(_: Any) -> None: ...

    node = RunnableLambda(nothing, afunc=anothing, name=config.get("metadata", {}).get("langgraph_node"))
    yield from either(lambda: node.invoke(given, config), lambda: node.ainvoke(given, config))


def changed_beside_answer(
    context: NodeContext, given: Sequence[Any], view: Sequence[Any], beside: Sequence[Any]
) -> Update:
    """The update of a model's call, of which `messages` is no part: its caller writes the answer there.

    `view` is what the turn began with, out of the messages of the state, `given`. Where it was replaced, that is
    pending; only in a state that has messages without ids of their own is all of the list written at once, with the
    messages of the response, which stand `beside` it.
    """
    update, left = _heard(context), list(context.state["messages"])
    kept = left[:-1] if answer_of(context, view) else left
    if kept == list(view):
        return update
    if len({message.id for message in given} - {None}) < len(given):
        return {**update, "messages": replace([*kept, *beside]), "compaction": {**context.compaction, KEY: None}}
    return {**update, "compaction": {**context.compaction, KEY: pending(given, kept)}}


def _heard(context: NodeContext) -> Update:
    state: Mapping[str, Any] = context.state
    update: Update = {key: state[key] for key in OURS if state.get(key)}
    if REQUEST in state and state[REQUEST] is None:
        update[REQUEST] = None  # it was heard
    return update


def answer_of(context: NodeContext, given: Sequence[Any]) -> AIMessage | None:
    """The model's answer, if it gave one in this turn: a compaction writes no assistant messages."""
    last = context.state["messages"][-1] if context.state["messages"] else None
    known = {message.id for message in given}
    return last if isinstance(last, AIMessage) and last.id not in known else None


def newest_answer(messages: Sequence[Any]) -> str:
    """The id of the newest assistant message; empty without one."""
    return next((str(message.id) for message in reversed(messages) if isinstance(message, AIMessage)), "")
