"""The updates of an agent's hooks, and the compaction that waits in the `compaction` channel until the agent ends.

The agent's model node writes the answer to `messages` itself. A second write to the channel `messages` in this step
makes LangGraph split the node's entry in `stream_mode="updates"`, so the changes wait in `compaction`.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.config import get_config
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime

from langgraph_compaction.checkpoint.messages.message_codec import fingerprint
from langgraph_compaction.nodes.compaction_request import REQUEST
from langgraph_compaction.nodes.inline.runner import CHANNELS
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.effects import Effects, either
from langgraph_compaction.nodes.runtime.node_context import NodeContext, Update
from langgraph_compaction.nodes.state import EMBEDDED, EMBEDDED_IN, CompactionState, replace, with_ids

KEY = "pending"
"""The key in the channel `compaction` under which the changes wait."""

READ = "__pregel_read"
"""Key in a run's configuration under which LangGraph puts a function that reads a channel."""


def pending(given: Sequence[AnyMessage], view: Sequence[AnyMessage], state: Sequence[Any] = ()) -> dict[str, Any]:
    """Return the changes that turn the messages `given` into `view`; every message must have a unique id.

    `state` is the list as the state has it, where messages may lack ids; a reducer may give them one later.
    """
    held, order = {message.id: message for message in given}, [message.id for message in view]
    placed = set(order)
    return {
        "order": order,
        "drop": [message.id for message in given if message.id not in placed],
        "clip": {m.id: m for m in view if m.id in held and m != held[m.id]},
        "new": {m.id: m for m in view if m.id not in held},
        "unnamed": {
            m.id: _content(m) for m, had in zip(given, state, strict=False) if getattr(had, "id", None) != m.id
        },
    }


def in_view(messages: Sequence[AnyMessage], compaction: Mapping[str, Any]) -> list[AnyMessage]:
    """Return the state's messages with the pending changes applied, each with an id; the same ids at every call.

    Messages that arrived after the changes were made keep their place: at the end, or after the same neighbor.
    Messages that were removed after the changes were made stay removed. Applying the changes twice has no further
    effect.
    """
    change, messages = compaction.get(KEY), with_ids(messages, derived=True)
    if not change:
        return messages
    placed, gone = set(change["order"]), set(change["drop"])
    messages = _named_as_before(messages, change["unnamed"], placed | gone)
    held = {message.id: message for message in messages}
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


def _content(message: AnyMessage) -> str:
    return fingerprint(message.model_copy(update={"id": None}))


def _named_as_before(
    messages: Sequence[AnyMessage], unnamed: Mapping[str, str], known: Collection[str | None]
) -> list[AnyMessage]:
    """Return the messages with the ids that the changes use for those which had none when the changes were made."""
    held = {message.id for message in messages}
    names: dict[str, deque[str]] = {}
    for name, content in unnamed.items():
        if name not in held:
            names.setdefault(content, deque()).append(name)
    found = list(messages)
    for n, message in enumerate(messages if names else ()):
        if message.id not in known and (same := names.get(_content(message))):
            found[n] = message.model_copy(update={"id": same.popleft()})
    return found


def _only(clipped: Mapping[str, AnyMessage], held: Mapping[str | None, AnyMessage]) -> dict[str, AnyMessage]:
    return {name: message for name, message in clipped.items() if name in held}


def config_of_run() -> RunnableConfig:
    """Return the configuration of the current run; an empty one if the hook is called outside of a run."""
    try:
        return get_config()
    except RuntimeError:
        return {}


def has_channel(config: RunnableConfig, name: str) -> bool | None:
    """Return whether the graph that runs with this configuration has such a channel; None outside of a run."""
    read = config.get("configurable", {}).get(READ)
    if read is None:
        return None
    try:
        read(name)
    except KeyError:
        return False
    return True


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

    `given` are the messages of the state. The replaced list is a list of messages, which begins with the removal of
    all earlier ones, so that a reader of the update finds the newest message at its end.
    """
    update, left = _channels_update(context), list(context.state["messages"])
    if left != with_ids(given, derived=True):
        update["messages"] = [RemoveMessage(REMOVE_ALL_MESSAGES), *replace(left).value]
    if context.compaction.get(KEY):
        update["compaction"] = {**update["compaction"], KEY: None}
    return update


def keep_from_streaming(update: Update) -> Effects[None]:
    """Keep `stream_mode="messages"` from streaming the messages of a replaced list again.

    An agent that is a node of another graph returns its whole list, and LangGraph streams each message that no node
    had as input before. So a runnable with this node's name gets the list as input and returns nothing.
    """
    if "messages" not in update:
        return
    config, given = config_of_run(), {"messages": update["messages"]}

    def nothing(_: Any) -> None: ...

    async def anothing(_: Any) -> None: ...

    node = RunnableLambda(nothing, afunc=anothing, name=config.get("metadata", {}).get("langgraph_node"))
    yield from either(lambda: node.invoke(given, config), lambda: node.ainvoke(given, config))


def model_call_update(
    context: NodeContext, state: Sequence[Any], given: Sequence[AnyMessage], view: Sequence[AnyMessage]
) -> Update:
    """Return a model call's update without `messages`, into which the agent's own model node writes the answer.

    `given` are the messages of `state` with ids, `view` those that the nodes began with. A replaced list is stored as
    pending changes.
    """
    update, left = _channels_update(context), list(context.state["messages"])
    kept = left[:-1] if answer_of(context, view) else left
    if kept == list(view):
        return update
    return {**update, "compaction": {**update["compaction"], KEY: pending(given, kept, state)}}


def _channels_update(context: NodeContext) -> Update:
    state: Mapping[str, Any] = context.state
    update: Update = {key: state[key] for key in CHANNELS if state.get(key)}
    if REQUEST in state and state[REQUEST] is None:
        update[REQUEST] = None  # the request was read
    if sizes := context.compaction.get("sizes"):  # after a restart, the model is not known before its first call
        update["compaction"] = {**context.compaction, "sizes": {**sizes, "window": context.sizes.window}}
    return update


def answer_of(context: NodeContext, given: Sequence[Any]) -> AIMessage | None:
    """Return the model's answer of this turn, if there is one: a last message by the assistant that is new."""
    last = context.state["messages"][-1] if context.state["messages"] else None
    known = {message.id for message in given}
    return last if isinstance(last, AIMessage) and last.id not in known else None


def newest_answer(messages: Sequence[Any]) -> str:
    """Return the id of the newest assistant message, or an empty text without such a message."""
    return next((str(message.id) for message in reversed(messages) if isinstance(message, AIMessage)), "")
