"""The updates of an agent's hooks, and the compaction that waits in the `compaction` channel until the agent ends.

The agent's model node writes the answer to `messages` itself. A second write to the channel `messages` in this step
makes LangGraph split the node's entry in `stream_mode="updates"`, so the changes wait in `compaction`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.config import get_config
from langgraph.runtime import Runtime

from langgraph_compaction.nodes.compaction_request import REQUEST
from langgraph_compaction.nodes.inline.runner import CHANNELS
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.effects import Effects, either
from langgraph_compaction.nodes.runtime.node_context import NodeContext, Update
from langgraph_compaction.nodes.state import EMBEDDED, EMBEDDED_IN, CompactionState, replace

KEY = "pending"
"""The key in the channel `compaction` under which the changes wait."""


def pending(given: Sequence[AnyMessage], view: Sequence[AnyMessage]) -> dict[str, Any]:
    """Return the changes that turn the state's messages into `view`; every message must have a unique id."""
    held, order = {message.id: message for message in given}, [message.id for message in view]
    placed = set(order)
    return {
        "order": order,
        "drop": [message.id for message in given if message.id not in placed],
        "clip": {m.id: m for m in view if m.id in held and m != held[m.id]},
        "new": {m.id: m for m in view if m.id not in held},
    }


def in_view(messages: Sequence[AnyMessage], compaction: Mapping[str, Any]) -> list[AnyMessage]:
    """Return the state's messages with the pending changes applied; an equal list if no changes are pending.

    Messages that arrived after the changes were made keep their place: at the end, or after the same neighbor.
    Messages that were removed after the changes were made stay removed. Applying the changes twice has no further
    effect.
    """
    change = compaction.get(KEY)
    if not change:
        return list(messages)
    held, placed, gone = {message.id: message for message in messages}, set(change["order"]), set(change["drop"])
    known = max((n for n, message in enumerate(messages) if message.id in placed or message.id in gone), default=-1)
    found, neighbor = {**change["new"], **held, **_only(change["clip"], held)}, None
    between: dict[str | None, list[AnyMessage]] = {}
    for message in messages[: known + 1]:
        if message.id in placed:
            neighbor = message.id
        elif message.id not in gone:
            between.setdefault(neighbor, []).append(message)
    view = list(between.get(None, ()))
    for name in change["order"]:
        view += [*([found[name]] if name in found else []), *between.get(name, ())]
    return [*view, *messages[known + 1 :]]


def _only(clipped: Mapping[str, AnyMessage], held: Mapping[str | None, AnyMessage]) -> dict[str, AnyMessage]:
    return {name: message for name, message in clipped.items() if name in held}


def config_of_run() -> RunnableConfig:
    """Return the configuration of the current run; an empty one if the hook is called outside of a run."""
    try:
        return get_config()
    except RuntimeError:
        return {}


def context_of_hook(state: Any, runtime: Runtime[Any] | None, dependencies: Dependencies) -> NodeContext:
    """Return the context for a hook's nodes, with compactions applied that the state stores as pending."""
    config = config_of_run()
    missing = {key: value for key, value in _of_parent(config).items() if not state.get(key)}
    found = {**state, **missing}
    found["messages"] = in_view(found["messages"], found.get("compaction") or {})
    return NodeContext(cast("CompactionState", found), config, runtime or Runtime(), dependencies)


def _of_parent(config: RunnableConfig) -> dict[str, Any]:
    """Return the channels that a parent graph stores for the agent in its node; empty for an agent nested deeper."""
    configurable = config.get("configurable", {})
    above, _, _ = str(configurable.get("checkpoint_ns") or "").rpartition("|")
    if configurable.get(EMBEDDED_IN) != above:
        return {}
    parent: Mapping[str, Any] = configurable.get(EMBEDDED) or {}
    return {key: parent[key] for key in CHANNELS if parent.get(key)}


def update_of_hook(context: NodeContext, given: Sequence[Any]) -> Update:
    """Return a hook's update after its nodes: the changed channels, and the messages if they were replaced.

    `given` are the messages of the state.
    """
    update, left = _channels_update(context), list(context.state["messages"])
    if left != list(given):
        update["messages"] = replace(left)
    if context.compaction.get(KEY):
        update["compaction"] = {**context.compaction, KEY: None}
    return update


def keep_from_streaming(update: Update) -> Effects[None]:
    """Keep `stream_mode="messages"` from streaming the messages of a replaced list again.

    An agent that is a node of another graph returns its whole list, and LangGraph streams each message that no node
    had as input before. So a runnable with this node's name gets the list as input and returns nothing.
    """
    if "messages" not in update:
        return
    config, given = config_of_run(), {"messages": update["messages"].value}

    def nothing(_: Any) -> None: ...

    async def anothing(_: Any) -> None: ...

    node = RunnableLambda(nothing, afunc=anothing, name=config.get("metadata", {}).get("langgraph_node"))
    yield from either(lambda: node.invoke(given, config), lambda: node.ainvoke(given, config))


def model_call_update(
    context: NodeContext, given: Sequence[Any], view: Sequence[Any], beside: Sequence[Any]
) -> Update:
    """Return a model call's update without `messages`, into which the agent's own model node writes the answer.

    `given` are the messages of the state, `view` those that the nodes began with. A replaced list is stored as
    pending changes. If messages of the state lack unique ids, changes could not be stored by id; then the list is
    written at once, followed by the messages of the response, `beside`.
    """
    update, left = _channels_update(context), list(context.state["messages"])
    kept = left[:-1] if answer_of(context, view) else left
    if kept == list(view):
        return update
    if len({message.id for message in given} - {None}) < len(given):
        return {**update, "messages": replace([*kept, *beside]), "compaction": {**context.compaction, KEY: None}}
    return {**update, "compaction": {**context.compaction, KEY: pending(given, kept)}}


def _channels_update(context: NodeContext) -> Update:
    state: Mapping[str, Any] = context.state
    update: Update = {key: state[key] for key in CHANNELS if state.get(key)}
    if REQUEST in state and state[REQUEST] is None:
        update[REQUEST] = None  # the request was read
    return update


def answer_of(context: NodeContext, given: Sequence[Any]) -> AIMessage | None:
    """Return the model's answer of this turn, if there is one: a last message by the assistant that is new."""
    last = context.state["messages"][-1] if context.state["messages"] else None
    known = {message.id for message in given}
    return last if isinstance(last, AIMessage) and last.id not in known else None


def newest_answer(messages: Sequence[Any]) -> str:
    """Return the id of the newest assistant message, or an empty text without such a message."""
    return next((str(message.id) for message in reversed(messages) if isinstance(message, AIMessage)), "")
